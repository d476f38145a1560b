package metrics

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
)

var (
	queueTasks = redisDesc("orgops_queue_tasks",
		"Tasks in a queue, by state.", "queue", "state")
	queueLatency = redisDesc("orgops_queue_latency_seconds",
		"Waiting time of the oldest pending task.", "queue")
	queuePaused = redisDesc("orgops_queue_paused",
		"1 if the queue is paused.", "queue")
)

// queueSource reads the queues of orgops. Those of other programs have alerts of their own.
func queueSource(rdb redis.Cmdable) source {
	return func(ctx context.Context) ([]prometheus.Metric, error) {
		names, err := queues.List(ctx, rdb)
		if err != nil {
			return nil, err
		}
		return readEach(ctx, rdb, names, func(ctx context.Context, rdb redis.Cmdable,
			name string) ([]prometheus.Metric, error) {
			states, err := queues.Read(ctx, rdb, name)
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			return sizes(states[0]), nil
		})
	}
}

func sizes(queue queues.State) []prometheus.Metric {
	metrics := []prometheus.Metric{
		gauge(queueLatency, queue.Latency.Seconds(), queue.Name),
		gauge(queuePaused, oneIf(queue.Paused), queue.Name),
	}
	for state, tasks := range map[string]int{
		"pending": queue.Pending, "active": queue.Active, "scheduled": queue.Scheduled, "retry": queue.Retry,
		"archived": queue.Archived, "completed": queue.Completed,
	} {
		metrics = append(metrics, gauge(queueTasks, float64(tasks), queue.Name, state))
	}
	return metrics
}
