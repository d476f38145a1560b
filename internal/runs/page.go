package runs

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"orgops/internal/ledger"
)

// Place is a run's place in the list of all, which is by time of creation and
// then by id. The zero Place is before the newest.
type Place struct {
	CreatedAt time.Time // to the millisecond
	ID        string
}

// order compares places as the list has them: the newest first, of the same time the
// greater id.
func order(a, b Place) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
}

func placeOf(e ledger.Entry) Place { return Place{e.At, string(e.Run)} }

// Query says which runs a page is of.
type Query struct {
	// Match says it of a run; nil: all are.
	Match func(Run) bool
	// After is where the page before this one has ended, and Limit how many runs a page has.
	After Place
	Limit int
	// MaxRead is how many runs are read at the most; 0: as many as it takes.
	MaxRead int
}

// Page returns the newest runs that are wanted. Others are read past, a part of
// the list at a time. Where there may be more, next is where to go on; else it is
// the zero Place. It may be short of w.Limit, or empty, where w.MaxRead were read.
func (l *Ledger) Page(ctx context.Context, w Query) (page []Run, next Place, err error) {
	after, looked := w.After, 0
	for r, err := range l.listAfter(ctx, w.After, max(w.Limit+1, leastTaken)) {
		if err != nil {
			return nil, Place{}, err
		}
		looked++
		is := w.Match == nil || w.Match(r.Run)
		if (is && len(page) == w.Limit) || (w.MaxRead > 0 && looked > w.MaxRead) {
			return page, after, nil
		}
		after = r.place
		if is {
			page = append(page, r.Run)
		}
	}
	return page, Place{}, nil
}

const (
	// leastTaken is how many runs are read at once for a page, at the least.
	leastTaken = 100
	// listPage is how many are read at once in the end, by a reader of many.
	listPage = 500
	// manyTenants is beyond how many tenants fewer runs of each are read at first, and
	// leastOfMany how many: most of them would come after the page.
	manyTenants = 10
	leastOfMany = 10
)

// listed is a run and its place in the list.
type listed struct {
	Run
	place Place
}

// listAfter returns the runs of all tenants that come after a place, in order. It reads n at
// a time, if there are many tenants fewer, and then more and more.
func (l *Ledger) listAfter(ctx context.Context, after Place, n int) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		tenants, err := l.core.Tenants(ctx)
		if err != nil {
			yield(listed{}, fmt.Errorf("list runs: %w", err))
			return
		}
		of := n // each tenant
		if len(tenants) > manyTenants {
			of = leastOfMany
		}
		for ; ; n, of = min(2*n, listPage), min(2*of, listPage) {
			entries, err := l.entriesAfter(ctx, tenants, after, of)
			if err != nil {
				yield(listed{}, err)
				return
			}
			if len(entries) == 0 {
				return
			}
			after = placeOf(entries[len(entries)-1])
			for part := range slices.Chunk(entries, n) {
				runs, err := l.readEntries(ctx, part)
				if err != nil {
					yield(listed{}, err)
					return
				}
				for _, r := range runs {
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// entriesAfter returns the next entries of the tenants' lists that come after a place, in
// order: n or more, unless there are no more. It reads n or more of each list. Those of a
// list that has more are complete but for the earliest time among them, and so are those of
// all lists together but for the latest such time: the rest is left for the next call.
func (l *Ledger) entriesAfter(ctx context.Context, tenants []ledger.Tenant, after Place, n int) ([]ledger.Entry, error) {
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

// readEntries returns the runs of entries of the list that exist, in their order.
func (l *Ledger) readEntries(ctx context.Context, entries []ledger.Entry) (all []listed, err error) {
	headers, err := l.core.Headers(ctx, entries)
	if err != nil {
		return nil, err
	}
	runs, err := l.forList(ctx, headers)
	if err != nil {
		return nil, err
	}
	byID := map[string]Run{}
	for _, r := range runs {
		byID[r.ID] = r
	}
	for _, e := range entries {
		if r, exists := byID[string(e.Run)]; exists {
			all = append(all, listed{r, placeOf(e)})
		}
	}
	return all, nil
}
