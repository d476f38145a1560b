package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"orgops/internal/ledger"
)

func placeOf(e ledger.Entry) Place { return Place{e.At, e.Run} }

// Query selects a page of runs.
type Query struct {
	// Match reports whether a run belongs to the page; nil: every run does.
	Match func(ledger.Run) bool
	// After is where the page before this one ended, and Limit the most runs of a page.
	After Place
	Limit int
	// MaxRead bounds how many runs are read; 0: no bound.
	MaxRead int
}

const (
	// firstEntries is how many entries of each tenant's list are read first. The number
	// doubles up to mostEntries, since few of many tenants' entries are on the first page.
	firstEntries = 20
	mostEntries  = 500
)

// Page returns the newest runs that match. If there may be more, next is where to continue;
// else it is the zero Place. A page of which MaxRead runs were read may be short of Limit, or
// empty.
func (l *Ledger) Page(ctx context.Context, q Query) (page []ledger.Run, next Place, err error) {
	after, read := q.After, 0
	for listed, err := range l.newest(ctx, q.After, q.Limit+1) {
		if err != nil {
			return nil, Place{}, err
		}
		read++
		match := q.Match == nil || q.Match(listed.run)
		if (match && len(page) == q.Limit) || (q.MaxRead > 0 && read > q.MaxRead) {
			return page, after, nil
		}
		after = listed.place
		if match {
			page = append(page, listed.run)
		}
	}
	return page, Place{}, nil
}

// listed is a run and its place in the lists.
type listed struct {
	place Place
	run   ledger.Run
}

// newest returns the runs of all tenants after a place, the newest first. It reads some at a
// time, as many as most callers need.
func (l *Ledger) newest(ctx context.Context, after Place, some int) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		tenants, err := l.core.Tenants(ctx)
		if err != nil {
			yield(listed{}, fmt.Errorf("list runs: %w", err))
			return
		}
		for n := firstEntries; ; n = min(2*n, mostEntries) {
			entries, err := l.entriesAfter(ctx, tenants, after, n)
			if err != nil {
				yield(listed{}, err)
				return
			}
			if len(entries) == 0 {
				return
			}
			for part := range slices.Chunk(entries, max(n, some)) {
				if !l.yieldRuns(ctx, part, yield) {
					return
				}
			}
			after = placeOf(entries[len(entries)-1])
		}
	}
}

// yieldRuns yields the runs of those entries that have one. It reports whether to go on.
func (l *Ledger) yieldRuns(ctx context.Context, entries []ledger.Entry, yield func(listed, error) bool) bool {
	found, err := l.readEntries(ctx, entries)
	if err != nil {
		yield(listed{}, err)
		return false
	}
	for _, e := range entries {
		if r, exists := found[e.Incarnation]; exists && !yield(listed{placeOf(e), r}, nil) {
			return false
		}
	}
	return true
}

// entriesAfter returns the next entries of the tenants' lists that come after a place, in
// order: n or more, unless there are no more. It reads n or more of each list. Those of a
// list that has more are complete but for the earliest time among them, and so are those of
// all lists together but for the latest such time: the rest is left for the next call.
func (l *Ledger) entriesAfter(ctx context.Context, tenants []ledger.Tenant, after Place,
	n int) ([]ledger.Entry, error) {
	for ; ; n *= 2 {
		lists, err := l.core.Entries(ctx, after.CreatedAt, n, tenants...)
		if err != nil {
			return nil, err
		}
		var cut time.Time // zero: no list has more
		for _, list := range lists {
			if len(list) == n && list[n-1].At.After(cut) {
				cut = list[n-1].At
			}
		}
		entries := slices.DeleteFunc(slices.Concat(lists...), func(e ledger.Entry) bool {
			return !e.At.After(cut) || after != (Place{}) && order(placeOf(e), after) <= 0
		})
		if len(entries) > 0 || cut.IsZero() {
			slices.SortFunc(entries, func(a, b ledger.Entry) int { return order(placeOf(a), placeOf(b)) })
			return entries, nil
		}
	}
}

// readEntries returns those runs of the entries that exist, by incarnation.
func (l *Ledger) readEntries(ctx context.Context, entries []ledger.Entry) (map[ledger.Incarnation]ledger.Run, error) {
	headers, err := l.core.Headers(ctx, entries)
	if err != nil {
		return nil, err
	}
	found := make(map[ledger.Incarnation]ledger.Run, len(headers))
	for _, r := range headers {
		found[r.Incarnation] = Exact(r)
	}
	return found, nil
}
