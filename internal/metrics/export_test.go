package metrics

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
)

// NewQueueCollector lets the tests put an inspector of their own instead of
// asynq's, which cannot be made to hang.
func NewQueueCollector(i inspector, logger *slog.Logger) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{queueSource(nil, given(i)).eachTime()}, logger}
}

func given(i inspector) func(redis.UniversalClient) inspector {
	return func(redis.UniversalClient) inspector { return i }
}

// NewRunCollector collects the open runs that open gives.
func NewRunCollector(open func(context.Context) (map[string]ledger.OpenCounts, error)) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{openRuns(open, func() []tenant.Announced { return nil })},
		slog.New(slog.DiscardHandler)}
}

// NewCollector collects the open runs that open gives, and the queues.
func NewCollector(i inspector, open func(context.Context) (map[string]ledger.OpenCounts, error)) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{openRuns(open, func() []tenant.Announced { return nil }),
		queueSource(nil, given(i)).eachTime()}, slog.New(slog.DiscardHandler)}
}
