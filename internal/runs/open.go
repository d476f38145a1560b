package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
)

// fewSegments is the largest number of segments of an open run whose counts are read for a
// list; a larger run's are a minute old at most.
const fewSegments = 16

// counts returns the exact counts of a run.
func (l *Ledger) counts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if run.Ended() && run.Counts.Settled() == run.Rows {
		return run.Counts, nil // the header's were summed after the end
	}
	counts, err := l.core.Counts(ctx, run)
	if err != nil {
		return nil, err
	}
	if lost := run.Rows - counts.Settled(); run.Ended() && lost > 0 {
		counts[ledger.Lost] += lost // the segments of these rows are missing
	}
	return counts, nil
}

// listCounts returns the counts of a run for a list.
func (l *Ledger) listCounts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if !run.Ended() && run.Segments > fewSegments {
		return run.Counts, nil
	}
	return l.counts(ctx, run)
}

// forList returns runs for a list, in their order.
func (l *Ledger) forList(ctx context.Context, headers []ledger.Run) ([]Run, error) {
	all := make([]Run, len(headers))
	err := redisconn.Batch(ctx, l.rdb, len(headers), func(i int, rdb redis.UniversalClient) error {
		counts, err := New(rdb).listCounts(ctx, headers[i])
		all[i] = fromLedger(headers[i], counts)
		return err
	})
	return all, err
}

// openRuns returns the runs that have not ended.
func (l *Ledger) openRuns(ctx context.Context) ([]ledger.Run, error) {
	open, err := l.eachTenant(ctx, (*ledger.Ledger).OpenRuns)
	return slices.DeleteFunc(open, ledger.Run.Ended), err
}

// eachTenant returns the runs that list returns of all tenants.
func (l *Ledger) eachTenant(ctx context.Context, list func(*ledger.Ledger, context.Context, ledger.Tenant) ([]ledger.Run, error)) ([]ledger.Run, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]ledger.Run, len(tenants))
	err = redisconn.Batch(ctx, l.rdb, len(tenants), func(i int, rdb redis.UniversalClient) (err error) {
		lists[i], err = list(ledger.New(rdb), ctx, tenants[i])
		return err
	})
	return slices.Concat(lists...), err
}

// OpenCounts counts the open runs and rows of a tenant.
type OpenCounts struct {
	Runs int64 // that have not ended, single rows among them
	Rows int64 // of these runs, submitted and not settled
}

// OpenByTenant sums the runs that have not ended, for each tenant that has one. It reads the
// headers of each tenant's open runs.
func (l *Ledger) OpenByTenant(ctx context.Context) (map[string]OpenCounts, error) {
	headers, err := l.openRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	open := map[string]OpenCounts{}
	add := func(tenant string, rows int64) {
		o := open[tenant]
		open[tenant] = OpenCounts{Runs: o.Runs + 1, Rows: o.Rows + rows}
	}
	var others []ledger.Run
	for _, r := range headers {
		switch {
		case r.Kind == checksBetween:
		case r.Description.Single && r.Rows <= 1: // its row is open, since it has not ended
			add(string(r.Tenant), r.Rows)
		default:
			others = append(others, r)
		}
	}
	all, err := l.forList(ctx, others)
	if err != nil {
		return nil, fmt.Errorf("read open runs: %w", err)
	}
	for _, r := range all {
		add(r.Tenant, max(0, r.Stored-r.Settled))
	}
	return open, nil
}

// checksBetween is the kind of the checks between two sweeps. A run of these is open in every
// hour while a domain is watched, and is no backlog.
const checksBetween = "domain:relook"
