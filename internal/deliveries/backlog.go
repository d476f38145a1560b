package deliveries

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
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

func notFound(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}
