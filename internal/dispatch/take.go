package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/ledger"
)

const (
	// readEvery is how often the index is read while there is work, and idleEvery at least how
	// often while nothing is due.
	readEvery = time.Second
	idleEvery = 10 * time.Second
	// longestLease is that of a dispatcher that sleeps as long as it may.
	longestLease = idleEvery + leaseFor
	// takePage is how many due segments are read from it at once.
	takePage = 500
)

// take takes all due segments from the index, and has runs finished that have ended. All, since a
// run whose segments are taken late would be served late.
func (d *Dispatcher) take(ctx context.Context, now time.Time) error {
	for {
		due, err := d.cfg.Ledger.TakeDue(ctx, d.cfg.Tenant, takePage)
		if err != nil && len(due.Segments)+len(due.Ended) == 0 {
			return err
		}
		failed := []error{err}
		for _, run := range due.Ended {
			d.ends.add(run)
		}
		for _, seg := range due.Segments {
			failed = append(failed, d.add(ctx, seg, now))
		}
		if err := errors.Join(failed...); err != nil { // these are due again, and keep no others waiting
			if ctx.Err() != nil {
				return err
			}
			d.cfg.Logger.WarnContext(ctx, "segments not read", "tenant", d.cfg.Tenant, "error", err)
		}
		if len(due.Segments) < takePage {
			d.inProgress = due.InProgress
			d.nextDue = idleEvery
			if !due.Next.IsZero() {
				d.nextDue = min(due.Next.Sub(due.Now), idleEvery)
			}
			return nil
		}
	}
}

// reclaim makes rows of dead sessions due while rows are in progress, as often as sessions are
// renewed.
func (d *Dispatcher) reclaim(ctx context.Context, now time.Time) {
	if !d.inProgress || now.Sub(d.reclaimedAt) < ledger.RenewEvery {
		return
	}
	d.reclaimedAt = now
	reclaimed, err := d.cfg.Ledger.ReclaimDead(ctx, d.cfg.Tenant)
	for _, r := range reclaimed {
		d.cfg.Logger.WarnContext(ctx, "rows of a dead worker reclaimed", "tenant", d.cfg.Tenant, "run",
			r.Segment.Run, "rows", r.Rows)
		d.taken.wake(r.Segment)
	}
	if len(reclaimed) > 0 && d.cfg.Reclaimed != nil {
		d.cfg.Reclaimed(ctx, reclaimed)
	}
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.WarnContext(ctx, "rows of a dead worker not reclaimed", "tenant", d.cfg.Tenant, "error", err)
	}
}

// add takes a segment into memory, unless its run has vanished, or is of an unknown kind.
func (d *Dispatcher) add(ctx context.Context, seg ledger.Segment, now time.Time) error {
	r, err := d.header(ctx, seg)
	if errors.Is(err, ledger.ErrNotFound) {
		d.taken.drop(seg)
		return nil
	}
	if err != nil {
		return err
	}
	if _, known := d.cfg.Kinds[r.Kind]; !known { // it is due again
		d.stuck(ctx, seg.OfRun(), fmt.Sprintf("the worker that releases rows does not know the kind %q: start workers of the version "+
			"that has submitted the run", r.Kind), nil)
		return nil
	}
	d.taken.add(r, seg, now)
	return nil
}

// header returns the run of a segment; of a scan's row, with the name and the kind of a run of its
// own. One that is in memory is not read again: what changes of it is obeyed by the scripts.
func (d *Dispatcher) header(ctx context.Context, seg ledger.Segment) (ledger.Run, error) {
	if have := d.taken[nameOf(seg)]; have != nil && have.Incarnation == seg.Incarnation {
		return have.Run, nil
	}
	r, err := d.cfg.Ledger.Run(ctx, d.cfg.Tenant, seg.Run)
	if err == nil && r.Incarnation != seg.Incarnation {
		err = ledger.ErrNotFound
	}
	if seg.Number == ledger.ScanSegment {
		r.ID = nameOf(seg)
		r.Kind = ledger.ScanOf(r.Kind)
	}
	return r, err
}
