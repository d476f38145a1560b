package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Entry is an entry of a tenant's list of runs, or of single rows.
type Entry struct {
	Run         RunID
	Incarnation Incarnation
	Tenant      Tenant
	// At is when the run was created, or later if Redis has lost the entry since.
	At time.Time
}

// Singles returns the single rows of a tenant, and the other runs that lists leave out, the
// latest first. It reads no headers.
func (l *Ledger) Singles(ctx context.Context, t Tenant) ([]Entry, error) {
	lists, err := l.entries(ctx, singlesList, &redis.ZRangeBy{Min: "-inf", Max: "+inf"}, t)
	if err != nil {
		return nil, err
	}
	return lists[0], nil
}

// Entries returns, for each of the tenants, the first n entries of its list of runs, which
// has none of [Ledger.Singles], that are not later than a time, the latest first. A zero time is no limit, and n = 0 is all
// entries. It reads no headers and takes one round trip.
func (l *Ledger) Entries(ctx context.Context, notAfter time.Time, n int, tenants ...Tenant) ([][]Entry, error) {
	span := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(n)}
	if !notAfter.IsZero() {
		span.Max = strconv.FormatInt(toMillis(notAfter), 10)
	}
	return l.entries(ctx, runsList, span, tenants...)
}

// entries returns a range of a list of each of the tenants.
func (l *Ledger) entries(ctx context.Context, list int, span *redis.ZRangeBy, tenants ...Tenant) ([][]Entry, error) {
	lists := make([]*redis.ZSliceCmd, len(tenants))
	if len(tenants) == 0 {
		return nil, nil
	}
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range tenants {
			lists[i] = p.ZRevRangeByScoreWithScores(ctx, tenantKeys(t)[list], span)
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
