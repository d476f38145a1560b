package ops

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/runs"
)

var (
	runsOpen = prometheus.NewDesc("orgops_runs_open",
		"Runs that have not ended. A row enqueued on its own counts as a run.", []string{"tenant"}, nil)
	rowsOpen = prometheus.NewDesc("orgops_rows_open",
		"Submitted rows of these runs that are not settled.", []string{"tenant"}, nil)
)

// The open runs are read again after runsEvery, and not before what that took is a
// hundredth of the time since: a hundred thousand of them take Redis seconds. After a
// failure a tenth is enough, so that they are told of soon after Redis is back.
const (
	runsEvery       = 5 * time.Second
	runsShare       = 100
	runsFailedShare = 10
	// runsWithin is how long one reading may take.
	runsWithin = time.Minute
	// runsPatience is how long an answer waits for a reading before it tells of the last.
	runsPatience = 2 * time.Second
)

// runSource is the open runs of all tenants. Unlike the rest they are read besides what
// is asked for, and may be some time old: a million of them must not keep the other
// metrics back.
type runSource struct {
	open    func(context.Context) (map[string]runs.Open, error)
	tenants []Tenant // which are told of also where they have no run

	mu       sync.Mutex
	reading  chan struct{}        // closed at the end of the one under way; nil: there is none
	byTenant map[string]runs.Open // as it was read last; nil where that failed, or is still to come
	err      error                // why it failed
	next     time.Time            // not read again before
}

func (s *runSource) describe(ch chan<- *prometheus.Desc) {
	ch <- runsOpen
	ch <- rowsOpen
}

func (s *runSource) read(ctx context.Context) (all []prometheus.Metric, err error) {
	open, err := s.recent(ctx)
	if err != nil {
		return nil, err
	}
	for tenant, o := range open {
		all = append(all, gauge(runsOpen, float64(o.Runs), tenant), gauge(rowsOpen, float64(o.Rows), tenant))
	}
	return all, nil
}

// recent is what was read last. Where that is too long ago it is read again, and waited
// for a little; none before the first reading has ended.
func (s *runSource) recent(ctx context.Context) (map[string]runs.Open, error) {
	if reading := s.begin(); reading != nil {
		patience := time.NewTimer(runsPatience)
		defer patience.Stop()
		select {
		case <-reading:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTenant, s.err
}

// begin has them read where it is time to; nil while what was read is young enough.
func (s *runSource) begin() (reading <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading == nil && !time.Now().Before(s.next) {
		s.reading = make(chan struct{})
		go s.readAll()
	}
	return s.reading
}

func (s *runSource) readAll() {
	ctx, cancel := context.WithTimeout(context.Background(), runsWithin)
	defer cancel()
	began := time.Now()
	open, err := s.open(ctx)
	share := runsShare
	if err != nil {
		open, share = nil, runsFailedShare
	}
	for _, t := range s.tenants {
		if _, has := open[t.Name]; open != nil && !has {
			open[t.Name] = runs.Open{}
		}
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTenant, s.err, s.next = open, err, now.Add(max(runsEvery, time.Duration(share)*now.Sub(began)))
	close(s.reading)
	s.reading = nil
}
