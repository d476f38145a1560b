package main

import (
	"context"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// drainEvery is how often a worker that drains reads the open runs.
const drainEvery = 500 * time.Millisecond

// drained waits until nothing is left that this worker could do: every run of its tenants
// has ended, and its end was notified. Runs that wait for
// an operator, a producer or a time are left, and checks between sweeps, of which there are
// always others. Errors of Redis are logged, and the runs read again.
func (w *worker) drained(ctx context.Context) error {
	for {
		left, err := w.left(ctx)
		if err != nil {
			w.logger.WarnContext(ctx, "reading runs failed", "error", err)
		} else if !left {
			return nil
		}
		if err := engine.Sleep(ctx, drainEvery); err != nil {
			return err
		}
	}
}

// left reports whether there is work for this worker.
func (w *worker) left(ctx context.Context) (bool, error) {
	now, err := w.ledger.Now(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range w.tenants() {
		open, err := w.ledger.OpenRuns(ctx, ledger.Tenant(t.Name))
		if err != nil {
			return false, err
		}
		singles, err := w.ledger.OpenSingles(ctx, ledger.Tenant(t.Name))
		if err != nil {
			return false, err
		}
		for _, r := range append(open, singles...) {
			if continues(r, now) {
				return true, nil
			}
		}
	}
	return false, nil
}

// continues reports whether something will be done for a run without an operator, a producer
// or a time that is yet to come.
func continues(r ledger.Run, now time.Time) bool {
	switch c := r.Control; {
	case r.Ended():
		return true // until it is finished
	case r.Staged(), r.Growing && r.Scan == nil:
		return false
	default:
		return c.Cancelled || (!c.Paused && !c.NotBefore.After(now))
	}
}
