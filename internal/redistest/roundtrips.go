package redistest

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Handshake lists the commands by which a client opens a connection or finds a node.
var Handshake = []string{"hello", "client", "auth", "select", "cluster", "command", "readonly"}

// RoundTrips counts the round trips of the clients to which it is added as a hook. A pipeline
// is one, and those of [Handshake] do not count.
type RoundTrips struct{ atomic.Int64 }

// DialHook implements [redis.Hook].
func (r *RoundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (r *RoundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (r *RoundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.count(cmds[0])
		return next(ctx, cmds)
	}
}

func (r *RoundTrips) count(first redis.Cmder) {
	if !slices.Contains(Handshake, first.Name()) {
		r.Add(1)
	}
}
