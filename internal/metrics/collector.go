package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/internal/tenant"
)

const (
	// gatherTimeout is how long Redis may delay the other metrics: less than the 10 s that
	// Prometheus waits by default.
	gatherTimeout = 5 * time.Second
	// readWithin ends a reading early enough for the metrics that it has read to be exposed.
	readWithin = gatherTimeout - 500*time.Millisecond
)

// redisDescs are all metrics that are read from Redis.
var redisDescs []*prometheus.Desc

func redisDesc(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	redisDescs = append(redisDescs, desc)
	return desc
}

var redisReadable = redisDesc("orgops_redis_scrape_success",
	"1 if all metrics that come from Redis were read for this scrape.")

// source reads metrics from Redis. With an error it returns the metrics that it could read.
type source func(ctx context.Context) ([]prometheus.Metric, error)

// reading is the result of a source.
type reading struct {
	metrics []prometheus.Metric
	err     error
}

// readEach reads the metrics of many tenants or queues. It returns the first errors only, since
// they may all have the same cause.
func readEach[T any](ctx context.Context, rdb redis.UniversalClient, each []T, read func(context.Context, redis.UniversalClient, T) ([]prometheus.Metric, error)) (all []prometheus.Metric, _ error) {
	const most = 3
	readings := make([]reading, len(each))
	errs := []error{redisconn.Batch(ctx, rdb, len(each), func(i int, rdb redis.UniversalClient) error {
		readings[i].metrics, readings[i].err = read(ctx, rdb, each[i])
		return nil
	})}
	for _, r := range readings {
		all = append(all, r.metrics...)
		if r.err != nil {
			errs = append(errs, r.err)
		}
	}
	if more := len(errs) - 1 - most; more > 0 {
		errs = append(errs[:1+most], fmt.Errorf("and %d more errors", more))
	}
	return all, errors.Join(errs...)
}

func (s source) read(ctx context.Context) reading {
	metrics, err := s(ctx)
	return reading{metrics, err}
}

// eachTime returns the readings of a source that is read with each scrape.
func (s source) eachTime() *health.Poll[reading] {
	return &health.Poll[reading]{Ask: s.read, Within: readWithin, Patience: gatherTimeout}
}

// redisCollector gets its readings side by side. A Redis that is down does not hold back the
// other metrics. Of readings that stay fresh the last one is exposed while the next takes long.
type redisCollector struct {
	readings []*health.Poll[reading]
	logger   *slog.Logger
}

// WatchRedis adds the metrics in Redis: of the queues, of the open runs and overdue rows of all
// tenants, and of pace and sweeps of the tenants that the function returns, with their settings.
// It is called once.
func (m *Metrics) WatchRedis(rdb redis.UniversalClient, ledger *runs.Ledger, tenants func() []tenant.Announced, logger *slog.Logger) {
	m.registry.MustRegister(&redisCollector{[]*health.Poll[reading]{
		queueSource(rdb, newInspector).eachTime(), tenantSource(rdb, tenants).eachTime(), overdueRows(rdb, tenants).eachTime(),
		openRuns(ledger.OpenByTenant, tenants),
	}, logger})
}

// Describe names the metrics.
func (c *redisCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range redisDescs {
		ch <- desc
	}
}

// Collect reads everything, but waits no longer than gatherTimeout.
func (c *redisCollector) Collect(ch chan<- prometheus.Metric) {
	readings := make([]reading, len(c.readings))
	var all sync.WaitGroup
	for i, p := range c.readings {
		all.Go(func() {
			r, since := p.Get(context.Background())
			if !since.IsZero() && p.Fresh == nil {
				r = reading{err: fmt.Errorf("no complete answer from Redis within %s", gatherTimeout)}
			}
			readings[i] = r
		})
	}
	all.Wait()
	var err error
	for _, r := range readings {
		for _, m := range r.metrics {
			ch <- m
		}
		err = errors.Join(err, r.err)
	}
	if err != nil {
		c.logger.Warn("reading metrics from Redis failed", "error", err)
	}
	ch <- gauge(redisReadable, oneIf(err == nil))
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
