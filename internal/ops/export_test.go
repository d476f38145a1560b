package ops

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/runs"
)

// NewQueueCollector lets the tests put an inspector of their own in the place of
// asynq's, which cannot be made to hang.
func NewQueueCollector(i inspector, logger *slog.Logger) prometheus.Collector {
	return newRedisCollector(logger, &queueSource{i})
}

// NewRunCollector collects the open runs that open gives.
func NewRunCollector(open func(context.Context) (map[string]runs.Open, error)) prometheus.Collector {
	return newRedisCollector(nil, &runSource{open: open})
}
