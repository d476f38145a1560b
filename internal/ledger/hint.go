package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Hint is the time at which a segment is to be inspected.
type Hint struct {
	Segment Segment
	// Due is the due time of a [Receipt] or [SegmentState]. Hints without one are
	// ignored.
	Due time.Time
}

// Hint stores hints in the index of a tenant. It never delays an inspection. A worker calls
// it with the receipt of each write after which rows wait or are due.
func (l *Ledger) Hint(ctx context.Context, t Tenant, hints ...Hint) error {
	hints = slices.DeleteFunc(slices.Clone(hints), func(h Hint) bool { return h.Due.IsZero() })
	for page := range slices.Chunk(hints, scriptNumbers) {
		var args []any
		for _, h := range page {
			args = append(args, h.Due.UnixMilli(), h.Segment.String())
		}
		if _, err := l.onTenant(ctx, hintScript, t, args...); err != nil {
			return fmt.Errorf("store due times of %s: %w", t, err)
		}
	}
	return nil
}

// hint stores hints for the segments of a run.
func (l *Ledger) hint(ctx context.Context, p Progress) error {
	hints := make([]Hint, len(p.Segments))
	for i, s := range p.Segments {
		hints[i] = p.Run.hint(s)
	}
	return l.Hint(ctx, p.Run.Tenant, hints...)
}

// hint returns the hint for a segment. The row of a run of one row is first released with
// those of other runs that have the same [Description.BatchWait], and inspected with them.
func (r Run) hint(s SegmentState) Hint {
	due := s.Due
	if wait := r.BatchWait; wait > 0 && !due.IsZero() {
		if together := r.CreatedAt.Truncate(wait).Add(wait); together.After(due) {
			due = together
		}
	}
	return Hint{Segment: s.Segment, Due: due}
}

// wakeChannel is the channel on which tenants with work that is due now are published.
const wakeChannel = prefix + "wake"

// Wake notifies the dispatchers that the tenant has due rows. A commit and
// [Ledger.Resume] call it; if it is lost, the next poll finds the rows within a second.
func (l *Ledger) Wake(ctx context.Context, t Tenant) error {
	if err := l.rdb.Publish(ctx, wakeChannel, string(t)).Err(); err != nil {
		return fmt.Errorf("wake the dispatchers of %s: %w", t, err)
	}
	return nil
}

// Wakes calls f with the tenant of each [Ledger.Wake], until ctx ends. One subscription
// serves all tenants of a process. f must not block. A message that is published while
// Redis cannot be reached is lost.
func (l *Ledger) Wakes(ctx context.Context, f func(Tenant)) {
	sub := l.rdb.Subscribe(ctx, wakeChannel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			if t := Tenant(m.Payload); t.Validate() == nil {
				f(t)
			}
		}
	}
}
