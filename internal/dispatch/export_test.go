package dispatch

import (
	"context"
	"time"

	"orgops/internal/ledger"
)

// Ends is what a dispatcher finishes runs with.
type Ends struct{ *ends }

// NewEnds returns one that finishes runs with the function.
func NewEnds(finish func(context.Context, ledger.RunID) error) Ends {
	return Ends{newEnds(finish, func(context.Context, ledger.RunID, error) {})}
}

// Resume, Suspend and Add are those of ends; Suspend waits too.
func (e Ends) Resume(ctx context.Context) { e.resume(ctx) }
func (e Ends) Suspend()                   { e.suspend(); e.wait() }
func (e Ends) Add(run ledger.RunID)       { e.add(run) }

// EndAgain is how long a run is left alone whose end has failed.
const EndAgain = endAgain

// Earlier moves the dispatcher's recorded times back.
func Earlier(d *Dispatcher, by time.Duration) {
	d.activeAt, d.leaseAt, d.busyAt = d.activeAt.Add(-by), d.leaseAt.Add(-by), d.busyAt.Add(-by)
}
