package ops

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/ledger"
)

var rowsOverdue = prometheus.NewDesc("orgops_rows_overdue_seconds",
	"Time for which rows have been due without a worker that releases them; 0 if there are none. Rows that wait for the pace or in a paused run do not count.", []string{"tenant"}, nil)

// overdueSource reads for how long rows of all tenants have been due, also of those that no
// worker serves.
type overdueSource struct {
	overdue func(context.Context) (map[ledger.Tenant]time.Duration, error)
	tenants []Tenant // reported even if they have had no run
}

func (s *overdueSource) describe(ch chan<- *prometheus.Desc) { ch <- rowsOverdue }

func (s *overdueSource) read(ctx context.Context) (all []prometheus.Metric, err error) {
	overdue, err := s.overdue(ctx)
	if err == nil {
		for _, t := range s.tenants {
			overdue[ledger.Tenant(t.Name)] += 0
		}
	}
	for tenant, d := range overdue {
		all = append(all, gauge(rowsOverdue, d.Seconds(), string(tenant)))
	}
	return all, err
}
