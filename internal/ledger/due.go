package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Each tenant has an index of the times at which the dispatcher is to inspect segments. The scripts
// that write rows store them.

// DueSegments are the segments of a tenant to inspect now.
type DueSegments struct {
	Segments []Segment // the longest due first
	// Next is when another one is due; zero if there is none.
	Next time.Time
	// Now is Redis' time.
	Now time.Time
	// InProgress reports whether rows are in progress: see [Ledger.ReclaimDead].
	InProgress bool
	// Ended are runs that have ended and are not finished, those that ended first; at most 100.
	Ended []RunID
}

// TakeDue returns up to n segments of a tenant that are due for inspection, for which the
// dispatcher calls [Ledger.Release]. They are due again ten seconds
// later, or with [Ledger.Recall], unless Release has stored another time. If entries of the index
// are no segments it returns the others and an error.
func (l *Ledger) TakeDue(ctx context.Context, t Tenant, n int) (due DueSegments, err error) {
	if err := t.Validate(); err != nil {
		return due, err
	}
	defer wrap(&err, "take due segments of %s", t)
	a, err := l.onTenant(ctx, takeScript, t, n)
	if err != nil {
		return due, err
	}
	due.Next = parseDue(a.int(2))
	due.Now = fromMillis(a.int(3))
	due.InProgress = a.int(5) == 1
	for _, text := range a.list(1).texts() {
		seg, malformed := ParseSegment(t, text)
		if malformed != nil {
			err = errors.Join(err, malformed)
			continue
		}
		due.Segments = append(due.Segments, seg)
	}
	for _, entry := range a.list(4).texts() {
		run, malformed := listed(t, entry)
		if malformed != nil {
			err = errors.Join(err, malformed)
			continue
		}
		due.Ended = append(due.Ended, run.ID)
	}
	return due, err
}

// Recall makes segments due that another dispatcher has taken. One that becomes active calls it.
func (l *Ledger) Recall(ctx context.Context, t Tenant) error {
	for more := true; more; {
		a, err := l.onTenant(ctx, recallScript, t)
		if err != nil {
			return fmt.Errorf("recall due segments of %s: %w", t, err)
		}
		more = a.int(1) == scriptNumbers
	}
	return nil
}

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
	for _, d := range due {
		longest = max(longest, now.Sub(d.at))
	}
	if err != nil || longest <= overdueAfter {
		return longest, err
	}
	longest = 0
	waits := map[string]bool{} // whether a run, by its entry, waits for a dispatcher
	for skip := 0; ; skip += scriptNumbers {
		if due, now, err = l.dueSince(ctx, t, scriptNumbers, skip); err != nil {
			return 0, err
		}
		if err := l.readWaits(ctx, due, now, waits); err != nil {
			return 0, err
		}
		for _, d := range due {
			if waits[d.name] {
				longest = max(longest, now.Sub(d.at))
			}
		}
		if longest > 0 || len(due) < scriptNumbers {
			return longest, nil
		}
	}
}

// readWaits stores whether the runs of due segments wait for a dispatcher, unless that is known.
func (l *Ledger) readWaits(ctx context.Context, due []entry, now time.Time, waits map[string]bool) error {
	var page []entry
	for _, d := range due {
		if _, known := waits[d.name]; !known {
			waits[d.name] = false
			page = append(page, d)
		}
	}
	l.readHeaders(ctx, page)
	for _, e := range page {
		if e.err != nil {
			return e.err
		}
		waits[e.name] = e.exists() && !e.run.Ended() && !e.run.stopped(now)
	}
	return nil
}

// dueSince returns segments that are due as entries of their runs, with the time since when they
// are, and Redis' time: at most n of those that were due when they were stored, and of the others,
// the longest due first. No dispatcher can inspect an entry that is no segment.
func (l *Ledger) dueSince(ctx context.Context, t Tenant, n, skip int) (all []entry, now time.Time, err error) {
	var clock *redis.TimeCmd
	var atOnceList, timedList *redis.ZSliceCmd
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		by := func(from, to string) *redis.ZSliceCmd {
			span := &redis.ZRangeBy{Min: from, Max: to, Offset: int64(skip), Count: int64(n)}
			return p.ZRangeByScoreWithScores(ctx, tenantKey(t, "due"), span)
		}
		atOnceList = by("-inf", "(0")
		timedList = by("0", "+inf")
		return nil
	})
	now = clock.Val().UTC()
	for _, z := range slices.Concat(atOnceList.Val(), timedList.Val()) {
		if z.Score < 0 {
			z.Score += atOnce
		}
		e := entry{at: fromMillis(int64(z.Score))}
		name, _ := z.Member.(string)
		seg, malformed := ParseSegment(t, name)
		if malformed == nil && !e.at.After(now) {
			e.run = Run{Tenant: t, ID: seg.Run, Incarnation: seg.Incarnation}
			e.name = e.run.entry()
			all = append(all, e)
		}
	}
	return all, now, err
}

// WakeChannel is the channel on which the names of tenants with work that is due now are
// published: see [Ledger.Wake].
const WakeChannel = prefix + "wake"

// Wake notifies the dispatchers that the tenant has due rows. A commit and
// [Ledger.Resume] call it; if it is lost, the next poll finds the rows within ten seconds.
func (l *Ledger) Wake(ctx context.Context, t Tenant) error {
	if err := l.rdb.Publish(ctx, WakeChannel, string(t)).Err(); err != nil {
		return fmt.Errorf("wake the dispatchers of %s: %w", t, err)
	}
	return nil
}
