package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Each tenant has an index of the times at which the dispatcher is to inspect segments.
// It is a hint: the next [Ledger.Rebuild] restores a lost entry.

// Hint is the time at which a segment is to be inspected.
type Hint struct {
	Segment Segment
	// Due is the due time of a [Receipt] or [SegmentState]. Hints without one are
	// ignored.
	Due time.Time
}

// hintPage is how many hints are stored by one script: unpack takes fewer than 8,000
// arguments.
const hintPage = 1000

// Hint stores hints in the index of a tenant. It never delays an inspection. A worker calls it with the receipt of each write after which
// rows wait or are due.
func (l *Ledger) Hint(ctx context.Context, t Tenant, hints ...Hint) error {
	hints = slices.DeleteFunc(slices.Clone(hints), func(h Hint) bool { return h.Due.IsZero() })
	for page := range slices.Chunk(hints, hintPage) {
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

// TakeDue takes up to n segments that are to be inspected now out of the index, the
// longest due first. next is when another one is due; zero if there is none. For each
// segment the dispatcher calls [Ledger.ReclaimDead] and [Ledger.Release], and stores
// the due time of the release with [Ledger.Hint].
func (l *Ledger) TakeDue(ctx context.Context, t Tenant, n int) (due []Segment, next time.Time, err error) {
	a, err := l.onTenant(ctx, takeScript, t, n)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("take due segments of %s: %w", t, err)
	}
	for _, text := range a.list(1).texts() {
		seg, err := ParseSegment(text)
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("take due segments of %s: %w", t, err)
		}
		due = append(due, seg)
	}
	return due, parseDue(a.int(2)), nil
}

// Rebuild syncs every open run of a tenant, which also stores hints for its segments,
// and returns them. A dispatcher calls it when it becomes active, and once a minute.
// The result includes ended runs that are not finished. If a run cannot be read or synced,
// Rebuild returns the others and an error.
func (l *Ledger) Rebuild(ctx context.Context, t Tenant) ([]Progress, error) {
	runs, failed := l.OpenRuns(ctx, t)
	var all []Progress
	for _, run := range runs {
		p, err := l.sync(ctx, run.ID)
		if isNotFound(err) { // deleted meanwhile
			continue
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("run %s: sync: %w", run.ID, err))
			continue
		}
		all = append(all, p)
	}
	return all, failed
}

// hint stores hints for the segments of a run.
func (l *Ledger) hint(ctx context.Context, c copied) error {
	if len(c.segments) == 0 {
		return nil
	}
	hints := make([]Hint, len(c.segments))
	for i, s := range c.segments {
		hints[i] = Hint{Segment: s.Segment, Due: s.Due}
	}
	return l.Hint(ctx, c.run.Tenant, hints...)
}
