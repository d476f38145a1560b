package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Pause stops the run's rows from beginning. Rows in progress may be settled, but begin no
// further request; rows with an intent are finished. The error is [ErrEnded] if the run
// has ended or was cancelled.
func (l *Ledger) Pause(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "pause", run, change{set: pausedFlag})
	return err
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, run RunID) error {
	resumed, err := l.control(ctx, "resume", run, change{clear: pausedFlag})
	if err == nil {
		_ = l.Wake(ctx, resumed.Tenant) // else the next poll finds the rows
	}
	return err
}

// Cancel settles the rows of the run as cancelled. Rows in progress and rows with an
// intent are finished, and the run ends with the last of them. It is final. A staged run
// ends without rows. The error is [ErrEnded] if the run has ended.
func (l *Ledger) Cancel(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "cancel", run, change{set: cancelledFlag})
	return err
}

// control stores the change in the header, then copies the header's control to each
// segment. If it returns an error after the first of these, a dispatcher does the rest.
func (l *Ledger) control(ctx context.Context, operation string, id RunID, c change) (Run, error) {
	run, err := l.Get(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if run.Cancelled && c.set == pausedFlag {
		err = ErrEnded
	} else {
		_, err = l.syncRun(ctx, run, c) // first the rows: the node of the tenant's lists may be away
		err = errors.Join(err, l.relist(ctx, run))
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %s: %w", id, operation, err)
	}
	return run, nil
}
