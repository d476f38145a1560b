package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/sweep"
)

// Lost says in words that Redis has lost rows of the run, and what to do; empty: it has not.
func Lost(r runs.Run) string {
	if !r.Incomplete || r.Ended() {
		return ""
	}
	const lost = "Redis has lost rows of it, and it is stopped: "
	if r.Walk != nil || !intake.CanRetry(r.Kind) {
		return lost + "cancel it: enqueue runs cancel " + r.ID
	}
	return lost + completeOrCancel(r.ID)
}

// Silent says in words that the run's producer has gone; empty: it has not.
func Silent(r runs.Run, now time.Time) string {
	since := r.SilentSince(now)
	if since.IsZero() {
		return ""
	}
	return fmt.Sprintf("silent since %s; if it has ended: %s", stamp(since), completeOrCancel(r.ID))
}

// completeOrCancel says what to do about a run whose producer has gone.
func completeOrCancel(run string) string {
	return fmt.Sprintf("submit the same rows again with --run %s, or cancel it: enqueue runs cancel %s", run, run)
}

// WalkTrouble is the progress of the run's scan, if it has left something out; else empty.
func WalkTrouble(r runs.Run) string {
	if LeftOut(r) == "" {
		return ""
	}
	return WalkState(r)
}

// Skipped says in words which tick of a schedule was skipped last, and why; empty:
// none was.
func Skipped(s sweep.SkippedTick) string {
	if s.Tick == 0 {
		return ""
	}
	text := fmt.Sprintf("the tick of %s: %s", stamp(TickAt(s.Tick)), s.Why)
	if s.InRow > 1 {
		text += fmt.Sprintf(" (%d in a row)", s.InRow)
	}
	return text
}

// PausedQueue returns the name of the tenant's queue of rows if it is paused in asynqmon,
// so that no row is released; else empty.
func PausedQueue(rdb redis.UniversalClient, tenant string) (string, error) {
	name := engine.Queue(ledger.Tenant(tenant))
	load, err := dispatch.NewQueue(rdb, name).Load()
	if err != nil || !load.Paused {
		return "", err
	}
	return name, nil
}

// ResumeQueue says how to resume a paused queue.
const ResumeQueue = "resume it on the page Queues of a worker with --ops-write"

// QueueIsPaused says in words that the queue is paused, and how to resume it; empty if the
// name is.
func QueueIsPaused(queue string) string {
	if queue == "" {
		return ""
	}
	return "the queue " + queue + " is paused: no row is released; " + ResumeQueue
}

// Child is a run that repeats rows of another.
type Child struct {
	runs.Run

	Missing bool // it was cut off before it was made
}

// String is the child's id with how far it is.
func (c Child) String() string { return c.ID + " (" + c.State() + ")" }

// State is how far the child is.
func (c Child) State() string {
	if c.Missing {
		return fmt.Sprintf("interrupted before it started; to complete it: enqueue runs retry %s --run %s", c.Parent, c.ID)
	}
	return State(c.Run) + "; " + Counts(c.Run)
}

// Children are the runs that repeat rows of this one, as they stand.
func Children(ctx context.Context, l *runs.Ledger, r runs.Run) ([]Child, error) {
	var all []Child
	for _, id := range r.Children {
		one, err := l.Get(ctx, id)
		switch {
		case errors.Is(err, runs.ErrNotFound):
			all = append(all, Child{runs.Run{ID: id, Parent: r.ID}, true})
		case err != nil:
			return nil, err
		default:
			all = append(all, Child{Run: one})
		}
	}
	return all, nil
}
