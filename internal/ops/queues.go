package ops

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
)

// gatherTimeout is how long the queues may hold up the other metrics: below the
// 10 s that Prometheus waits by default.
const gatherTimeout = 5 * time.Second

// inspector is the part of asynq.Inspector that is used. Its calls take no
// context; with a Redis that does not answer they last as long as the client's
// own timeouts and retries.
type inspector interface {
	Queues() ([]string, error)
	GetQueueInfo(queue string) (*asynq.QueueInfo, error)
}

var (
	queueTasks = prometheus.NewDesc("orgops_queue_tasks",
		"Tasks in a queue, by state.", []string{"queue", "state"}, nil)
	queueLatency = prometheus.NewDesc("orgops_queue_latency_seconds",
		"How long the oldest task that could run has been waiting.", []string{"queue"}, nil)
	queuePaused = prometheus.NewDesc("orgops_queue_paused",
		"1 if the queue hands out no tasks.", []string{"queue"}, nil)
	queueReadable = prometheus.NewDesc("orgops_queue_scrape_success",
		"1 if every queue could be read for this answer.", nil, nil)
)

// queueCollector reads the queues each time that metrics are asked for.
type queueCollector struct {
	inspector inspector
	logger    *slog.Logger
	busy      chan struct{} // holds one: a reading that has not ended
}

func newQueueCollector(i inspector, logger *slog.Logger) *queueCollector {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &queueCollector{inspector: i, logger: logger, busy: make(chan struct{}, 1)}
}

// Describe names the metrics.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- queueTasks
	ch <- queueLatency
	ch <- queuePaused
	ch <- queueReadable
}

// Collect reads all queues, but waits no longer than gatherTimeout: a Redis that
// is down must not take the other metrics with it.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	queues, err := c.gather()
	for _, queue := range queues {
		collectQueue(ch, queue)
	}
	readable := 1.0
	if err != nil {
		readable = 0
		c.logger.Warn("queues could not be read for metrics", "error", err)
	}
	ch <- prometheus.MustNewConstMetric(queueReadable, prometheus.GaugeValue, readable)
}

func collectQueue(ch chan<- prometheus.Metric, queue *asynq.QueueInfo) {
	name := labels(queue.Queue)[0]
	for _, state := range []struct {
		name  string
		tasks int
	}{
		{"pending", queue.Pending},
		{"active", queue.Active},
		{"scheduled", queue.Scheduled},
		{"retry", queue.Retry},
		{"archived", queue.Archived},
		{"completed", queue.Completed},
		{"aggregating", queue.Aggregating},
	} {
		ch <- prometheus.MustNewConstMetric(queueTasks, prometheus.GaugeValue, float64(state.tasks), name, state.name)
	}
	ch <- prometheus.MustNewConstMetric(queueLatency, prometheus.GaugeValue, queue.Latency.Seconds(), name)
	paused := 0.0
	if queue.Paused {
		paused = 1
	}
	ch <- prometheus.MustNewConstMetric(queuePaused, prometheus.GaugeValue, paused, name)
}

// gather reads all queues in a goroutine of its own, at most one at a time, and
// leaves it behind when it takes too long: it ends with the client's timeouts.
func (c *queueCollector) gather() ([]*asynq.QueueInfo, error) {
	select {
	case c.busy <- struct{}{}:
	default:
		return nil, errors.New("the reading before this one has not ended; is Redis reachable?")
	}
	type reading struct {
		queues []*asynq.QueueInfo
		err    error
	}
	done := make(chan reading, 1)
	go func() {
		defer func() { <-c.busy }()
		queues, err := c.read()
		done <- reading{queues, err}
	}()
	timeout := time.NewTimer(gatherTimeout)
	defer timeout.Stop()
	select {
	case got := <-done:
		return got.queues, got.err
	case <-timeout.C:
		return nil, fmt.Errorf("no answer within %s; is Redis reachable?", gatherTimeout)
	}
}

// read gives what it could read, also with an error.
func (c *queueCollector) read() ([]*asynq.QueueInfo, error) {
	names, err := c.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var all []*asynq.QueueInfo
	var failed []error
	for _, name := range names {
		queue, err := c.inspector.GetQueueInfo(name)
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %q: %w", name, err))
			continue
		}
		all = append(all, queue)
	}
	return all, errors.Join(failed...)
}
