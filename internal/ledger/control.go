package ledger

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Pause stops the run's rows from beginning. Rows in progress may be settled, but begin no
// further request; rows with an intent are finished. The error is [ErrEnded] if the run
// has ended or was cancelled.
func (l *Ledger) Pause(ctx context.Context, t Tenant, run RunID) error {
	_, err := l.control(ctx, "pause", t, run, pausedFlag, "")
	return err
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, t Tenant, run RunID) error {
	resumed, err := l.control(ctx, "resume", t, run, "", pausedFlag)
	if err == nil {
		_ = l.Wake(ctx, resumed.Tenant) // else the next poll finds the rows
	}
	return err
}

// Cancel settles the rows of the run as cancelled. Rows in progress and rows with an
// intent are finished, and the run ends with the last of them. It is final. A staged run
// ends without rows. The error is [ErrEnded] if the run has ended. If Cancel is interrupted, no row
// begins any more, and a dispatcher does the rest. Rows of a segment that cannot be read keep no
// cancelled run open: it ends without them once all others are settled. If some are not, the error
// says so, and Cancel is to be called again.
func (l *Ledger) Cancel(ctx context.Context, t Tenant, id RunID) error {
	run, err := l.control(ctx, "cancel", t, id, cancelledFlag, "")
	if err != nil {
		return err
	}
	// No row of the run begins any more. A release settles those of a segment that have not begun.
	var numbers []int
	for number := range run.Segments {
		numbers = append(numbers, number)
	}
	if run.Scan != nil {
		numbers = append(numbers, ScanSegment)
	}
	var mu sync.Mutex
	var lost []int // segments that cannot be read
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, number := range numbers {
		group.Go(func() error {
			_, err := l.Release(within, run.segment(number), Quota{})
			if unreadable(err) {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, number)
				return nil
			}
			return err
		})
	}
	err = group.Wait()

	// Rows of segments that cannot be read are given up.
	if err == nil && len(lost) > 0 {
		err = l.abandon(ctx, run, lost)
	}
	if err != nil && !isNotFound(err) { // a run that was deleted meanwhile needs nothing more
		return fmt.Errorf("run %s: cancel its rows: %w", id, err)
	}
	return nil
}

// MakeDue makes a row due at that time, or now if that is over, that waits for a later one after an
// execution: RowWritten. If the row is in progress, its execution may have queried DNS or the API
// before the call, so the row is due again once the execution has ended, by that time: RowWritten
// too. RowDue: an execution of the row begins by itself, without a write. A row with an intent is
// left as it is, since it waits for its request, and so is one that has not been executed. One
// whose last attempt failed waits for the next as long as without the call, so that no number of
// calls uses up its attempts: RowFailing.
func (l *Ledger) MakeDue(ctx context.Context, seg Segment, row Row, by time.Time) (Status, error) {
	var due int64
	if !by.IsZero() {
		due = by.UnixMilli()
	}
	r, err := l.write(ctx, seg, rowWrite{"make due", makeDueScript, checkRows([]Row{row}), []any{due},
		rowParts([]Row{row}, 1)})
	if err != nil {
		return "", err
	}
	if r.Statuses[0] == RowWritten {
		_ = l.Wake(ctx, seg.Tenant) // else the next poll finds the row
	}
	return r.Statuses[0], nil
}

// control stores a change of the flags in the header, where the scripts of the segments read them.
func (l *Ledger) control(ctx context.Context, operation string, t Tenant, id RunID,
	set, unset string) (run Run, err error) {
	defer wrap(&err, "run %s: %s", id, operation)
	if run, err = l.Run(ctx, t, id); err != nil {
		return Run{}, err
	}
	keys := append(runKeys(run), headerKey(t, run.Parent, "header"))
	a, err := l.do(ctx, controlScript, keys, []any{run.entry(), set, unset})
	if err != nil {
		return Run{}, err
	}
	return parseRun(t, id, a.hash(1))
}

// Finish stores that the follow-ups of a run's end, such as notifications, are done. The
// dispatcher calls it after them. Until then [Ledger.TakeDue] returns the run, so that
// another dispatcher repeats follow-ups that were interrupted. From then on the retention counts.
// The error is [ErrOpen] if the run has not ended.
func (l *Ledger) Finish(ctx context.Context, t Tenant, id RunID) (err error) {
	defer wrap(&err, "run %s: finish", id)
	run, err := l.Run(ctx, t, id)
	if err == nil {
		_, err = l.onHeader(ctx, finishScript, run, cmp.Or(run.KeepFor, Retention).Milliseconds())
	}
	return err
}
