package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// listPage is how many headers are read in one round trip.
const listPage = 500

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

// OpenTenants returns the tenants that have a run or single row which is not finished, in order. It
// reads no headers and takes two round trips.
func (l *Ledger) OpenTenants(ctx context.Context) ([]Tenant, error) {
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	open, singles := map[Tenant]*redis.IntCmd{}, map[Tenant]*redis.IntCmd{}
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range tenants {
			open[t], singles[t] = p.ZCard(ctx, tenantKey(t, "open")), p.ZCard(ctx, tenantKey(t, "singles"))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tenants with open runs: %w", err)
	}
	return slices.DeleteFunc(tenants, func(t Tenant) bool { return open[t].Val()+singles[t].Val() == 0 }), nil
}

// Runs returns the runs of a tenant without single rows, the newest first. If headers
// cannot be read it returns the other runs and an error.
func (l *Ledger) Runs(ctx context.Context, t Tenant) ([]Run, error) { return l.list(ctx, t, "runs") }

// OpenRuns returns the runs of a tenant that are staged or open, or that have ended but
// are not finished, the newest first, without single rows. If headers cannot be read it returns the
// other runs and an error.
func (l *Ledger) OpenRuns(ctx context.Context, t Tenant) ([]Run, error) {
	open, err := l.list(ctx, t, "open")
	return slices.DeleteFunc(open, func(r Run) bool { return !r.FinishedAt.IsZero() }), err
}

// OpenSingles returns the single rows of a tenant that are not finished, as OpenRuns does: there
// may be very many.
func (l *Ledger) OpenSingles(ctx context.Context, t Tenant) ([]Run, error) {
	return l.list(ctx, t, "singles")
}

// CountSingles returns the number of these for each of the tenants, in one round trip.
func (l *Ledger) CountSingles(ctx context.Context, tenants ...Tenant) (map[Tenant]int64, error) {
	cards, counts := map[Tenant]*redis.IntCmd{}, map[Tenant]int64{}
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range tenants {
			cards[t] = p.ZCard(ctx, tenantKey(t, "singles"))
		}
		return nil
	})
	for t, card := range cards {
		counts[t] = card.Val()
	}
	if err != nil {
		return nil, fmt.Errorf("count single rows: %w", err)
	}
	return counts, nil
}

// list returns the runs of a tenant's list that are not being deleted.
func (l *Ledger) list(ctx context.Context, t Tenant, list string) (all []Run, err error) {
	defer wrap(&err, "list runs of %s", t)
	if err := t.Validate(); err != nil {
		return nil, err
	}
	var failed []error
	err = l.eachPage(ctx, t, list, func(page []entry) {
		for _, e := range page {
			switch {
			case e.err != nil:
				failed = append(failed, e.err)
			case e.found && e.run.DeletingAt.IsZero():
				all = append(all, e.run)
			}
		}
	})
	return all, cmp.Or(err, joined("headers", failed))
}

// entry is an entry of a tenant's list.
type entry struct {
	// run has at least an id, an incarnation and a tenant.
	run Run
	// at is the entry's time.
	at time.Time
	// found reports whether there is a header of that incarnation.
	found bool
	// err says why the header cannot be read; nil if it can.
	err error
}

// eachPage calls f with the entries of a tenant's list, the latest first, listPage at a
// time.
func (l *Ledger) eachPage(ctx context.Context, t Tenant, list string, f func([]entry)) error {
	from := redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: listPage}
	for {
		members, err := l.rdb.ZRevRangeByScoreWithScores(ctx, tenantKey(t, list), &from).Result()
		if err != nil {
			return err
		}
		page := make([]entry, len(members))
		for i, z := range members {
			name, _ := z.Member.(string)
			page[i].at = fromMillis(int64(z.Score))
			page[i].run, page[i].err = listed(t, name)
		}
		l.readHeaders(ctx, page)
		f(page)
		if ctx.Err() != nil || len(page) < listPage {
			return ctx.Err()
		}
		from = after(from, members)
	}
}

// after returns the range of the page after these members: by score, since a rank changes
// when others are added or removed.
func after(from redis.ZRangeBy, page []redis.Z) redis.ZRangeBy {
	last := page[len(page)-1].Score
	score := strconv.FormatFloat(last, 'f', -1, 64)
	if score != from.Max {
		from.Max, from.Offset = score, 0
	}
	for _, z := range page {
		if z.Score == last {
			from.Offset++
		}
	}
	return from
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
		if page[i].err == nil {
			page[i].read(hashes[i].Result())
		}
	}
}

// read reads the header of an entry from its hash.
func (e *entry) read(hash map[string]string, err error) {
	if err != nil {
		e.err = fmt.Errorf("run %s: read: %w", e.run.ID, err)
		return
	}
	if hash["inc"] != string(e.run.Incarnation) {
		return
	}
	run, err := parseRun(e.run.ID, hash)
	if err != nil {
		e.err = err
		return
	}
	e.run, e.found = run, true
}

// Entry is an entry of a tenant's list of runs, or of single rows.
type Entry struct {
	Run         RunID
	Incarnation Incarnation
	Tenant      Tenant
	// At is when the run was created.
	At time.Time
}

// All returns all runs of a tenant, single rows among them, in no order.
func (l *Ledger) All(ctx context.Context, t Tenant) ([]Run, error) {
	found := map[string]Entry{}
	for _, list := range []string{"runs", "singles", "ended"} {
		entries, err := l.entries(ctx, list, &redis.ZRangeBy{Min: "-inf", Max: "+inf"}, t)
		if err != nil {
			return nil, err
		}
		for _, e := range entries[0] {
			found[string(e.Run)+"/"+string(e.Incarnation)] = e
		}
	}
	return l.Headers(ctx, slices.Collect(maps.Values(found)))
}

// Entries returns, for each of the tenants, the first n entries of its list of runs, which has
// no single rows, that are not later than a time, the latest first. A zero time is
// no limit, and n = 0 is all entries. It reads no headers and takes one round trip.
func (l *Ledger) Entries(ctx context.Context, notAfter time.Time, n int, tenants ...Tenant) ([][]Entry, error) {
	span := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(n)}
	if !notAfter.IsZero() {
		span.Max = strconv.FormatInt(toMillis(notAfter), 10)
	}
	return l.entries(ctx, "runs", span, tenants...)
}

// entries returns a range of a list of each of the tenants.
func (l *Ledger) entries(ctx context.Context, list string, span *redis.ZRangeBy, tenants ...Tenant) ([][]Entry, error) {
	lists := make([]*redis.ZSliceCmd, len(tenants))
	if len(tenants) == 0 {
		return nil, nil
	}
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range tenants {
			lists[i] = p.ZRevRangeByScoreWithScores(ctx, tenantKey(t, list), span)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	all := make([][]Entry, len(tenants))
	for i, t := range tenants {
		for _, z := range lists[i].Val() {
			name, _ := z.Member.(string)
			run, err := listed(t, name)
			if err != nil {
				return nil, fmt.Errorf("list runs of %s: %w", t, err)
			}
			all[i] = append(all[i], Entry{Run: run.ID, Incarnation: run.Incarnation, Tenant: t, At: fromMillis(int64(z.Score))})
		}
	}
	return all, nil
}

// Headers returns the runs of entries, in their order, without those that are deleted.
func (l *Ledger) Headers(ctx context.Context, entries []Entry) ([]Run, error) {
	var runs []Run
	for part := range slices.Chunk(entries, listPage) {
		page := make([]entry, len(part))
		for i, e := range part {
			page[i].run = Run{ID: e.Run, Incarnation: e.Incarnation, Tenant: e.Tenant}
		}
		l.readHeaders(ctx, page)
		for _, e := range page {
			if e.err != nil {
				return nil, fmt.Errorf("list runs: %w", e.err)
			}
			if e.found && e.run.DeletingAt.IsZero() {
				runs = append(runs, e.run)
			}
		}
	}
	return runs, nil
}

// listed returns the run that an entry of a tenant's list names, with no more than its
// id, incarnation and tenant.
func listed(t Tenant, entry string) (Run, error) {
	id, inc, _ := strings.Cut(entry, "/")
	run := Run{ID: RunID(id), Incarnation: Incarnation(inc), Tenant: t}
	if err := run.segment(0).Validate(); err != nil {
		return Run{}, fmt.Errorf("entry %s of a list: %w", quoted(entry), err)
	}
	return run, nil
}
