package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"orgops/internal/ledger"
)

const (
	// idleEvery is how often the index is read while nothing is due.
	idleEvery = time.Second
	// takePage is how many due segments are read from it at once.
	takePage = 500
)

// take takes all due segments from the index. All, since a run whose segments are taken
// late would be served late.
func (d *Dispatcher) take(ctx context.Context, now time.Time) error {
	for {
		due, err := d.cfg.Ledger.TakeDue(ctx, d.cfg.Tenant, takePage)
		if err != nil { // segments may be lost with the answer: the next round rebuilds
			d.upkeepAt = time.Time{}
			return err
		}
		for _, seg := range due.Segments {
			if err := d.add(ctx, seg, now); err != nil {
				d.upkeepAt = time.Time{} // the segments after it are lost too
				return err
			}
		}
		if len(due.Segments) < takePage {
			d.nextDue = idleEvery
			if !due.Next.IsZero() {
				d.nextDue = min(due.Next.Sub(due.Now), idleEvery)
			}
			return nil
		}
	}
}

// add takes a segment into memory, unless its run has ended or vanished, or is of an
// unknown kind.
func (d *Dispatcher) add(ctx context.Context, seg ledger.Segment, now time.Time) error {
	r, err := d.header(ctx, seg)
	if errors.Is(err, ledger.ErrNotFound) {
		d.taken.drop(seg)
		return nil
	}
	if err != nil {
		return err
	}
	if r.Ended() {
		d.finish(r)
		d.taken.drop(seg)
		return nil
	}
	if _, known := d.cfg.Kinds[r.Kind]; !known { // the next rebuild brings it back
		d.cfg.Logger.WarnContext(ctx, "kind is unknown: a newer worker is needed", "tenant", d.cfg.Tenant,
			"run", r.ID, "kind", r.Kind)
		return nil
	}
	d.taken.add(r, seg, now)
	return nil
}

// header returns the run of a segment. One that is in memory is not read again, unless
// the segment is there too: its hint may mean that the run has ended.
func (d *Dispatcher) header(ctx context.Context, seg ledger.Segment) (ledger.Run, error) {
	have := d.taken[seg.Run]
	known := have != nil && have.Incarnation == seg.Incarnation
	if known && !slices.ContainsFunc(have.segments, func(s *segment) bool { return s.id == seg }) {
		return have.Run, nil
	}
	r, err := d.cfg.Ledger.Get(ctx, seg.Run)
	if err == nil && r.Incarnation != seg.Incarnation {
		err = ledger.ErrNotFound
	}
	return r, err
}
