package redisconn

import (
	"context"
	"strings"
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
		if blocks(cmd) {
			return next(ctx, cmd)
		}
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

// blocks tells of commands that wait in Redis as long as they were told to:
// these keep their context, as nothing else could end them before. None of them
// acknowledges anything.
func blocks(cmd redis.Cmder) bool {
	switch strings.ToLower(cmd.Name()) {
	case "blpop", "brpop", "brpoplpush", "blmove", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "wait", "waitaof":
		return true
	case "xread", "xreadgroup":
		for _, arg := range cmd.Args() {
			if word, ok := arg.(string); ok && strings.EqualFold(word, "block") {
				return true
			}
		}
	}
	return false
}
