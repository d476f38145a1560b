package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
)

// Queue is a tenant's queue in asynq.
type Queue struct {
	name   string
	redis  redis.UniversalClient
	client *asynq.Client
}

// NewQueue returns the queue of that name. It uses rdb and does not close it.
func NewQueue(rdb redis.UniversalClient, name string) *Queue {
	return &Queue{name: name, redis: rdb, client: asynq.NewClientFromRedisClient(rdb)}
}

// key returns a key of asynq for the queue.
func (q *Queue) key(part string) string { return "asynq:{" + q.name + "}:" + part }

// Enqueue enqueues a task. If the queue has the task already that is a success: go-redis
// repeats a command whose answer was lost.
func (q *Queue) Enqueue(ctx context.Context, t engine.Task) error {
	payload, err := t.Marshal()
	if err != nil {
		return err
	}
	// asynq's retries are out of reach: it repeats a message that its worker did not
	// acknowledge, and the engine acknowledges it then.
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(string(t.Kind), payload),
		asynq.Queue(q.name), asynq.TaskID(t.ID()), asynq.Timeout(engine.TaskTimeout), asynq.MaxRetry(1<<30))
	if errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("enqueue task %s: %w", t.ID(), err)
	}
	return nil
}

const (
	// archivedFor is how long a task that ended badly stays for people to see. The
	// ledger keeps its result as long as the run.
	archivedFor = 10 * time.Minute
	// archivedMost is the largest number of them, and trimMost the most deletions of one call.
	archivedMost = 1000
	trimMost     = 1000
)

// trimScript deletes archived tasks: those of more than ARGV[2] seconds ago by Redis' time, since a
// worker whose clock is ahead would delete tasks that another one has just archived, or the oldest
// of more than ARGV[3]. It reads asynq's set: the task's own time is that of its worker's clock.
var trimScript = redis.NewScript(`
local all = redis.call('ZCARD', KEYS[1])
if all == 0 then return 0 end
local old = redis.call('ZCOUNT', KEYS[1], '-inf', redis.call('TIME')[1] - ARGV[2])
local number = math.min(math.max(old, all - ARGV[3]), ARGV[4])
if number <= 0 then return 0 end
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, number - 1)) do
  if redis.call('HGET', ARGV[1] .. id, 'state') == 'archived' then redis.call('DEL', ARGV[1] .. id) end
  redis.call('ZREM', KEYS[1], id)
end
return number`)

// TrimArchive deletes tasks that were archived more than ten minutes ago, or are beyond the last
// 1,000. It returns their number, at most 1,000 in one call.
func (q *Queue) TrimArchive(ctx context.Context) (deleted int, err error) {
	deleted, err = trimScript.Run(ctx, q.redis, []string{q.key("archived")}, q.key("t:"), int(archivedFor.Seconds()),
		archivedMost, trimMost).Int()
	if err != nil {
		return 0, fmt.Errorf("delete archived tasks of %s: %w", q.name, err)
	}
	return deleted, nil
}
