package tasks

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Queued says which tasks stand in the queues of a Redis. asynq's Inspector can
// say it of one task for each round trip, and brings the payload along.
type Queued struct {
	rdb redis.UniversalClient
}

// NewQueued returns what looks into the queues in rdb.
func NewQueued(rdb redis.UniversalClient) *Queued { return &Queued{rdb: rdb} }

// standScript looks at the hashes of tasks, as asynq v0.26.0 has them
// (internal/base.TaskKey, internal/rdb): asynq:{<queue>}:t:<id>, with the fields
// "msg" and "state". The state is pending, active, scheduled, retry or aggregating
// while the task is to be carried out; completed and archived are its ends, kept
// for a while. A task that is done without retention, dropped or deleted has no
// hash. Each change of a state is one script, so that no task is between two.
//
// A hash that Redis evicted, or that was deleted by hand, leaves the id behind in
// asynq's lists: whoever takes it from there writes the state alone. Without "msg"
// nobody can carry it out.
//
// It is a script, and no pipeline of HMGET, since "msg" is the whole payload: of a
// million tasks 600 MB would be read for the sake of a bit each.
//
//go:embed lua/stand.lua
var standLua string

var standScript = redis.NewScript(standLua)

// Stand says of each id whether a task of it stands in the queue: it waits, runs
// or is due later. All tasks of a queue are in one slot of a Cluster.
func (q *Queued) Stand(ctx context.Context, queue string, ids []string) ([]bool, error) {
	stand := make([]bool, 0, len(ids))
	for some := range slices.Chunk(ids, askRows) {
		keys := make([]string, len(some))
		for i, id := range some {
			keys[i] = "asynq:{" + queue + "}:t:" + id
		}
		bits, err := standScript.Run(ctx, q.rdb, keys).Text()
		if err == nil && len(bits) != len(some) {
			err = fmt.Errorf("redis answered for %d of %d", len(bits), len(some))
		}
		if err != nil {
			return nil, fmt.Errorf("find tasks in queue %s: %w", queue, err)
		}
		for i := range some {
			stand = append(stand, bits[i] == '1')
		}
	}
	return stand, nil
}
