package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/runs"
)

// gatherTimeout is how long Redis may hold up the other metrics: below the 10 s
// that Prometheus waits by default.
const gatherTimeout = 5 * time.Second

var redisReadable = prometheus.NewDesc("orgops_redis_scrape_success",
	"1 if all metrics that come from Redis were read for this scrape.", nil, nil)

// source is something that is read from Redis: what it could read it gives also with
// an error.
type source interface {
	describe(ch chan<- *prometheus.Desc)
	read(ctx context.Context) ([]prometheus.Metric, error)
}

// redisCollector reads its sources each time that metrics are asked for.
type redisCollector struct {
	sources []source
	logger  *slog.Logger

	mu     sync.Mutex
	flight *flight // nil: no reading is under way
}

// flight is one reading, of which all have the answer who ask while it is under way.
type flight struct {
	until time.Time // nobody waits longer
	ended chan struct{}

	mu      sync.Mutex
	metrics []prometheus.Metric // of the sources that are read, as is err
	err     error
}

func (f *flight) add(metrics []prometheus.Metric, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.metrics, f.err = append(f.metrics, metrics...), errors.Join(f.err, err)
}

// sofar is what was read by now.
func (f *flight) sofar() ([]prometheus.Metric, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.metrics), f.err
}

func newRedisCollector(logger *slog.Logger, sources ...source) *redisCollector {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &redisCollector{sources: sources, logger: logger}
}

// WatchRedis adds what is in Redis: the queues, the open runs and overdue rows of all tenants, and how
// pace and sweeps of these tenants stand. It is read each time that metrics are asked
// for. The logger is told when it cannot be.
func (m *Metrics) WatchRedis(rdb redis.UniversalClient, ledger *runs.Ledger, tenants []Tenant, logger *slog.Logger) error {
	c := newRedisCollector(logger, &queueSource{asynq.NewInspectorFromRedisClient(rdb)}, &tenantSource{rdb, ledger, tenants},
		&runSource{open: ledger.OpenByTenant, tenants: tenants}, &overdueSource{overdue: ledger.Core().Overdue, tenants: tenants})
	if err := m.registry.Register(c); err != nil {
		return fmt.Errorf("register the metrics read from Redis: %w", err)
	}
	return nil
}

// Describe names the metrics.
func (c *redisCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.sources {
		s.describe(ch)
	}
	ch <- redisReadable
}

// Collect reads everything, but waits no longer than gatherTimeout: a Redis that is
// down must not take the other metrics with it.
func (c *redisCollector) Collect(ch chan<- prometheus.Metric) {
	metrics, err := c.gather()
	for _, m := range metrics {
		ch <- m
	}
	if err != nil {
		c.logger.Warn("reading metrics from Redis failed", "error", err)
	}
	ch <- gauge(redisReadable, oneIf(err == nil))
}

// gather reads in a goroutine of its own, one at a time, and leaves it behind when it
// takes too long: it ends with the client's timeouts. What was read by then is given.
func (c *redisCollector) gather() ([]prometheus.Metric, error) {
	f := c.join()
	timeout := time.NewTimer(time.Until(f.until))
	defer timeout.Stop()
	select {
	case <-f.ended:
		return f.sofar()
	case <-timeout.C:
		metrics, err := f.sofar()
		return metrics, errors.Join(err, fmt.Errorf("no complete answer from Redis within %s", gatherTimeout))
	}
}

// join is the reading that is under way, or a new one.
func (c *redisCollector) join() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight == nil {
		f := &flight{until: time.Now().Add(gatherTimeout), ended: make(chan struct{})}
		c.flight = f
		go c.read(f)
	}
	return c.flight
}

func (c *redisCollector) read(f *flight) {
	ctx, cancel := context.WithDeadline(context.Background(), f.until)
	defer cancel()
	for _, s := range c.sources {
		f.add(s.read(ctx))
	}
	c.mu.Lock()
	c.flight = nil
	c.mu.Unlock()
	close(f.ended)
}

func gauge(desc *prometheus.Desc, value float64, labelValues ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels(labelValues...)...)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
