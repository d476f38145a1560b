package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
)

// inspector is the part of asynq.Inspector that is used. Its calls take no
// context; with a Redis that does not answer they last as long as the client's
// own timeouts and retries.
type inspector interface {
	Queues() ([]string, error)
	GetQueueInfo(queue string) (*asynq.QueueInfo, error)
}

var (
	queueTasks = redisDesc("orgops_queue_tasks",
		"Tasks in a queue, by state.", "queue", "state")
	queueLatency = redisDesc("orgops_queue_latency_seconds",
		"Waiting time of the oldest pending task.", "queue")
	queuePaused = redisDesc("orgops_queue_paused",
		"1 if the queue is paused.", "queue")
)

// queueSource is the queues, as asynq sees them.
type queueSource struct{ inspector inspector }

func (s queueSource) read(ctx context.Context) (all []prometheus.Metric, err error) {
	names, err := s.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var failed []error
	for _, name := range names {
		if ctx.Err() != nil {
			return all, errors.Join(append(failed, fmt.Errorf("queue %q: %w", name, ctx.Err()))...)
		}
		queue, err := s.inspector.GetQueueInfo(name)
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %q: %w", name, err))
			continue
		}
		all = append(all, sizes(queue)...)
	}
	return all, errors.Join(failed...)
}

func sizes(queue *asynq.QueueInfo) []prometheus.Metric {
	metrics := []prometheus.Metric{
		gauge(queueLatency, queue.Latency.Seconds(), queue.Queue),
		gauge(queuePaused, oneIf(queue.Paused), queue.Queue),
	}
	for state, tasks := range map[string]int{
		"pending": queue.Pending, "active": queue.Active, "scheduled": queue.Scheduled, "retry": queue.Retry,
		"archived": queue.Archived, "completed": queue.Completed, "aggregating": queue.Aggregating,
	} {
		metrics = append(metrics, gauge(queueTasks, float64(tasks), queue.Queue, state))
	}
	return metrics
}
