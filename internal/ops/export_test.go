package ops

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// NewQueueCollector lets the tests put an inspector of their own in the place of
// asynq's, which cannot be made to hang.
func NewQueueCollector(i inspector, logger *slog.Logger) prometheus.Collector {
	return newQueueCollector(i, logger)
}
