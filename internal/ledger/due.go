package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Hint stores hints in the index of a tenant. It never delays an inspection. A worker calls
// it with the receipt of each write after which rows wait or are due.
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

// DueSegments are the segments of a tenant to inspect now.
type DueSegments struct {
	Segments []Segment // the longest due first
	// Next is when another one is due; zero if there is none.
	Next time.Time
	// Now is Redis' time.
	Now time.Time
}

// TakeDue takes up to n segments of a tenant that are due for inspection out of the index.
// For the segments the dispatcher calls [Ledger.ReclaimDead] and [Ledger.Release], and stores
// the due time of the release with [Ledger.Hint]. If entries of the index are no segments it
// returns the others and an error; the next [Ledger.Rebuild] restores entries taken with an
// answer that was lost.
func (l *Ledger) TakeDue(ctx context.Context, t Tenant, n int) (due DueSegments, err error) {
	if err := t.Validate(); err != nil {
		return due, err
	}
	a, err := l.onTenant(ctx, takeScript, t, n)
	if err != nil {
		return due, fmt.Errorf("take due segments of %s: %w", t, err)
	}
	due.Next, due.Now = parseDue(a.int(2)), fromMillis(a.int(3))
	for _, text := range a.list(1).texts() {
		seg, malformed := ParseSegment(text)
		if malformed != nil {
			err = errors.Join(err, fmt.Errorf("take due segments of %s: %w", t, malformed))
			continue
		}
		due.Segments = append(due.Segments, seg)
	}
	return due, err
}

// Rebuild syncs every open run of a tenant, which also stores hints for its segments,
// removes other runs from the index, and returns the open ones, with ended runs that are not
// finished. A dispatcher calls it when it becomes active, and once a minute. If a run cannot
// be read or synced, Rebuild returns the others and an error.
func (l *Ledger) Rebuild(ctx context.Context, t Tenant) ([]Progress, error) {
	before, err := l.indexed(ctx, t)
	if err != nil {
		return nil, err
	}
	runs, failed := l.OpenRuns(ctx, t)
	if failed == nil {
		failed = l.prune(ctx, t, before, runs)
	}
	var all []Progress
	var hints []Hint
	unchanged := l.unchanged(ctx, runs)
	for _, run := range runs {
		if s, found := unchanged[run.entry()]; found {
			all = append(all, Progress{Run: run, Segments: []SegmentState{s}})
			hints = append(hints, run.hint(s))
			continue
		}
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
	return all, errors.Join(failed, l.Hint(ctx, t, hints...))
}

// indexed returns the segments in the index of a tenant.
func (l *Ledger) indexed(ctx context.Context, t Tenant) ([]string, error) {
	var all []string
	for cursor := uint64(0); ; {
		page, next, err := l.rdb.ZScan(ctx, tenantKeys(t)[dueIndex], cursor, "", hintPage).Result()
		if err != nil {
			return nil, fmt.Errorf("read due segments of %s: %w", t, err)
		}
		for member := range slices.Chunk(page, 2) { // and its score
			all = append(all, member[0])
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}

// prune removes segments of runs that are not open from the index. The segments were read
// before the runs: a run is listed before it has a hint.
func (l *Ledger) prune(ctx context.Context, t Tenant, segments []string, runs []Run) error {
	open := make(map[string]bool, len(runs))
	for _, run := range runs {
		open[run.entry()] = true
	}
	segments = slices.DeleteFunc(segments, func(segment string) bool {
		return open[runOf(segment)]
	})
	for page := range slices.Chunk(segments, hintPage) {
		if err := l.rdb.ZRem(ctx, tenantKeys(t)[dueIndex], texts(page)...).Err(); err != nil {
			return fmt.Errorf("remove due segments of %s: %w", t, err)
		}
	}
	return nil
}

// runOf returns the run of a segment in the index, as the tenant's lists have it.
func runOf(segment string) string { return segment[:max(strings.LastIndexByte(segment, '/'), 0)] }

// hint stores hints for the segments of a run.
func (l *Ledger) hint(ctx context.Context, p Progress) error {
	hints := make([]Hint, len(p.Segments))
	for i, s := range p.Segments {
		hints[i] = p.Run.hint(s)
	}
	return l.Hint(ctx, p.Run.Tenant, hints...)
}

// hint returns the hint for a segment. A row that waits for others is inspected with them.
func (r Run) hint(s SegmentState) Hint {
	due := s.Due
	if together := r.together(); together.After(due) && !due.IsZero() {
		due = together
	}
	return Hint{Segment: s.Segment, Due: due}
}

// together returns when the row of a run of one row is first released, with those of other
// runs that have the same [Description.BatchWait]; zero: at once.
func (r Run) together() time.Time {
	wait := r.BatchWait
	if wait <= 0 {
		return time.Time{}
	}
	return r.CreatedAt.Truncate(wait).Add(wait)
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
