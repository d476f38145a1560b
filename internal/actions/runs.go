package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/status"
)

// Cancel cancels the run in the name of a user, and returns the effect in words.
func Cancel(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	ended := l.Cancel(ctx, run.Tenant, run.ID)
	if ended != nil && !errors.Is(ended, ledger.ErrEnded) {
		return "", ended
	}
	r, err := l.Run(ctx, run.Tenant, run.ID) // it may have been committed meanwhile
	if err != nil {
		return "", err
	}
	rows := r.Counts[ledger.Cancelled] - run.Counts[ledger.Cancelled]
	if ended == nil && run.CancelledAt.IsZero() {
		by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Cancelled, "rows that were open: "+status.Grouped(rows)))
	}
	switch {
	case ended != nil:
	case rows == 0 && !run.HasAllRows() && run.Scan == nil:
		return "cancelled: it was still being submitted, and none of its rows had started", nil
	case rows == 0 && !run.HasAllRows() && run.CancelledAt.IsZero():
		return "cancelled: its scan had found no row that was open", nil
	case rows > 0 && r.Ended():
		return "cancelled; rows that were open: " + status.Grouped(rows), nil
	case rows > 0:
		return fmt.Sprintf("cancelled; rows that were open: %s; %s", status.Grouped(rows), status.UnderWay(r)), nil
	}
	return "nothing is left to cancel: " + status.State(r), nil
}

// Pause pauses the run in the name of a user, and returns the effect in words.
func Pause(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	if err := l.Pause(ctx, run.Tenant, run.ID); err != nil {
		return "", err
	}
	if !run.Paused {
		by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Paused, ""))
	}
	return "paused; " + status.ToContinue(run), nil
}

// Resume resumes the run in the name of a user, and returns the effect in words.
func Resume(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	err = l.Resume(ctx, run.Tenant, run.ID)
	switch {
	case err != nil:
		return "", err
	case !run.Paused:
		return "it was not paused", nil
	}
	by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Resumed, ""))
	return "resumed; open rows: " + status.Grouped(run.Rows-run.Settled()), nil
}

// CheckRows makes open rows of a run due at once that wait for their next check, and returns how
// many are. Those that are being checked are checked again after that. Those whose last attempt
// failed wait on: see [ledger.Ledger.MakeDue]. items are the numbers of these rows.
func CheckRows(ctx context.Context, l *ledger.Ledger, r ledger.Run, items []int64) (checked int, err error) {
	sums, err := l.Sums(ctx, r)
	for _, item := range items {
		seg := ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation}
		for seg.Number < len(sums) && item >= int64(sums[seg.Number].Rows) {
			item -= int64(sums[seg.Number].Rows)
			seg.Number++
		}
		if err != nil || seg.Number == len(sums) {
			return checked, err
		}
		var done ledger.Status
		done, err = l.MakeDue(ctx, seg, ledger.Row(item), time.Time{})
		if done == ledger.RowWritten || done == ledger.RowDue {
			checked++
		}
	}
	return checked, err
}
