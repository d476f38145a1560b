package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Outlast lets the client's commands wait for a Redis that is away: one that
// restarts, or whose Sentinels are choosing another master. What fails for that
// reason is sent again, for as long as patience and its context last; then the
// error is the last one. A command may thus be carried out twice, if a reply was
// lost: use it where that does no harm. tell is called with the reason, at most
// every ten seconds, from any goroutine. Call Outlast before the client is shared.
func Outlast(client redis.UniversalClient, patience time.Duration, tell func(error)) {
	client.AddHook(around((&outlast{patience: patience, tell: tell}).until))
}

// around is a hook around each command and each pipeline.
type around func(ctx context.Context, send func(context.Context) error) error

// DialHook implements [redis.Hook].
func (around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

type outlast struct {
	patience time.Duration
	tell     func(error)
	told     atomic.Int64 // when, in ns
}

// Times of a Redis that is away.
const (
	tellEvery = 10 * time.Second
	// The first is what a lost connection takes to be made anew, the longest keeps
	// many waiting commands from being a load of their own.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

func (o *outlast) until(ctx context.Context, try func(context.Context) error) error {
	err := try(ctx)
	end := time.Now().Add(o.patience)
	for pause := firstPause; isAway(ctx, err) && time.Now().Before(end); pause = min(2*pause, longestPause) {
		o.say(err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		err = try(ctx)
	}
	return err
}

func (o *outlast) say(err error) {
	now, last := time.Now().UnixNano(), o.told.Load()
	if now-last >= int64(tellEvery) && o.told.CompareAndSwap(last, now) {
		o.tell(err)
	}
}

// isAway says whether err comes of a Redis that may be there again soon: there
// was no answer, or one of a server that does not serve now.
func isAway(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return true
	}
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsNoReplicasError(err)
}
