package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pollAgain is how long a queue is not polled after a dequeue has failed. It also bounds
// how much longer a worker takes to stop: asynq waits for the poll that is under way.
const pollAgain = time.Second

// polls delays asynq's polls of a queue after a dequeue of that queue has failed. asynq
// dequeues again at once after an error, so that each idle server sends thousands of
// commands a second to a Redis that refuses writes. The forwarder's polls wait as well:
// they write nothing while no task is due, so Redis does not refuse them, and at five a
// second of each server they would be most of the rest. All other commands are sent
// at once: asynq repeats those at intervals of its own, and a lease, an acknowledgement or
// the ledger must not wait. A queue whose dequeues succeed is not held up by another.
type polls struct {
	closed sync.Map // queue -> time.Time until which it is not polled
}

// send is an [around]. asynq polls by single commands.
func (p *polls) send(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error {
	queue, dequeues := polled(cmds[0])
	if queue == "" {
		return send(ctx)
	}
	if until, ok := p.closed.Load(queue); ok {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(until.(time.Time))):
		}
	}
	err := send(ctx)
	if dequeues && failed(err) {
		p.closed.Store(queue, time.Now().Add(pollAgain))
	}
	return err
}

// failed reports whether a dequeue failed. An empty queue is no failure, nor is a script
// that Redis does not know yet: go-redis sends its text next.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

// pollKeys are the first two keys of a script that dequeues a task, or forwards those that are due.
var pollKeys = map[string]string{"pending": "paused", "scheduled": "pending", "retry": "pending"}

// polled returns the queue that cmd polls, "" if it polls none, and whether it dequeues a
// task or forwards those that are due: both are scripts of asynq, known by their keys.
func polled(cmd redis.Cmder) (queue string, dequeues bool) {
	args := cmd.Args() // evalsha, script, number of keys, the keys, arguments
	if name := cmd.Name(); len(args) < 5 || name != "evalsha" && name != "eval" {
		return "", false
	}
	first, _ := args[3].(string)
	second, _ := args[4].(string)
	queue, from, _ := strings.Cut(first, "}:")
	into, polls := pollKeys[from]
	if !polls || !strings.HasPrefix(queue, "asynq:{") || second != queue+"}:"+into {
		return "", false
	}
	return queue, from == "pending"
}

const (
	// notifyEvery is the shortest time between two notifications of [Retry].
	notifyEvery = 10 * time.Second
	// firstPause is as long as reconnecting takes; longestPause bounds the load of many
	// waiting commands.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// Retry makes the client's commands wait while Redis is unavailable: it restarts, or Sentinels
// choose another master. A command is sent again until the patience or its context ends; the
// error is then the last one. If an answer was lost, the command may be executed twice: use it
// only if that does no harm. notify is called with the reason, at most every ten seconds, from
// any goroutine. Call Retry before the client is shared.
func Retry(client redis.UniversalClient, patience time.Duration, notify func(error)) {
	var notified atomic.Int64 // when, in ns
	client.AddHook(around(func(ctx context.Context, _ []redis.Cmder, send func(context.Context) error) error {
		err := send(ctx)
		end := time.Now().Add(patience)
		for pause := firstPause; unavailable(ctx, err) && time.Now().Before(end); pause = min(2*pause, longestPause) {
			now, last := time.Now().UnixNano(), notified.Load()
			if now-last >= int64(notifyEvery) && notified.CompareAndSwap(last, now) {
				notify(err)
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
			err = send(ctx)
		}
		return err
	}))
}

// unavailable reports whether Redis gave no answer, or one of a server that does not serve
// now, so that it may be available again soon.
func unavailable(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return true
	}
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsNoReplicasError(err)
}

// around is a hook around each command and each pipeline: send sends cmds.
type around func(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error

// DialHook implements [redis.Hook].
func (around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}
