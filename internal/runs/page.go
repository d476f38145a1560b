package runs

import (
	"cmp"
	"context"
	"fmt"
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

// place returns the place of the run.
func (r Run) place() Place { return Place{r.CreatedAt, r.ID} }

// Wanted says which runs a page is of.
type Wanted struct {
	// Is says it of a run; nil: all are.
	Is func(Run) bool
	// After is where the page before this one has ended, and Most how many runs a page has.
	After Place
	Most  int
	// Look is how many runs are read at the most; 0: as many as it takes.
	Look int
}

// Page returns the newest runs that are wanted. Others are read past, a page of
// the list at a time. Where there may be more, next is where to go on; else it is
// the zero Place. It may be short of w.Most, or empty, where w.Look were read.
func (l *Ledger) Page(ctx context.Context, w Wanted) (page []Run, next Place, err error) {
	list, err := l.listAfter(ctx, w.After)
	if err != nil {
		return nil, Place{}, err
	}
	after, looked := w.After, 0
	for n := max(w.Most+1, leastTaken); ; n = min(2*n, listPage) {
		some, err := list.take(ctx, n)
		if err != nil {
			return nil, Place{}, err
		}
		if len(some) == 0 {
			return page, Place{}, nil
		}
		runs, err := l.readPlaces(ctx, some)
		if err != nil {
			return nil, Place{}, err
		}
		for _, p := range some {
			r, there := runs[p.Place]
			if !there {
				continue
			}
			looked++
			is := w.Is == nil || w.Is(r)
			if (is && len(page) == w.Most) || (w.Look > 0 && looked > w.Look) {
				return page, after, nil
			}
			after = p.Place
			if is {
				page = append(page, r)
			}
		}
	}
}

// listPage is how many entries of a list are read in one round trip.
const listPage = 500

// leastTaken is how many runs are read at once for a page, at the least.
const leastTaken = 100

// placed is an entry of the list of all runs.
type placed struct {
	Place
	entry ledger.Entry
}

// order compares places as the list has them: the newest first, of the same time the
// greater id.
func order(a, b Place) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
}

// source is the part of the list of all runs that is a tenant's.
type source struct {
	tenant ledger.Tenant
	read   []placed // in order, not taken yet
	last   Place    // the last that was read
	past   bool     // there is no more to read
}

// merged is the list of all runs from a place on.
type merged struct {
	ledger  *Ledger
	sources []*source
}

// listAfter returns the list of all runs behind a place. It reads the beginning of each
// source.
func (l *Ledger) listAfter(ctx context.Context, after Place) (merged, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return merged{}, fmt.Errorf("list runs: %w", err)
	}
	m := merged{ledger: l}
	lists, err := l.core.Entries(ctx, after.CreatedAt, leastTaken, tenants...)
	if err != nil {
		return merged{}, err
	}
	for i, t := range tenants {
		s := &source{tenant: t, last: after}
		if s.add(placesOf(lists[i]), leastTaken) || s.past {
			m.sources = append(m.sources, s)
			continue
		}
		if err := l.fill(ctx, s); err != nil {
			return merged{}, err
		}
		m.sources = append(m.sources, s)
	}
	return m, nil
}

// fill reads the next entries of a source, unless there are none. As many as have the
// time of the last one may have been read before.
func (l *Ledger) fill(ctx context.Context, s *source) error {
	for n := listPage; !s.past; n *= 2 {
		page, err := l.places(ctx, s, n)
		if err != nil {
			return err
		}
		if s.add(page, n) {
			return nil
		}
	}
	return nil
}

// places reads up to n entries of a source that are not later than its last one.
func (l *Ledger) places(ctx context.Context, s *source, n int) ([]placed, error) {
	lists, err := l.core.Entries(ctx, s.last.CreatedAt, n, s.tenant)
	if err != nil {
		return nil, err
	}
	return placesOf(lists[0]), nil
}

func placesOf(entries []ledger.Entry) []placed {
	page := make([]placed, len(entries))
	for i, e := range entries {
		page[i] = placed{Place{e.At, string(e.Run)}, e}
	}
	return page
}

// add adds those entries of a page of at most n that come after the last, and reports
// whether there are any. Of a page that is not the source's last one the entries of the
// earliest time are left for the next page, which has all of that time.
func (s *source) add(page []placed, n int) bool {
	s.past = len(page) < n
	if !s.past {
		earliest := page[len(page)-1].CreatedAt
		page = slices.DeleteFunc(page, func(p placed) bool { return p.CreatedAt.Equal(earliest) })
	}
	page = slices.DeleteFunc(page, func(p placed) bool { return s.last != (Place{}) && order(p.Place, s.last) <= 0 })
	slices.SortFunc(page, func(a, b placed) int { return order(a.Place, b.Place) })
	if len(page) == 0 {
		return false
	}
	s.read, s.last = append(s.read, page...), page[len(page)-1].Place
	return true
}

// take takes the next entries of the list, up to n.
func (m merged) take(ctx context.Context, n int) ([]placed, error) {
	var taken []placed
	for len(taken) < n {
		var first *source
		for _, s := range m.sources {
			if len(s.read) == 0 {
				if err := m.ledger.fill(ctx, s); err != nil {
					return nil, err
				}
			}
			if len(s.read) > 0 && (first == nil || order(s.read[0].Place, first.read[0].Place) < 0) {
				first = s
			}
		}
		if first == nil {
			return taken, nil
		}
		taken, first.read = append(taken, first.read[0]), first.read[1:]
	}
	return taken, nil
}

// readPlaces returns the runs of entries of the list that exist.
func (l *Ledger) readPlaces(ctx context.Context, list []placed) (map[Place]Run, error) {
	entries := make([]ledger.Entry, len(list))
	at := map[string]Place{}
	for i, p := range list {
		entries[i], at[p.ID] = p.entry, p.Place
	}
	headers, err := l.core.Headers(ctx, entries)
	if err != nil {
		return nil, err
	}
	runs, err := l.forList(ctx, headers)
	if err != nil {
		return nil, err
	}
	byPlace := map[Place]Run{}
	for _, r := range runs {
		byPlace[at[r.ID]] = r
	}
	return byPlace, nil
}
