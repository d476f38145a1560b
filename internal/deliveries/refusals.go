package deliveries

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// refusals are the codes of the errors with which Redis refuses any client's write: it has
// no memory or cannot write to its disk, is a replica, has too few replicas, is loading its
// data, or the Cluster is down.
var refusals = []string{"OOM", "MISCONF", "READONLY", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// refuses reports whether err is such an error. Redis 6.2 puts the code of an error in a
// script behind the script's line.
func refuses(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && slices.ContainsFunc(refusals, func(code string) bool {
		return strings.HasPrefix(answer.Error(), code+" ") || strings.Contains(answer.Error(), ": -"+code+" ")
	})
}

// queueError restores the type of an error of asynq: asynq keeps only the text of a
// script's error.
func queueError(err error) error {
	if err == nil {
		return nil
	}
	_, text, ok := strings.Cut(err.Error(), "redis eval error: ")
	switch {
	case !ok:
		return err
	case strings.HasPrefix(text, "dial "):
		return &scriptError{err, &net.OpError{Op: "dial", Err: errors.New(text)}}
	}
	return &scriptError{err, scriptAnswer(text)}
}

// scriptError has the text of asynq's error, and its cause.
type scriptError struct {
	error
	cause error
}

func (e *scriptError) Unwrap() []error { return []error{e.error, e.cause} }

// scriptAnswer is a [redis.Error].
type scriptAnswer string

func (a scriptAnswer) Error() string { return string(a) }
func (scriptAnswer) RedisError()     {}

// refusedFor is how long after a refusal a lost lease is attributed to it: a lease ends
// 30 s after its last extension, asynq's recoverer treats it as lost 30 s later, and runs
// once a minute.
const refusedFor = 2 * time.Minute

// Refusals is a hook of a worker's Redis client that records when Redis last refused a
// write. A lease cannot be extended then, and its loss uses up no attempt.
type Refusals struct {
	last atomic.Int64 // UnixNano; 0: never
}

// DialHook implements [redis.Hook].
func (*Refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (r *Refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && refuses(err) {
			r.last.Store(time.Now().UnixNano())
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook]. asynq's server uses no pipelines.
func (*Refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// isFailure is asynq's IsFailure for servers with that client; r may be nil.
func (r *Refusals) isFailure(err error) bool {
	if r != nil && errors.Is(err, asynq.ErrLeaseExpired) && time.Since(time.Unix(0, r.last.Load())) < refusedFor {
		return false
	}
	return isFailure(err)
}
