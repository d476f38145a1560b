package runs

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"orgops/internal/ledger"
)

const (
	// fewSegments is the largest number of segments of an open run whose counts are read
	// for a list; a larger run's are a minute old at most.
	fewSegments = 16
	// parallel is how many runs, or tenants, are read at a time.
	parallel = 8
)

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
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, run := range headers {
		g.Go(func() error {
			counts, err := l.listCounts(ctx, run)
			all[i] = FromCore(run, counts)
			return err
		})
	}
	return all, g.Wait()
}

// openRuns returns the runs that have not ended.
func (l *Ledger) openRuns(ctx context.Context) ([]ledger.Run, error) {
	open, err := l.eachTenant(ctx, l.core.OpenRuns)
	return slices.DeleteFunc(open, ledger.Run.Ended), err
}

// eachTenant returns the runs that list returns of all tenants.
func (l *Ledger) eachTenant(ctx context.Context, list func(context.Context, ledger.Tenant) ([]ledger.Run, error)) ([]ledger.Run, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]ledger.Run, len(tenants))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, t := range tenants {
		g.Go(func() (err error) {
			lists[i], err = list(ctx, t)
			return err
		})
	}
	err = g.Wait()
	return slices.Concat(lists...), err
}

// Open counts the open runs and rows of a tenant.
type Open struct {
	Runs int64 // that have not ended, single rows among them
	Rows int64 // of these runs, submitted and not settled
}

// OpenByTenant sums the runs that have not ended, for each tenant that has one. It reads the
// headers of each tenant's open runs.
func (l *Ledger) OpenByTenant(ctx context.Context) (map[string]Open, error) {
	headers, err := l.openRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	open := map[string]Open{}
	add := func(tenant string, rows int64) {
		o := open[tenant]
		open[tenant] = Open{Runs: o.Runs + 1, Rows: o.Rows + rows}
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
