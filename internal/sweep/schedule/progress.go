package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// InProgressError says that a sweep of the whole tenant is not started, since another one
// is in progress.
type InProgressError struct {
	Run string // the other one
	Why string // how far it is, and what to do about it
}

// Error names the other sweep.
func (e *InProgressError) Error() string {
	return fmt.Sprintf("sweep %s %s: sweep one organization alone meanwhile, or wait for it", e.Run, e.Why)
}

// claimedFor is how long a sweep that a process is about to start counts as one in
// progress although its run does not exist.
const claimedFor = time.Minute

// isClaimed reports whether a process is about to start a sweep whose run does not exist.
func isClaimed(s sweep.TenantSweep, now time.Time) bool {
	return !s.Started && now.Sub(s.At).Abs() < claimedFor
}

// inProgress returns the sweep of the whole tenant that is in progress; nil: there is none.
func inProgress(ctx context.Context, in intake.Intake, t ledger.Tenant, ticks sweep.Ticks,
	now time.Time) (*InProgressError, error) {
	for _, s := range []sweep.TenantSweep{ticks.Sweep, ticks.ByHand} {
		if s.Run == "" {
			continue
		}
		why, err := progressOf(ctx, in, t, s, now)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return &InProgressError{Run: s.Run, Why: why}, nil
		}
	}
	return nil, nil
}

// progressOf returns why a sweep is in progress; "": it is not.
func progressOf(ctx context.Context, in intake.Intake, t ledger.Tenant, s sweep.TenantSweep,
	now time.Time) (string, error) {
	run, err := in.Ledger.Get(ctx, t, ledger.RunID(s.Run))
	switch {
	case errors.Is(err, ledger.ErrNotFound) && isClaimed(s, now):
		return "is about to start", nil
	case errors.Is(err, ledger.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case !run.CancelledAt.IsZero():
		return "", nil
	case run.Paused && !run.Ended(): // checks in progress may still settle all of its rows
		return fmt.Sprintf("is paused (enqueue runs resume %s, or cancel)", s.Run), nil
	case !run.Ended():
		return fmt.Sprintf("still runs, with %d of %d rows settled", run.Settled(), run.Rows), nil
	}
	return "", nil
}
