package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
)

// inspector is the part of asynq.Inspector that is used. Its calls take no
// context; with a Redis that does not answer they last as long as the client's
// own timeouts and retries.
type inspector interface {
	Queues() ([]string, error)
	GetQueueInfo(queue string) (*asynq.QueueInfo, error)
	ListScheduledTasks(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListRetryTasks(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)
}

var (
	queueTasks = prometheus.NewDesc("orgops_queue_tasks",
		"Tasks in a queue, by state.", []string{"queue", "state"}, nil)
	queueLatency = prometheus.NewDesc("orgops_queue_latency_seconds",
		"Waiting time of the oldest pending task.", []string{"queue"}, nil)
	queueOverdue = prometheus.NewDesc("orgops_queue_overdue_seconds",
		"Time since the first task in state scheduled or retry was due; 0 if none is due.", []string{"queue", "state"}, nil)
	queuePaused = prometheus.NewDesc("orgops_queue_paused",
		"1 if the queue is paused.", []string{"queue"}, nil)
)

// queueSource is the queues, as asynq sees them.
type queueSource struct{ inspector inspector }

func (s *queueSource) describe(ch chan<- *prometheus.Desc) {
	ch <- queueTasks
	ch <- queueLatency
	ch <- queueOverdue
	ch <- queuePaused
}

func (s *queueSource) read(ctx context.Context) (all []prometheus.Metric, err error) {
	names, err := s.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var failed []error
	for _, name := range names {
		if ctx.Err() != nil {
			return all, errors.Join(append(failed, fmt.Errorf("queue %q: %w", name, ctx.Err()))...)
		}
		metrics, err := s.readQueue(name)
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %q: %w", name, err))
			continue
		}
		all = append(all, metrics...)
	}
	return all, errors.Join(failed...)
}

func (s *queueSource) readQueue(name string) ([]prometheus.Metric, error) {
	queue, err := s.inspector.GetQueueInfo(name)
	if err != nil {
		return nil, err
	}
	metrics := sizes(queue)
	for _, waiting := range []struct {
		state string
		tasks int
		list  func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	}{{"scheduled", queue.Scheduled, s.inspector.ListScheduledTasks}, {"retry", queue.Retry, s.inspector.ListRetryTasks}} {
		overdue := 0.0
		if waiting.tasks > 0 {
			first, err := waiting.list(name, asynq.PageSize(1)) // the one that is due first
			if err != nil {
				return nil, err
			}
			for _, task := range first {
				overdue = max(0, time.Since(task.NextProcessAt).Seconds())
			}
		}
		metrics = append(metrics, gauge(queueOverdue, overdue, name, waiting.state))
	}
	return metrics, nil
}

func sizes(queue *asynq.QueueInfo) []prometheus.Metric {
	metrics := []prometheus.Metric{
		gauge(queueLatency, queue.Latency.Seconds(), queue.Queue),
		gauge(queuePaused, oneIf(queue.Paused), queue.Queue),
	}
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
		metrics = append(metrics, gauge(queueTasks, float64(state.tasks), queue.Queue, state.name))
	}
	return metrics
}
