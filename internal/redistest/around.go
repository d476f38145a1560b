package redistest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Handshake lists the commands by which a client opens a connection or finds a node.
var Handshake = []string{"hello", "client", "auth", "select", "cluster", "command", "readonly"}

// RoundTrips counts the round trips of the clients that have its hook. A pipeline is one.
type RoundTrips struct{ atomic.Int64 }

// Hook returns the hook.
func (r *RoundTrips) Hook() Around {
	return func(_ context.Context, run func() error, _ ...redis.Cmder) error {
		r.Add(1)
		return run()
	}
}

// Around is a hook of a client. It is called for each command or pipeline, those of [Handshake]
// apart, and calls run to send it. An error of its own is that of each command that has none.
type Around func(ctx context.Context, run func() error, cmds ...redis.Cmder) error

// DialHook implements [redis.Hook].
func (Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a.call(ctx, func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a.call(ctx, func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (a Around) call(ctx context.Context, run func() error, cmds ...redis.Cmder) error {
	if slices.Contains(Handshake, cmds[0].Name()) {
		return run()
	}
	err := a(ctx, run, cmds...)
	if err == nil || slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return errors.Is(c.Err(), err) }) {
		return err // a command of a pipeline has it, and the others have their answers
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil {
			cmd.SetErr(err)
		}
	}
	return err
}
