package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Each tenant has an index of the times at which the dispatcher is to inspect segments.
// It is a hint: the next [Ledger.Rebuild] restores a lost entry.

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
// finished. It leaves out runs of one row that nobody has paused or cancelled, and that the
// index has for later: there may be very many, and each is inspected when it is due. A
// dispatcher calls it when it becomes active, and once a minute. If a run cannot be read or
// synced, Rebuild returns the others and an error.
func (l *Ledger) Rebuild(ctx context.Context, t Tenant) ([]Progress, error) {
	before, err := l.indexed(ctx, t)
	if err != nil {
		return nil, err
	}
	runs, failed := l.OpenRuns(ctx, t)
	if failed == nil {
		failed = l.prune(ctx, t, before, runs)
	}
	now, err := l.Now(ctx)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(r Run) bool { return before[r.segment(0).String()].After(now) && r.plain() })
	var all []Progress
	var hints []Hint
	unchanged := l.unchanged(ctx, runs)
	for _, run := range runs {
		if s, found := unchanged[run.entry()]; found {
			all = append(all, Progress{Run: run, Segments: []SegmentState{s}})
			hints = append(hints, run.hint(s))
			continue
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
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

// indexed returns the segments in the index of a tenant, and when each is due.
func (l *Ledger) indexed(ctx context.Context, t Tenant) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	for cursor := uint64(0); ; {
		page, next, err := l.rdb.ZScan(ctx, tenantKeys(t)[dueIndex], cursor, "", scriptNumbers).Result()
		if err != nil {
			return nil, fmt.Errorf("read due segments of %s: %w", t, err)
		}
		for pair := range slices.Chunk(page, 2) {
			ms, err := strconv.ParseFloat(pair[1], 64)
			if err != nil {
				return nil, fmt.Errorf("due time of segment %s: %w", quoted(pair[0]), err)
			}
			all[pair[0]] = fromMillis(int64(ms))
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}

// prune removes segments of runs that are not open from the index. The segments were read
// before the runs: a run is listed before it has a hint.
func (l *Ledger) prune(ctx context.Context, t Tenant, segments map[string]time.Time, runs []Run) error {
	open := make(map[string]bool, len(runs))
	for _, run := range runs {
		open[run.entry()] = true
	}
	var gone []string
	for segment := range segments {
		if !open[runOf(segment)] {
			gone = append(gone, segment)
		}
	}
	for page := range slices.Chunk(gone, scriptNumbers) {
		if err := l.rdb.ZRem(ctx, tenantKeys(t)[dueIndex], texts(page)...).Err(); err != nil {
			return fmt.Errorf("remove due segments of %s: %w", t, err)
		}
	}
	return nil
}

// runOf returns the run of a segment in the index, as the tenant's lists have it.
func runOf(segment string) string { return segment[:max(strings.LastIndexByte(segment, '/'), 0)] }

// overdueAfter is how long a segment is due before its run is read. A dispatcher
// inspects one within a second or two.
const overdueAfter = 10 * time.Second

// Overdue returns for how long a segment of the tenant has been due that no dispatcher
// inspects: of all such segments, the one that is due the longest; 0 if there is none. Rows
// that wait for the pace or for a free place are not overdue, since their segments are
// inspected, nor are those of runs that are paused or have ended. A due segment is one that
// [Ledger.TakeDue] returns.
//
// It takes one round trip while the tenant has an active dispatcher.
func (l *Ledger) Overdue(ctx context.Context, t Tenant) (longest time.Duration, err error) {
	defer wrap(&err, "read due segments of %s", t)
	if err := t.Validate(); err != nil {
		return 0, err
	}
	due, now, err := l.dueSince(ctx, t, 1, 0)
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		longest = max(longest, now.Sub(d.since))
	}
	if longest <= overdueAfter {
		return longest, nil
	}
	longest = 0
	waits := map[string]bool{} // whether a run, by entry, waits for a dispatcher
	for skip := 0; ; skip += scriptNumbers {
		if due, now, err = l.dueSince(ctx, t, scriptNumbers, skip); err != nil {
			return 0, err
		}
		if err := l.readWaits(ctx, t, due, now, waits); err != nil {
			return 0, err
		}
		for _, d := range due {
			if waits[d.entry] {
				longest = max(longest, now.Sub(d.since))
			}
		}
		if longest > 0 || len(due) < scriptNumbers {
			return longest, nil
		}
	}
}

// readWaits stores whether the runs of due segments wait for a dispatcher, unless that is
// known.
func (l *Ledger) readWaits(ctx context.Context, t Tenant, due []dueSegment, now time.Time,
	waits map[string]bool) error {
	var page []entry
	for _, d := range due {
		if _, known := waits[d.entry]; known {
			continue
		}
		waits[d.entry] = false
		if run, err := listed(t, d.entry); err == nil { // else no dispatcher can inspect it
			page = append(page, entry{run: run})
		}
	}
	l.readHeaders(ctx, page)
	for _, e := range page {
		if e.err != nil {
			return e.err
		}
		waits[e.run.entry()] = e.found && e.run.DeletingAt.IsZero() && !e.run.Ended() && !e.run.stopped(now)
	}
	return nil
}

// dueSegment is a segment in the index.
type dueSegment struct {
	entry string // of its run
	since time.Time
}

// dueSince returns at most n segments that are due, and Redis' time.
func (l *Ledger) dueSince(ctx context.Context, t Tenant, n, skip int) (all []dueSegment, now time.Time, err error) {
	a, err := l.onTenant(ctx, overdueScript, t, n, skip)
	list := a.list(1)
	for i := 0; i+1 < len(list); i += 2 {
		all = append(all, dueSegment{entry: runOf(list.text(i)), since: fromMillis(list.int(i + 1))})
	}
	return all, fromMillis(a.int(2)), err
}
