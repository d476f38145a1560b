package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/redisconn"
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

// source reads metrics from Redis. With an error it returns the metrics that it could read.
type source func(ctx context.Context) ([]prometheus.Metric, error)

type reading struct {
	metrics []prometheus.Metric
	err     error
}

// readEach reads the metrics of many tenants or queues. It returns the first errors only, since
// they may all have the same cause.
func readEach[T any](ctx context.Context, rdb redis.Cmdable, each []T,
	read func(context.Context, redis.Cmdable, T) ([]prometheus.Metric, error)) (all []prometheus.Metric, _ error) {
	const most = 3
	readings := make([]reading, len(each))
	errs := []error{redisconn.Batch(ctx, rdb, len(each), func(i int, rdb redis.Cmdable) error {
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

func gauge(desc *prometheus.Desc, value float64, labelValues ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels(labelValues...)...)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// labels makes values valid labels: the library panics at bytes that are not UTF-8, and task
// types come from any client of Redis.
func labels(values ...string) []string {
	for i, value := range values {
		values[i] = strings.ToValidUTF8(value, "\ufffd")
	}
	return values
}
