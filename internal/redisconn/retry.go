package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

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
			now := time.Now().UnixNano()
			last := notified.Load()
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
