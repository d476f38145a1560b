package schedule

import (
	"context"
	"encoding/json"
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

const (
	// claimedFor is how long a sweep that a process is about to start counts as one in
	// progress although its run does not exist.
	claimedFor = time.Minute
	// evaluatedWithin is how long after its end a sweep that was not evaluated counts as one
	// in progress. The evaluation of the next one decides on all domains anyway.
	evaluatedWithin = time.Hour
)

// isClaimed reports whether a process is about to start a sweep whose run does not exist.
func isClaimed(s sweep.TenantSweep, at clocks) bool {
	return !s.Started && at.redis.Sub(s.At).Abs() < claimedFor
}

// inProgress returns the sweep of the whole tenant that is in progress; nil: there is none.
func inProgress(ctx context.Context, in intake.Intake, store *sweep.Store, ticks sweep.Ticks, at clocks) (*InProgressError, error) {
	for _, s := range []sweep.TenantSweep{ticks.Sweep, ticks.ByHand} {
		if s.Run == "" {
			continue
		}
		why, err := progressOf(ctx, in, store, s, at)
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
func progressOf(ctx context.Context, in intake.Intake, store *sweep.Store, s sweep.TenantSweep, at clocks) (string, error) {
	run, err := in.Ledger.Get(ctx, ledger.RunID(s.Run))
	switch {
	case errors.Is(err, ledger.ErrNotFound) && isClaimed(s, at):
		return "is about to start", nil
	case errors.Is(err, ledger.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case !run.CancelledAt.IsZero():
		return "", nil
	case run.Incomplete && !run.Ended():
		return fmt.Sprintf("is incomplete, since Redis has lost rows of it (enqueue runs cancel %s)", s.Run), nil
	case run.Paused && !run.Ended(): // checks in progress may still settle all of its rows
		return fmt.Sprintf("is paused (enqueue runs resume %s, or cancel)", s.Run), nil
	case !run.Ended():
		return fmt.Sprintf("still runs, with %d of %d rows settled", run.Settled(), run.Rows), nil
	case at.redis.Sub(run.EndedAt) >= evaluatedWithin:
		return "", nil
	}
	evaluated, err := isEvaluated(ctx, store, s, at)
	if err != nil || evaluated {
		return "", err
	}
	return "has ended and is not evaluated yet", nil
}

// isEvaluated reports whether the sweep, or a later one, was evaluated. A summary of a tick
// that is ahead of the clocks is not of a later one: clocks were wrong then.
func isEvaluated(ctx context.Context, store *sweep.Store, s sweep.TenantSweep, at clocks) (bool, error) {
	value, err := store.State(ctx, sweep.SummaryState)
	if err != nil || value == nil {
		return false, err
	}
	var last sweep.Summary
	if err := json.Unmarshal(value, &last); err != nil {
		return false, fmt.Errorf("which sweep was evaluated last: %w", err)
	}
	return last.Run == s.Run || last.Tick >= s.Tick && !at.isAhead(last.Tick), nil
}
