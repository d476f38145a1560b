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

// Load is the state of a tenant's queue.
type Load struct {
	// Pending and Active are the numbers of tasks in the queue and in progress.
	Pending, Active int
	// Paused reports whether the queue is paused, as asynqmon can do.
	Paused bool
}

// Queue is a tenant's queue in asynq. It counts tasks by asynq's keys and not by its
// Inspector, which asks for the memory of tasks as well: one whose keys are gone, or a user
// that may not run MEMORY, would stop the tenant.
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

// Load returns the state of the queue. A queue that was never used is empty.
func (q *Queue) Load(ctx context.Context) (Load, error) {
	p := q.redis.Pipeline()
	pending, active, paused := p.LLen(ctx, q.key("pending")), p.LLen(ctx, q.key("active")), p.Exists(ctx, q.key("paused"))
	if _, err := p.Exec(ctx); err != nil {
		return Load{}, fmt.Errorf("read queue %s: %w", q.name, err)
	}
	return Load{Pending: int(pending.Val()), Active: int(active.Val()), Paused: paused.Val() > 0}, nil
}

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
	// archivedMost is the largest number of them.
	archivedMost = 1000
	// trimPage and trimPages bound the deletions of one call.
	trimPage, trimPages = 100, 30
)

// TrimArchive deletes tasks that were archived more than ten minutes before now, or are beyond
// the last 1,000. It returns their number, at most 3,000 in one call. now is Redis' time: that
// of a worker whose clock is ahead would delete tasks that another one has just archived.
func (q *Queue) TrimArchive(ctx context.Context, now time.Time) (deleted int, err error) {
	archived, err := q.redis.ZCard(ctx, q.key("archived")).Result()
	if err != nil {
		return 0, fmt.Errorf("count archived tasks of %s: %w", q.name, err)
	}
	if archived == 0 {
		return 0, nil
	}
	excess := int(archived) - archivedMost
	for range trimPages {
		n, err := q.trimPage(ctx, now, excess-deleted)
		deleted += n
		if err != nil || n < trimPage {
			return deleted, err
		}
	}
	return deleted, nil
}

// trimScript removes tasks from the set of archived ones, and those that are still there.
var trimScript = redis.NewScript(`
for i = 2, #ARGV do
  if redis.call('HGET', ARGV[1] .. ARGV[i], 'state') == 'archived' then redis.call('DEL', ARGV[1] .. ARGV[i]) end
  redis.call('ZREM', KEYS[1], ARGV[i])
end
return #ARGV - 1`)

// trimPage deletes archived tasks of the oldest page, at least the excess. It reads asynq's set:
// the task's own time is that of its worker's clock.
func (q *Queue) trimPage(ctx context.Context, now time.Time, excess int) (deleted int, err error) {
	oldest, err := q.redis.ZRangeWithScores(ctx, q.key("archived"), 0, trimPage-1).Result()
	if err != nil {
		return 0, fmt.Errorf("list archived tasks of %s: %w", q.name, err)
	}
	args := []any{q.key("t:")}
	for i, t := range oldest {
		if i < excess || now.Sub(time.Unix(int64(t.Score), 0)) >= archivedFor {
			args = append(args, t.Member)
		}
	}
	if deleted, err = trimScript.Run(ctx, q.redis, []string{q.key("archived")}, args...).Int(); err != nil {
		return 0, fmt.Errorf("delete archived tasks of %s: %w", q.name, err)
	}
	return deleted, nil
}
