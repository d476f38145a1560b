package redisconn

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownTimeout bounds a command that its context cannot end: two attempts at a
// Redis that is silent for the 5 s after which go-redis gives up on a reply, and
// a third of what a task's lease has left.
const ownTimeout = 10 * time.Second

// outlive runs commands and pipelines with a context that has the values of the
// one given, but neither its end nor its deadline.
type outlive struct{}

func (outlive) DialHook(next redis.DialHook) redis.DialHook { return next }

func (outlive) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTimeout)
		defer cancel()
		return next(own, cmd)
	}
}

func (outlive) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTimeout)
		defer cancel()
		return next(own, cmds)
	}
}
