package ledger

import (
	"context"
	"time"
)

const (
	// overdueAfter is how long a segment is due before its run is read. A dispatcher
	// inspects one within a second or two.
	overdueAfter = 10 * time.Second
	// overduePage is how many due segments are read by one script.
	overduePage = 1000
)

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
	for skip := 0; ; skip += overduePage {
		if due, now, err = l.dueSince(ctx, t, overduePage, skip); err != nil {
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
		if longest > 0 || len(due) < overduePage {
			return longest, nil
		}
	}
}

// readWaits stores whether the runs of due segments wait for a dispatcher, unless that is
// known.
func (l *Ledger) readWaits(ctx context.Context, t Tenant, due []dueSegment, now time.Time, waits map[string]bool) error {
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
