package redisconn

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// clockFor is how long the difference between this machine's clock and Redis' is used
	// before it is measured again.
	clockFor = 10 * time.Second
	// clockStep is the least step of this machine's clock, or suspension of the machine,
	// after which the difference is measured at once.
	clockStep = time.Second
	// clockTimeout bounds a measurement by [Clock.Now].
	clockTimeout = time.Second
)

// Clock is Redis' clock, measured by this process. It is safe for concurrent use.
//
// As a hook of a client it has asynq use that clock. asynq writes and compares times by the
// clock of its process: the ends of leases, and when tasks are due again, archived or
// deleted. So a worker whose clock is minutes ahead would take tasks from workers that
// execute them, others would take tasks from a worker whose clock is minutes behind, and
// both use up an attempt and repeat the delivery of an event. The hook moves these times by
// the difference of the clocks. asynq has no setting for its clock; its scripts are known by
// their keys.
type Clock struct {
	around

	rdb  redis.UniversalClient
	last atomic.Pointer[measured]
}

// measured is a measurement of the difference.
type measured struct {
	at    time.Time // by this machine's clock
	ahead time.Duration
}

// NewClock returns the clock of rdb's Redis.
func NewClock(rdb redis.UniversalClient) *Clock {
	c := &Clock{rdb: rdb}
	c.around = c.send
	return c
}

// Now returns Redis' time. While Redis does not answer it is derived from the last
// measurement; without any it is this machine's time.
func (c *Clock) Now() time.Time { return time.Now().Add(c.Ahead()) }

// Ahead returns by how much Redis' clock is ahead of this machine's, as Now uses it.
func (c *Clock) Ahead() time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), clockTimeout)
	defer cancel()
	ahead, _ := c.ahead(ctx) // 0 with an error
	return ahead
}

// ahead is Ahead with an error if the difference cannot be measured, and was not measured
// since the last step of this machine's clock.
func (c *Clock) ahead(ctx context.Context) (time.Duration, error) {
	last := c.last.Load()
	if last.holds() && time.Since(last.at) < clockFor {
		return last.ahead, nil
	}
	before := time.Now()
	there, err := c.rdb.Time(ctx).Result()
	if err != nil && last.holds() {
		return last.ahead, nil
	}
	if err != nil {
		return 0, err
	}
	now := time.Now()
	ahead := there.Sub(before.Add(now.Sub(before) / 2))
	c.last.Store(&measured{now, ahead})
	return ahead, nil
}

// holds reports whether this machine's clock has made no step since the measurement.
func (m *measured) holds() bool {
	if m == nil {
		return false
	}
	now := time.Now()
	return (now.Round(0).Sub(m.at.Round(0)) - now.Sub(m.at)).Abs() < clockStep // wall clock, monotonic clock
}

// send is the [around] that moves times.
func (c *Clock) send(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error {
	for _, cmd := range cmds {
		times := timesOf(cmd)
		if len(times) == 0 {
			continue
		}
		ahead, err := c.ahead(ctx)
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		for _, p := range times {
			move(&cmd.Args()[p.index], int64(ahead.Round(p.unit)/p.unit))
		}
	}
	return send(ctx)
}

// move adds units to a time among the arguments of a command.
func move(argument *any, units int64) {
	switch v := (*argument).(type) {
	case int64:
		*argument = v + units
	case float64:
		*argument = v + float64(units)
	}
}

// position is that of a time among arguments.
type position struct {
	index int
	unit  time.Duration
}

// scriptTimes has the positions of the times, by the names of the script's keys.
var scriptTimes = map[string][]position{
	// Enqueue a task: since when it is pending.
	"t: pending": {{2, time.Nanosecond}},
	// Dequeue: the end of the task's lease.
	dequeueKeys: {{0, time.Second}},
	// List the tasks whose lease has ended by the time.
	"lease": {{0, time.Second}},
	// Retry a task: when it is due.
	"t: active lease retry processed: failed: processed failed": {{2, time.Second}},
	// Make tasks pending that are due by the time: the time, and since when they are pending.
	"scheduled pending": {{0, time.Second}, {2, time.Nanosecond}},
	"retry pending":     {{0, time.Second}, {2, time.Nanosecond}},
	// Complete a task: when its id can be used again.
	"active lease completed t: processed: processed": {{2, time.Second}},
	// Delete completed tasks whose id can be used again by the time.
	"completed": {{0, time.Second}},
	// Archive a task: when, and before when older ones were archived that are deleted.
	"t: active lease archived processed: failed: processed failed t:": {{2, time.Second}, {3, time.Second}},
}

// dequeueKeys are the names of the keys by which asynq dequeues a task.
const dequeueKeys = "pending paused active lease"

// timesOf returns the positions of times among the arguments of a command of asynq.
func timesOf(cmd redis.Cmder) (times []position) {
	args := cmd.Args()
	if _, names, first := asynqScript(cmd); first > 0 {
		for _, p := range scriptTimes[names] {
			if p.index += first; p.index < len(args) {
				times = append(times, p)
			}
		}
		return times
	}
	if cmd.Name() != "zadd" || len(args) < 3 {
		return nil
	}
	// Extend leases: zadd KEY xx SCORE ID...
	if key, _ := args[1].(string); !strings.HasPrefix(key, asynqPrefix) || !strings.HasSuffix(key, "}:lease") {
		return nil
	}
	for i := range args {
		if _, score := args[i].(float64); score {
			times = append(times, position{i, time.Second})
		}
	}
	return times
}

const asynqPrefix = "asynq:{"

// asynqScript returns the queue of a script of asynq, the names of its keys behind the
// queue's prefix, each up to its first colon, and the index of its first argument. For
// other commands it returns 0 as the index.
func asynqScript(cmd redis.Cmder) (queue, names string, first int) {
	args := cmd.Args() // evalsha, script, number of keys, the keys, arguments
	if name := cmd.Name(); len(args) < 4 || name != "evalsha" && name != "eval" {
		return "", "", 0
	}
	n, ok := args[2].(int)
	if key, _ := args[3].(string); !ok || n < 1 || len(args) < 3+n || !strings.HasPrefix(key, asynqPrefix) {
		return "", "", 0
	}
	var all []string
	for _, arg := range args[3 : 3+n] {
		key, _ := arg.(string)
		of, name, ok := strings.Cut(key, "}:")
		if queue == "" {
			queue = of
		}
		if !ok || of != queue {
			return "", "", 0
		}
		if before, _, more := strings.Cut(name, ":"); more {
			name = before + ":"
		}
		all = append(all, name)
	}
	return queue, strings.Join(all, " "), 3 + n
}
