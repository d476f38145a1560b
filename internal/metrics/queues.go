package metrics

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// inspector is the used part of asynq.Inspector. Its calls take no context: one outside of a
// batch takes, with a Redis that does not answer, as long as the client's own timeouts and
// retries.
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

func newInspector(rdb redis.UniversalClient) inspector {
	return asynq.NewInspectorFromRedisClient(rdb)
}

func queueSource(rdb redis.UniversalClient, inspect func(redis.UniversalClient) inspector) source {
	return func(ctx context.Context) ([]prometheus.Metric, error) {
		names, err := inspect(rdb).Queues()
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		return readEach(ctx, rdb, names, func(_ context.Context, rdb redis.UniversalClient,
			name string) ([]prometheus.Metric, error) {
			queue, err := inspect(rdb).GetQueueInfo(name)
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			return sizes(queue), nil
		})
	}
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
