package queues

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// reclaimEvery is how often lost tasks are searched for in queues that have tasks, which are
	// added to asynq's list again.
	reclaimEvery = 15 * time.Second
	// lostAfter is how long after the end of its lease a task counts as lost. asynq itself
	// searches for such tasks once a minute, 30 s after the end of their leases, but it does
	// not find one whose message or place in the list of active tasks is gone.
	lostAfter = 90 * time.Second
	// reclaimPage and reclaimPages bound the tasks of one search: LREM reads the whole
	// list of active tasks for each.
	reclaimPage  = 100
	reclaimPages = 50
	// forgottenAfter is how long after its last sign of life a server is forgotten. It is
	// longer than the clocks of workers are apart.
	forgottenAfter = time.Hour
)

var (
	//go:embed lua/reclaim.lua
	reclaimLua    string
	reclaimScript = redis.NewScript(reclaimLua)
)

// Reclaim puts tasks back into the queue that asynq has lost, and removes the keys of
// those without a message. It returns their number.
//
// asynq moves a task to the list of active ones and then gives it a lease. If Redis refuses
// the second write, or evicts a key, asynq never finds the task again: it would count as in
// progress for ever, and a delivery would never be made. asynq's Inspector neither shows
// nor deletes such tasks, so this reads asynq's keys. A task that is in progress after all,
// because its lease was evicted, is executed a second time, as any task may be. Leases are
// compared with Redis' time: a worker whose clock is ahead takes no tasks from others.
func Reclaim(ctx context.Context, rdb redis.Cmdable, queue string) (lost int, err error) {
	prefix := prefixOf(queue)
	keys := []string{prefix + "active", prefix + "pending", prefix + "lease"}
	for range reclaimPages {
		n, err := reclaimScript.Run(ctx, rdb, keys, prefix+"t:", int(lostAfter.Seconds()), reclaimPage).Int()
		lost += n
		if err != nil || n < reclaimPage {
			return lost, err
		}
	}
	return lost, nil
}

// forgetServers removes servers that were killed before that time from asynq's lists of
// servers. asynq itself removes them only when the servers are listed.
func forgetServers(ctx context.Context, rdb redis.Cmdable, before time.Time) error {
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, list := range []string{"asynq:servers", "asynq:workers"} {
			p.ZRemRangeByScore(ctx, list, "-inf", strconv.FormatInt(before.Unix(), 10))
		}
		return nil
	})
	return err
}

// reclaim reclaims lost tasks of the queues that have tasks, which it adds to asynq's list, and
// forgets killed servers.
func (s *Servers) reclaim(ctx context.Context, loads map[string]load) {
	if time.Since(s.reclaimedAt) < reclaimEvery {
		return
	}
	s.reclaimedAt = time.Now()
	if err := forgetServers(ctx, s.cfg.Redis, s.reclaimedAt.Add(-forgottenAfter)); err != nil && ctx.Err() == nil {
		s.cfg.Logger.DebugContext(ctx, "killed servers not forgotten", "error", err)
	}
	var busy []string
	for name, l := range loads {
		if l.busy {
			busy = append(busy, name)
		}
	}
	if err := Enlist(ctx, s.cfg.Redis, busy...); err != nil && ctx.Err() == nil {
		s.cfg.Logger.DebugContext(ctx, "queues not listed", "error", err)
	}
	for _, name := range busy {
		lost, err := Reclaim(ctx, s.cfg.Redis, name)
		if lost > 0 {
			s.cfg.Logger.WarnContext(ctx, "tasks without a lease were put back", "queue", name, "tasks", lost)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "tasks without a lease not read", "queue", name, "error", err)
		}
	}
}
