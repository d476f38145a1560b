package redisconn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

func forServer(t *testing.T) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.ForServer(redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// inner returns a hook next to the network: see learns what the client's own hook made of the
// context, and may fail a command.
func inner(see func(ctx context.Context, cmds ...redis.Cmder) error) redistest.Around {
	return func(ctx context.Context, run func() error, cmds ...redis.Cmder) error {
		if err := see(ctx, cmds...); err != nil {
			return err
		}
		return run()
	}
}

// TestCommandsOutliveTheirContext sends commands with a context that has ended, as asynq does when
// it repeats the acknowledgement of a task: else the task would be executed a second time.
func TestCommandsOutliveTheirContext(t *testing.T) {
	client := forServer(t)
	type name struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "kept"))
	cancel()
	seen := 0
	client.AddHook(inner(func(ctx context.Context, cmds ...redis.Cmder) error {
		seen++
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); ctx.Err() != nil || !ok || left > 10*time.Second || ctx.Value(name{}) != "kept" {
			t.Errorf("context ends %v in %v, with %v: want 10s of its own, and its values", ctx.Err(), left, ctx.Value(name{}))
		}
		return nil
	}))
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	set := func(p redis.Pipeliner) error { p.Incr(ctx, "n"); p.Incr(ctx, "n"); return nil }
	if _, err := client.Pipelined(ctx, set); err != nil {
		t.Error(err)
	}
	if _, err := client.TxPipelined(ctx, set); err != nil {
		t.Error(err)
	}
	if got := redistest.Open(t).Get(t.Context(), "n").Val(); got != "4" || seen != 3 {
		t.Errorf("n is %s after %d calls, want 4 after 3", got, seen)
	}

	plain := open(t, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err := plain.Set(ctx, "k", "v", 0).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("a client of Open: %v, want it to end with its context", err)
	}
}
