package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/tenant"
)

var redisReadable = redisDesc("orgops_redis_scrape_success",
	"1 if Redis has answered all that was read for this scrape. Metrics of what cannot be read, such as a document of a newer version, are absent then too, and the log has the reason.")

// redisCollector gets its readings side by side. A Redis that is down does not hold back the
// other metrics. Of readings that stay fresh the last one is exposed while the next takes long.
type redisCollector struct {
	readings []*health.Poll[reading]
	logger   *slog.Logger
}

// WatchRedis adds the metrics in Redis: of the queues, of the open runs and overdue rows of all
// tenants, and of pace and sweeps of the tenants that the function returns, with their settings.
// It is called once.
func (m *Metrics) WatchRedis(rdb redis.Cmdable, ledger *ledger.Ledger,
	tenants func() []tenant.Announced, logger *slog.Logger) {
	paceAndSweeps := source(func(ctx context.Context) ([]prometheus.Metric, error) {
		return readEach(ctx, rdb, tenants(), tenantMetrics)
	})
	m.registry.MustRegister(&redisCollector{[]*health.Poll[reading]{
		queueSource(rdb).eachTime(), paceAndSweeps.eachTime(), overdueRows(rdb, tenants).eachTime(),
		openRuns(ledger.OpenByTenant, tenants),
	}, logger})
}

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
				r = reading{err: fmt.Errorf("no complete answer from Redis within %s: %w", gatherTimeout,
					context.DeadlineExceeded)}
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
	ch <- gauge(redisReadable, oneIf(!redisconn.Failed(err)))
}
