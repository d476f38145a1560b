package metrics

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
)

// NewSourceCollector collects what read returns with each scrape.
func NewSourceCollector(read func(context.Context) ([]prometheus.Metric, error),
	logger *slog.Logger) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{source(read).eachTime()}, logger}
}

// NewRunCollector collects the open runs that open gives.
func NewRunCollector(open func(context.Context) (map[string]ledger.OpenCounts, error)) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{openRuns(open, func() []tenant.Announced { return nil })},
		slog.New(slog.DiscardHandler)}
}

// NewCollector collects the open runs that open gives, and what read returns.
func NewCollector(read func(context.Context) ([]prometheus.Metric, error),
	open func(context.Context) (map[string]ledger.OpenCounts, error)) prometheus.Collector {
	return &redisCollector{[]*health.Poll[reading]{openRuns(open, func() []tenant.Announced { return nil }),
		source(read).eachTime()}, slog.New(slog.DiscardHandler)}
}
