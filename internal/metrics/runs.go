package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
)

var (
	runsOpen = redisDesc("orgops_runs_open",
		"Runs that have not ended. A row enqueued on its own counts as a run.", "tenant")
	rowsOpen = redisDesc("orgops_rows_open",
		"Submitted rows of these runs that are not settled.", "tenant")
	rowsOverdue = redisDesc("orgops_rows_overdue_seconds",
		"Time for which rows have been due without a worker that releases them; 0 if there are none. Rows that wait for the pace or in a paused run do not count.", "tenant")
)

// The open runs are read again after runsEvery, or after a hundred times the duration of the
// last reading if that is longer: a hundred thousand runs take Redis seconds. After a failure
// ten times the duration is enough, so that they are exposed soon after Redis is back.
const (
	runsEvery       = 5 * time.Second
	runsShare       = 100
	runsFailedShare = 10
	// runsWithin bounds one reading.
	runsWithin = time.Minute
	// runsPatience is how long a scrape waits for a reading before it gets the last one.
	runsPatience = 2 * time.Second
)

// openRuns reads the open runs of all tenants, and those of these tenants even if there are
// none. The reading may be old: a million open runs must not delay the other metrics.
func openRuns(open func(context.Context) (map[string]ledger.OpenCounts, error),
	tenants func() []tenant.Announced) *health.Poll[reading] {
	read := source(func(ctx context.Context) (all []prometheus.Metric, err error) {
		byTenant, err := open(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tenants() {
			if _, has := byTenant[t.Tenant]; !has {
				byTenant[t.Tenant] = ledger.OpenCounts{}
			}
		}
		for tenant, o := range byTenant {
			all = append(all, gauge(runsOpen, float64(o.Runs), tenant), gauge(rowsOpen, float64(o.Rows), tenant))
		}
		return all, nil
	})
	fresh := func(r reading, took time.Duration) time.Duration {
		if r.err != nil {
			return max(runsEvery, runsFailedShare*took)
		}
		return max(runsEvery, runsShare*took)
	}
	return &health.Poll[reading]{Ask: read.read, Within: runsWithin, Patience: runsPatience, Fresh: fresh}
}

// overdueRows reads for how long rows of all tenants have been due, tenants without a worker
// included, and those of these tenants even if they have had no run.
func overdueRows(rdb redis.Cmdable, tenants func() []tenant.Announced) source {
	return func(ctx context.Context) ([]prometheus.Metric, error) {
		names, err := ledger.New(rdb).Tenants(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tenants() {
			names = append(names, ledger.Tenant(t.Tenant))
		}
		slices.Sort(names)
		return readEach(ctx, rdb, slices.Compact(names), func(ctx context.Context, rdb redis.Cmdable,
			name ledger.Tenant) ([]prometheus.Metric, error) {
			overdue, err := ledger.New(rdb).Overdue(ctx, name)
			if err != nil {
				return nil, err
			}
			return []prometheus.Metric{gauge(rowsOverdue, overdue.Seconds(), string(name))}, nil
		})
	}
}
