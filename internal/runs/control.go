package runs

import (
	"context"
	"errors"
	"slices"

	"orgops/internal/ledger"
)

// Cancel cancels a run and returns how many rows that settled: none if the run has ended.
// Rows in progress finish first, and the run ends with the last of them. A run that is
// still being submitted ends without rows. It is not deleted, so that its producer does not
// create it again.
func (l *Ledger) Cancel(ctx context.Context, run string) (rows int64, err error) {
	header, err := l.header(ctx, run)
	if err != nil {
		return 0, err
	}
	before, err := l.counts(ctx, header)
	if err != nil {
		return 0, err
	}
	if err := l.core.Cancel(ctx, header.ID); err != nil {
		if errors.Is(err, ledger.ErrEnded) {
			return 0, nil
		}
		return 0, err
	}
	if header, err = l.core.Get(ctx, header.ID); err != nil { // it may have been committed meanwhile
		return 0, err
	}
	after, err := l.core.Counts(ctx, header)
	return after[ledger.Cancelled] - before[ledger.Cancelled], err
}

// Delete deletes a run that has ended, or is still being submitted: its rows and their
// results. The error is [ErrOpen] if it has not ended.
func (l *Ledger) Delete(ctx context.Context, run string) error {
	return l.core.Delete(ctx, ledger.RunID(run))
}

// Pause stops the rows of the run from starting. To pause again is harmless. The error is
// [ErrEnded] if the run has ended, or was cancelled.
func (l *Ledger) Pause(ctx context.Context, run string) error {
	header, err := l.header(ctx, run)
	if err != nil {
		return err
	}
	if header.Control.Cancelled {
		return ErrEnded
	}
	return l.core.Pause(ctx, header.ID)
}

// Resume lets the rows of the run start again. To resume a run that is not paused is
// harmless. The error is [ErrEnded] if the run has ended.
func (l *Ledger) Resume(ctx context.Context, run string) error {
	header, err := l.header(ctx, run)
	if err != nil {
		return err
	}
	if header.Control.Cancelled && !header.Ended() {
		return nil
	}
	return l.core.Resume(ctx, header.ID)
}

// Adopt records that child repeats rows of parent, a run that has ended, as it was read. It
// is called before the child is created: a producer that dies in between leaves a child that
// does not exist yet, and a retry with the same id completes it. A child that is recorded
// already changes nothing. The error is [ErrOpen] if the run has not ended, [ErrRaced] if it
// got another child since it was read.
func (l *Ledger) Adopt(ctx context.Context, parent Run, child string) error {
	if slices.Contains(parent.Children, child) {
		return nil
	}
	header, err := l.core.Get(ctx, ledger.RunID(parent.ID))
	if err != nil {
		return err
	}
	if !slices.Equal(fromLedger(header, nil).Children, parent.Children) {
		return ErrRaced
	}
	return l.core.Adopt(ctx, header, ledger.RunID(child))
}
