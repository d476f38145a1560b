package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// TaskName is where a task is.
type TaskName struct{ Queue, ID string }

// Bounds on where the task of a row is looked for: a run is resumed, and a row goes
// from look to confirm and back, more often in theory.
const (
	mostGenerations = 3
	mostRounds      = 3
)

// rowTasks are the names that the task of a row of its own may have, the likeliest
// first; none where rows share tasks.
func (r Run) rowTasks(item int64) (names []TaskName) {
	if r.Kind == TypeRemove {
		return nil
	}
	for g := r.Generation; g >= max(r.Floor, r.Generation-mostGenerations+1); g-- {
		look := rowTaskID(r.ID, item, g)
		names = append(names, TaskName{r.rowQueue(r.lane()), look})
		if r.Kind != TypeVerify {
			continue
		}
		for range mostRounds {
			confirm := confirmTaskID(look)
			look = nextLookTaskID(confirm)
			names = append(names, TaskName{APIQueue(r.Tenant, r.lane()), confirm}, TaskName{r.rowQueue(r.lane()), look})
		}
	}
	return names
}

// OfRows finds a task for each of the items: one that is to be carried out, else one
// that is kept although it has ended. Rows for which neither is there, or that share
// their task with others (clients:remove), are not in the answer. It costs one round
// trip.
func (q *Queued) OfRows(ctx context.Context, r Run, items []int64) (map[int64]TaskName, error) {
	type asked struct {
		item  int64
		name  TaskName
		state *redis.StringCmd
	}
	var all []asked
	pipe := q.rdb.Pipeline()
	for _, item := range items {
		for _, name := range r.rowTasks(item) { // as Stand has it
			all = append(all, asked{item, name, pipe.HGet(ctx, "asynq:{"+name.Queue+"}:t:"+name.ID, "state")})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	found, ended := map[int64]TaskName{}, map[int64]bool{}
	for _, a := range all {
		if err := a.state.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("find the tasks of rows: %w", err)
		}
		state := a.state.Val()
		over := state == asynq.TaskStateCompleted.String() || state == asynq.TaskStateArchived.String()
		if _, there := found[a.item]; state == "" || (there && (over || !ended[a.item])) {
			continue
		}
		found[a.item], ended[a.item] = a.name, over
	}
	return found, nil
}
