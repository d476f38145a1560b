package ledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

const (
	// listPage is how many headers are read in one round trip.
	listPage = 500
	// firstEntries is how many entries of each tenant's list are read first. The number doubles up
	// to listPage.
	firstEntries = 20
)

// Tenants returns the tenants that have, or had, a run, in order.
func (l *Ledger) Tenants(ctx context.Context) ([]Tenant, error) {
	names, err := l.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	slices.Sort(names)
	tenants := make([]Tenant, len(names))
	for i, name := range names {
		tenants[i] = Tenant(name)
	}
	return tenants, nil
}

// Runs returns the runs of these tenants, or of all if none is named, without single rows, the
// newest first. If headers cannot be read it returns the other runs and an error.
func (l *Ledger) Runs(ctx context.Context, tenants ...Tenant) ([]Run, error) {
	return l.list(ctx, "runs", tenants)
}

// OpenRuns returns the runs that are staged or open, or that have ended but are not finished, as
// [Ledger.Runs] does.
func (l *Ledger) OpenRuns(ctx context.Context, tenants ...Tenant) ([]Run, error) {
	open, err := l.list(ctx, "open", tenants)
	return slices.DeleteFunc(open, func(r Run) bool { return !r.FinishedAt.IsZero() }), err
}

// OpenSingles returns the single rows that are not finished, as Runs does. There may be millions.
func (l *Ledger) OpenSingles(ctx context.Context, tenants ...Tenant) ([]Run, error) {
	return l.list(ctx, "singles", tenants)
}

// All returns all runs, single rows among them, in no order, as Runs does.
func (l *Ledger) All(ctx context.Context, tenants ...Tenant) (all []Run, err error) {
	known := map[Incarnation]bool{}
	for _, list := range []string{"runs", "singles", "ended"} {
		some, failed := l.list(ctx, list, tenants)
		for _, r := range some {
			if !known[r.Incarnation] {
				all = append(all, r)
			}
			known[r.Incarnation] = true
		}
		err = cmp.Or(err, failed)
	}
	return all, err
}

// CountSingles returns the number of single rows that are not finished, for each of the tenants, or
// of all if none is named.
func (l *Ledger) CountSingles(ctx context.Context, tenants ...Tenant) (counts map[Tenant]int64, err error) {
	defer wrap(&err, "count single rows")
	if tenants, err = l.orAll(ctx, tenants); err != nil {
		return nil, err
	}
	cards := make([]*redis.IntCmd, len(tenants))
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range tenants {
			cards[i] = p.ZCard(ctx, tenantKey(t, "singles"))
		}
		return nil
	})
	counts = map[Tenant]int64{}
	for i, t := range tenants {
		counts[t] = cards[i].Val()
	}
	return counts, err
}

// OpenCounts counts the open runs and rows of a tenant.
type OpenCounts struct {
	Runs int64 // single rows among them
	Rows int64 // of these runs, submitted and not settled
	// Paused is how many of the rows are in paused runs.
	Paused int64
}

// OpenByTenant sums the runs that have not ended, for each tenant that has one. It reads their
// headers, and counts single rows.
func (l *Ledger) OpenByTenant(ctx context.Context) (map[string]OpenCounts, error) {
	singles, err := l.CountSingles(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := l.OpenRuns(ctx)
	open := map[string]OpenCounts{}
	for t, n := range singles {
		if n > 0 {
			open[string(t)] = OpenCounts{Runs: n, Rows: n}
		}
	}
	for _, r := range runs {
		o := open[string(r.Tenant)]
		rows := max(0, r.Rows-r.Settled())
		if r.Ended() {
			continue
		}
		o.Runs++
		o.Rows += rows
		if r.Paused {
			o.Paused += rows
		}
		open[string(r.Tenant)] = o
	}
	return open, err
}

// Place is a run's place in the list of all runs, which is ordered by time of creation, and then by
// id, incarnation and tenant: tenants that are swept at the same time have runs of one id and one
// millisecond. The zero Place is before the newest.
type Place struct {
	CreatedAt   time.Time // to the millisecond
	Tenant      Tenant
	ID          RunID
	Incarnation Incarnation
}

// String returns the place as a parameter of an address; see [ParsePlace].
func (p Place) String() string {
	return fmt.Sprintf("%d/%s/%s/%s", p.CreatedAt.UnixMilli(), p.Tenant, p.ID, p.Incarnation)
}

// ParsePlace reads a place of [Place.String]; "" is the zero Place. It may be of no run.
func ParsePlace(text string) (p Place, ok bool) {
	if text == "" {
		return Place{}, true
	}
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		return Place{}, false
	}
	ms, err := strconv.ParseInt(parts[0], 10, 64)
	p = Place{CreatedAt: fromMillis(ms), Tenant: Tenant(parts[1]), ID: RunID(parts[2]), Incarnation: Incarnation(parts[3])}
	run := Run{Tenant: p.Tenant, ID: p.ID, Incarnation: p.Incarnation}
	return p, err == nil && ms > 0 && run.segment(0).Validate() == nil
}

// entry returns the entry at the place.
func (p Place) entry() *entry {
	run := Run{Tenant: p.Tenant, ID: p.ID, Incarnation: p.Incarnation}
	return &entry{at: p.CreatedAt, name: run.entry(), run: run}
}

// Query selects a page of runs.
type Query struct {
	// Tenant reports whether runs of the tenant may belong to the page; nil: those of all tenants may.
	Tenant func(Tenant) bool
	// Open leaves finished runs out. The page is in the order of the clock by which runs
	// are deleted then.
	Open bool
	// Caller is the HTTP client whose runs belong to the page, and no others are read; "": all do.
	Caller string
	// Since and Until are the bounds of the time of creation, Until excluded, unless Open is set.
	Since, Until time.Time
	// Match reports whether a run belongs to the page; nil: every run does.
	Match func(Run) bool
	// After is where the page before this one ended, and Limit the most runs of a page.
	After Place
	Limit int
	// MaxRead bounds how many runs are read; 0: no bound.
	MaxRead int
}

// Page returns the newest runs of all tenants that match, without single rows. If there may be
// more, next is where to continue; else it is the zero Place. A page of which MaxRead runs were
// read may be short of Limit, or empty.
func (l *Ledger) Page(ctx context.Context, q Query) (page []Run, next Place, err error) {
	defer wrap(&err, "list runs")
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return nil, Place{}, err
	}
	if q.Tenant != nil {
		tenants = slices.DeleteFunc(tenants, func(t Tenant) bool { return !q.Tenant(t) })
	}

	// The list in which the runs are, and where in it the page begins. Open runs are few: they are
	// listed whatever their time.
	list := "runs"
	from := (*entry)(nil)
	if q.Open {
		list = "open"
		q.Since = time.Time{}
		q.Until = time.Time{}
	}
	if q.Caller != "" {
		list = callerPart(callerSum(q.Caller))
	}
	if q.After != (Place{}) {
		from = q.After.entry()
	} else if !q.Until.IsZero() { // behind all of that time
		from = &entry{at: q.Until}
	}

	// Read on, the newest first, until the page is full or enough was read.
	after := q.After
	read := 0
	for e, err := range l.newest(ctx, list, tenants, from, q.Limit+1) {
		if err == nil && e.at.Before(q.Since) {
			break
		}
		if err = cmp.Or(err, e.err); err != nil {
			return nil, Place{}, err
		}
		if !e.exists() {
			continue
		}
		read++
		match := (q.Match == nil || q.Match(e.run)) && (!q.Open || e.run.FinishedAt.IsZero())
		if (match && len(page) == q.Limit) || (q.MaxRead > 0 && read > q.MaxRead) {
			return page, after, nil
		}
		after = Place{e.at, e.run.Tenant, e.run.ID, e.run.Incarnation}
		if match {
			page = append(page, e.run)
		}
	}
	return page, Place{}, nil
}

// list returns the runs of a list of the tenants, or of all, the newest first.
func (l *Ledger) list(ctx context.Context, list string, tenants []Tenant) (all []Run, err error) {
	defer wrap(&err, "list runs")
	if tenants, err = l.orAll(ctx, tenants); err != nil {
		return nil, err
	}
	var failed []error
	for e, err := range l.newest(ctx, list, tenants, nil, listPage) {
		switch {
		case err != nil:
			return all, err
		case e.err != nil:
			failed = append(failed, e.err)
		case e.exists():
			all = append(all, e.run)
		}
	}
	return all, joined("headers", failed)
}

// orAll returns the tenants, or all if there is none.
func (l *Ledger) orAll(ctx context.Context, tenants []Tenant) ([]Tenant, error) {
	if len(tenants) == 0 {
		return l.Tenants(ctx)
	}
	for _, t := range tenants {
		if err := t.Validate(); err != nil {
			return nil, err
		}
	}
	return tenants, nil
}

// entry is an entry of a tenant's list.
type entry struct {
	name string
	// at is the entry's time.
	at time.Time
	// run has at least a tenant, and an id and an incarnation unless the entry is malformed.
	run Run
	// found reports whether there is a header of that incarnation.
	found bool
	// err says why the header cannot be read; nil if it can.
	err error
}

// exists reports whether there is a run that is not being deleted.
func (e entry) exists() bool { return e.found && e.run.DeletingAt.IsZero() }

// order compares entries, the latest first, those of one time as Redis orders them.
func (e entry) order(other entry) int {
	return cmp.Or(other.at.Compare(e.at), cmp.Compare(other.name, e.name), cmp.Compare(e.run.Tenant, other.run.Tenant))
}

// newest yields the entries of a list of the tenants with their runs, the latest first, behind one
// of them; nil: all. It reads some headers at a time, as many as most callers need.
func (l *Ledger) newest(ctx context.Context, list string, tenants []Tenant, after *entry,
	some int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		// Few of many tenants' entries are on a first page.
		for n, more := firstEntries, true; more; n = min(2*n, listPage) {
			var page []entry
			err := ctx.Err() // some clients ignore the contexts of their commands
			if err == nil {
				page, more, err = l.entriesAfter(ctx, list, tenants, after, n)
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
			for part := range slices.Chunk(page, min(max(n, some), listPage)) {
				l.readHeaders(ctx, part)
				for _, e := range part {
					if !yield(e, nil) {
						return
					}
				}
			}
			if more {
				after = &page[len(page)-1]
			}
		}
	}
}

// entriesAfter returns the next entries of the tenants' lists behind one of them, in order, and
// whether there are more: then it is one entry at least. It reads n of each list, in one round
// trip. The merged entries are complete up to the first place where a list may go on.
func (l *Ledger) entriesAfter(ctx context.Context, list string, tenants []Tenant, after *entry,
	n int) (all []entry, more bool, err error) {
	// The next entries of each tenant, at most n.
	span := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(n)}
	if after != nil { // by time, since a rank changes when others are added or removed
		span.Max = strconv.FormatInt(toMillis(after.at), 10)
	}
	lists := make([]*redis.ZSliceCmd, len(tenants))
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range tenants {
			lists[i] = p.ZRevRangeByScoreWithScores(ctx, tenantKey(t, list), span)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}

	// A list that returned n entries may have more. Entries after the earliest such end cannot be
	// ordered yet: the next call returns them.
	var cut entry
	for i, t := range tenants {
		for _, z := range lists[i].Val() {
			e := entry{at: fromMillis(int64(z.Score))}
			e.name, _ = z.Member.(string)
			e.run, e.err = listed(t, e.name)
			e.run.Tenant = t
			all = append(all, e)
		}
		if len(lists[i].Val()) == n {
			if last := all[len(all)-1]; !more || last.order(cut) < 0 {
				cut = last
				more = true
			}
		}
	}
	all = slices.DeleteFunc(all, func(e entry) bool {
		return (more && e.order(cut) > 0) || (after != nil && e.order(*after) <= 0)
	})
	if len(all) == 0 && more { // they have the time of the entry
		return l.entriesAfter(ctx, list, tenants, after, 2*n)
	}
	slices.SortFunc(all, entry.order)
	return all, more, nil
}

// readHeaders reads the headers of entries.
func (l *Ledger) readHeaders(ctx context.Context, page []entry) {
	hashes := make([]*redis.MapStringStringCmd, len(page))
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
		for i, e := range page {
			hashes[i] = p.HGetAll(ctx, headerKey(e.run.Tenant, e.run.ID, "header"))
		}
		return nil
	})
	for i := range page {
		e := &page[i]
		if e.err != nil {
			continue
		}
		hash, err := hashes[i].Result()
		switch {
		case err != nil:
			e.err = fmt.Errorf("run %s: read: %w", e.run.ID, err)
		case hash["inc"] == string(e.run.Incarnation):
			var run Run
			if run, e.err = parseRun(e.run.Tenant, e.run.ID, hash); e.err == nil {
				e.run = run
				e.found = true
			}
		}
	}
}

// listed returns the run that an entry of a tenant's list names, with no more than its
// id, incarnation and tenant.
func listed(t Tenant, entry string) (Run, error) {
	id, inc, _ := strings.Cut(entry, "/")
	run := Run{ID: RunID(id), Incarnation: Incarnation(inc), Tenant: t}
	if err := run.segment(0).Validate(); err != nil {
		return Run{}, fmt.Errorf("entry %s of a list: %w", untrusted.Value(entry), err)
	}
	return run, nil
}
