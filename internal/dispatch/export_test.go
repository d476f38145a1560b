package dispatch

import (
	"context"
	"time"

	"orgops/internal/ledger"
)

// Ends is what a dispatcher finishes runs with.
type Ends struct{ ends }

// NewEnds returns one that finishes runs with the function.
func NewEnds(finish func(context.Context, ledger.RunID) error, failed func(again time.Duration)) *Ends {
	e := &Ends{}
	e.finish = finish
	e.failed = func(_ context.Context, _ ledger.RunID, _ error, again time.Duration) { failed(again) }
	return e
}

// Resume, Suspend, Wait and Add are those of ends.
func (e *Ends) Resume(ctx context.Context) { e.resume(ctx) }

// Suspend suspends and waits.
func (e *Ends) Suspend() { e.suspend(); e.wait() }

// Add has a run finished.
func (e *Ends) Add(run ledger.RunID) { e.prune(); e.add(run) }

// UpkeepEvery is how often the active dispatcher finds runs that are not finished.
const UpkeepEvery = upkeepEvery

// Earlier moves the dispatcher's recorded times back.
func Earlier(d *Dispatcher, by time.Duration) {
	d.activeAt, d.leaseAt, d.busyAt = d.activeAt.Add(-by), d.leaseAt.Add(-by), d.busyAt.Add(-by)
}
