package tasks

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

	"orgops/apiclient"
)

// refusals are the codes of the errors with which Redis refuses any client's write: it has
// no memory or cannot write to its disk, is a replica, has too few replicas, is loading its
// data, or the Cluster is down.
var refusals = []string{"OOM", "MISCONF", "READONLY", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// refuses reports whether err is such an error. In a script Redis 6.2 puts the code behind
// the script's line, later ones have it first.
func refuses(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	text := answer.Error()
	return slices.ContainsFunc(refusals, func(code string) bool {
		return strings.HasPrefix(text, code+" ") || strings.Contains(text, ": -"+code+" ")
	})
}

// redisAgain is how long a task waits after Redis has refused one of its writes: a failover
// takes some seconds, and until Redis takes writes again no task is dequeued.
const redisAgain = 10 * time.Second

// redisAway reports whether err is Redis refusing every write, or a connection to it that
// could not be made: no fault of the task's. A connection that broke may be its fault.
func redisAway(err error) bool {
	if refuses(err) {
		return true
	}
	_, api := errors.AsType[*apiclient.TransportError](err)
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial" && !api
}

// queueError gives an error of asynq's client its type back: of what a script answers asynq
// keeps the text alone.
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

// scriptError reads as the error of asynq, and has the cause besides.
type scriptError struct {
	error
	cause error
}

func (e *scriptError) Unwrap() []error { return []error{e.error, e.cause} }

// scriptAnswer is a redis.Error.
type scriptAnswer string

func (a scriptAnswer) Error() string { return string(a) }
func (scriptAnswer) RedisError()     {}

// refusedFor is how long after a refusal the loss of a lease is put down to it: a lease ends
// 30 s after its last extension, asynq's recoverer takes it for lost 30 s later, and looks
// once a minute.
const refusedFor = 2 * time.Minute

// Refusals is a hook of a worker's Redis client that remembers when Redis last refused a
// write: a lease cannot be extended then, and its loss uses up no attempt.
type Refusals struct {
	last atomic.Int64 // UnixNano; 0: never
}

// DialHook implements redis.Hook.
func (*Refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (r *Refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && refuses(err) {
			r.last.Store(time.Now().UnixNano())
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook. What matters is sent without a pipeline.
func (*Refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// isFailure is asynq's IsFailure of servers on that client; r may be nil.
func (r *Refusals) isFailure(err error) bool {
	if r != nil && errors.Is(err, asynq.ErrLeaseExpired) && time.Since(time.Unix(0, r.last.Load())) < refusedFor {
		return false
	}
	return isFailure(err)
}
