package ops

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/runs"
)

var (
	runsOpen = prometheus.NewDesc("orgops_runs_open",
		"Runs that have not ended; rows that came by themselves are a run each.", []string{"tenant"}, nil)
	rowsOpen = prometheus.NewDesc("orgops_rows_open",
		"Rows of these runs that are handed in and not settled.", []string{"tenant"}, nil)
	lostRows = prometheus.NewDesc("orgops_lost_rows",
		"Open rows for which no task stands, as the fleet found last; it looks every five minutes.", []string{"tenant"}, nil)
)

// The open runs are read again after runsEvery, and not before what that took is a
// hundredth of the time since: a hundred thousand of them take Redis seconds.
const (
	runsEvery = 5 * time.Second
	runsShare = 100
)

// runSource is the open runs of all tenants. Unlike the rest it may be some seconds old.
type runSource struct {
	open    func(context.Context) (map[string]runs.Open, error)
	tenants []Tenant // which are told of also where they have no run

	byTenant map[string]runs.Open // as it was read last
	next     time.Time            // not read again before
}

func (s *runSource) describe(ch chan<- *prometheus.Desc) {
	ch <- runsOpen
	ch <- rowsOpen
	ch <- lostRows
}

func (s *runSource) read(ctx context.Context) (all []prometheus.Metric, err error) {
	open, err := s.recent(ctx)
	if err != nil {
		return nil, err
	}
	for tenant, o := range open {
		all = append(all, gauge(runsOpen, float64(o.Runs), tenant), gauge(rowsOpen, float64(o.Rows), tenant), gauge(lostRows, float64(o.Lost), tenant))
	}
	return all, nil
}

// recent is what was read last, or now where that is too long ago. One reading is under
// way at a time: see redisCollector.
func (s *runSource) recent(ctx context.Context) (map[string]runs.Open, error) {
	began := time.Now()
	if began.Before(s.next) {
		return s.byTenant, nil
	}
	open, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range s.tenants {
		if _, has := open[t.Name]; !has {
			open[t.Name] = runs.Open{}
		}
	}
	now := time.Now()
	s.byTenant, s.next = open, now.Add(max(runsEvery, runsShare*now.Sub(began)))
	return open, nil
}
