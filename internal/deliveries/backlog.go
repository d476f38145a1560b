package deliveries

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
)

const (
	// backlogTTL is longer than the life of a task, so an entry that is older, or a key
	// that was not used for so long, has no task any more.
	backlogTTL = 96 * time.Hour
	// dropsAtOnce bounds how many events are dropped when one is added. After the bound
	// was lowered, the excess is dropped over the next events.
	dropsAtOnce = 32
)

var (
	//go:embed lua/add.lua
	addLua    string
	addScript = redis.NewScript(addLua)
)

// backlog is the set of the tasks that wait for each receiver of a tenant: a sorted set of
// task ids by time, so that the oldest are found without reading asynq's queue.
//
// An entry is added before its task is enqueued, so a notifier that is killed leaves an
// entry without a task, which is removed when it becomes the oldest. A task without an
// entry, because Redis has lost it, gets one when an attempt fails.
type backlog struct {
	redis  redis.UniversalClient
	queue  *asynq.Inspector
	tenant string
	bound  int
}

// deliveredFor is how long an event that was delivered is not delivered again. A row whose worker
// was killed after it notified of its result is executed again within that time.
const deliveredFor = time.Minute

func newBacklog(cfg Config) *backlog {
	return &backlog{redis: cfg.Redis, queue: asynq.NewInspectorFromRedisClient(cfg.Redis),
		tenant: cfg.Tenant, bound: cfg.Backlog}
}

// key returns the key of a receiver's set. All keys of a tenant have one hash tag.
func (b *backlog) key(endpoint string) string {
	return stateKey(b.tenant) + ":" + endpoint
}

// deliveredKey returns the key that exists for a while after a task was delivered.
func (b *backlog) deliveredKey(endpoint, task string) string {
	return b.key(endpoint) + ":delivered:" + task
}

// delivered is the result of add for a task that was delivered a short time ago.
const delivered = "delivered"

// add adds a task of an event of that age. result is "1"; "0" if it was there; or delivered, and it
// is not added. It returns the oldest tasks if there are more than the bound.
func (b *backlog) add(ctx context.Context, endpoint, task string,
	age time.Duration) (result string, excess []string, err error) {
	age = min(max(age, 0), lifetime) // clocks differ
	keys := []string{b.key(endpoint), b.deliveredKey(endpoint, task)}
	answer, err := addScript.Run(ctx, b.redis, keys, task, age.Microseconds(),
		backlogTTL.Milliseconds(), b.bound, dropsAtOnce).StringSlice()
	if err == nil && len(answer) == 0 {
		err = errors.New("the script returned nothing")
	}
	if err != nil {
		return "", nil, fmt.Errorf("add to the backlog of endpoint %s: %w", endpoint, err)
	}
	return answer[0], answer[1:], nil
}

func (b *backlog) remove(ctx context.Context, endpoint string, tasks ...any) error {
	if len(tasks) == 0 {
		return nil
	}
	if err := b.redis.ZRem(ctx, b.key(endpoint), tasks...).Err(); err != nil {
		return fmt.Errorf("remove from the backlog of endpoint %s: %w", endpoint, err)
	}
	return nil
}

// drop deletes the tasks, except those in progress, and returns how many it deleted.
// Entries of tasks that have ended are removed.
func (b *backlog) drop(ctx context.Context, endpoint string, tasks []string) (dropped int, err error) {
	if err := queues.Enlist(ctx, b.redis, Queue(b.tenant, endpoint)); err != nil {
		return 0, err // asynq would know none of the tasks
	}
	var gone []any
	for _, task := range tasks {
		deleted, ended, failure := b.delete(endpoint, task)
		if failure != nil {
			err = fmt.Errorf("drop task %s: %w", task, failure)
			break
		}
		if deleted {
			dropped++
		}
		if ended {
			gone = append(gone, task)
		}
	}
	return dropped, errors.Join(err, b.remove(ctx, endpoint, gone...))
}

// delete deletes a task that waits. Ended reports whether its entry is of no use any more.
// A task that is archived stays: people may run it again.
func (b *backlog) delete(endpoint, task string) (deleted, ended bool, err error) {
	queue := Queue(b.tenant, endpoint)
	info, err := b.queue.GetTaskInfo(queue, task)
	switch {
	case notFound(err):
		return false, true, nil
	case err != nil:
		return false, false, err
	}
	switch info.State {
	case asynq.TaskStateActive:
		return false, false, nil
	case asynq.TaskStateArchived:
		return false, true, nil
	}
	err = b.queue.DeleteTask(queue, task)
	if notFound(err) { // another worker has dropped it
		return false, true, nil
	}
	return err == nil, err == nil, err
}

const (
	// goneAfter is how old an entry is whose task has to exist: a notifier enqueues it right after the
	// entry, and does both again if its worker was killed in between.
	goneAfter = 5 * time.Minute
	// askAtOnce is how many tasks are asked for in one pipeline.
	askAtOnce = 1000
)

// removeGone removes the entries whose tasks are gone, and returns their number. A worker removes
// the entry before the task, so another tool has deleted these tasks, or Redis has evicted them.
func (b *backlog) removeGone(ctx context.Context, endpoint string) (n int, err error) {
	now, err := b.redis.Time(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("read Redis' clock: %w", err)
	}
	before := strconv.FormatInt(now.Add(-goneAfter).UnixMicro(), 10)
	ids, err := b.redis.ZRangeByScore(ctx, b.key(endpoint), &redis.ZRangeBy{Min: "-inf", Max: before}).Result()
	if err != nil {
		return 0, fmt.Errorf("read the backlog of endpoint %s: %w", endpoint, err)
	}
	for part := range slices.Chunk(ids, askAtOnce) {
		removed, err := b.removeGoneOf(ctx, endpoint, part)
		n += removed
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (b *backlog) removeGoneOf(ctx context.Context, endpoint string, ids []string) (n int, err error) {
	commands, err := b.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.Exists(ctx, "asynq:{"+Queue(b.tenant, endpoint)+"}:t:"+id)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("look for the deliveries of endpoint %s: %w", endpoint, err)
	}
	var gone []any
	for i, command := range commands {
		if exists, ok := command.(*redis.IntCmd); ok && exists.Val() == 0 {
			gone = append(gone, ids[i])
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	// Of several workers that find the same, one removes an entry, and counts it.
	removed, err := b.redis.ZRem(ctx, b.key(endpoint), gone...).Result()
	if err != nil {
		return 0, fmt.Errorf("remove from the backlog of endpoint %s: %w", endpoint, err)
	}
	return int(removed), nil
}

// NoticeDeleted counts and logs the waiting deliveries to these endpoints that another tool has
// deleted from asynq's queues, such as asynq's command line: their events are not sent.
func NoticeDeleted(ctx context.Context, cfg Config, endpoints ...string) error {
	cfg = cfg.withDefaults()
	var errs []error
	for _, endpoint := range endpoints {
		n, err := newBacklog(cfg).removeGone(ctx, endpoint)
		for range n {
			cfg.Meter.Delivery(cfg.Tenant, endpoint, "deleted")
		}
		if n > 0 {
			cfg.Logger.WarnContext(ctx, "webhook events lost: their deliveries were deleted from asynq's queue", "tenant",
				cfg.Tenant, "endpoint", endpoint, "deleted", n, "what_to_do",
				"find out who deletes tasks in this Redis; the receiver can read what it missed by the intake's GET /v1/runs")
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func notFound(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}
