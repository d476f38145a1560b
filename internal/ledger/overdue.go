package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// overdueAfter is how long a segment is due before its run is read. A dispatcher
	// inspects one within a second or two.
	overdueAfter = 10 * time.Second
	// overduePage is how many due segments are read by one script.
	overduePage = 1000
)

// Overdue returns, for each tenant that has or had a run, for how long a segment has been
// due that no dispatcher inspects: of all such segments, the one that is due the longest; 0
// if there is none. Rows that wait for the pace or for a free place are not overdue, since
// their segments are inspected, nor are those of runs that are paused or have ended. A
// due segment is one that [Ledger.TakeDue] returns.
//
// It takes two round trips while every tenant has an active dispatcher. If some tenants
// fail it returns the others and an error.
func (l *Ledger) Overdue(ctx context.Context) (map[Tenant]time.Duration, error) {
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	answers, err := l.onTenants(ctx, overdueScript, tenants, 1, 0)
	if err != nil {
		return nil, fmt.Errorf("read due segments: %w", err)
	}
	all := make(map[Tenant]time.Duration, len(tenants))
	var failed error
	for i, t := range tenants {
		values, err := answers[i].Slice()
		longest := time.Duration(0)
		if err == nil {
			longest = longestDue(answer(values))
		}
		if err == nil && longest > overdueAfter {
			longest, err = l.overdueOf(ctx, t)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("read due segments of %s: %w", t, err))
			continue
		}
		all[t] = longest
	}
	return all, failed
}

// overdueOf returns for how long a segment of a run that is not stopped has been due.
func (l *Ledger) overdueOf(ctx context.Context, t Tenant) (longest time.Duration, err error) {
	waits := map[string]bool{} // by entry of the run
	for skip := 0; ; skip += overduePage {
		a, err := l.onTenant(ctx, overdueScript, t, overduePage, skip)
		if err != nil {
			return 0, err
		}
		due, now := dueSegments(a)
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
		waits[e.run.entry()] = e.found && e.run.DeletingAt.IsZero() && !e.run.Ended() && !e.run.Control.stopped(now)
	}
	return nil
}

// dueSegment is a segment in the index.
type dueSegment struct {
	entry string // of its run
	since time.Time
}

// dueSegments returns the answer of overdueScript.
func dueSegments(a answer) (all []dueSegment, now time.Time) {
	list := a.list(1)
	for i := 0; i+1 < len(list); i += 2 {
		all = append(all, dueSegment{entry: runOf(list.text(i)), since: fromMillis(list.int(i + 1))})
	}
	return all, fromMillis(a.int(2))
}

// longestDue returns for how long the first of them has been due; 0 if there is none.
func longestDue(a answer) (longest time.Duration) {
	due, now := dueSegments(a)
	for _, d := range due {
		longest = max(longest, now.Sub(d.since))
	}
	return longest
}
