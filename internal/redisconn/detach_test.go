package redisconn_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
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
	if got := redistest.New(t).Get(t.Context(), "n").Val(); got != "4" || seen != 3 {
		t.Errorf("n is %s after %d calls, want 4 after 3", got, seen)
	}

	plain := open(t, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err := plain.Set(ctx, "k", "v", 0).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("a client of Open: %v, want it to end with its context", err)
	}
}

// The reply to an acknowledgement is lost once: asynq tries again, with a context
// that has ended by then, and the task must not be run a second time.
func TestAnAcknowledgementIsTriedAgain(t *testing.T) {
	client := forServer(t)
	var handled, lost atomic.Int32
	failed := make(chan struct{})
	client.AddHook(inner(func(_ context.Context, cmds ...redis.Cmder) error {
		if handled.Load() == 0 || !acknowledges(cmds[0]) || !lost.CompareAndSwap(0, 1) {
			return nil
		}
		close(failed)
		return io.ErrUnexpectedEOF
	}))
	srv := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 1, TaskCheckInterval: 10 * time.Millisecond, Logger: silent{}, ShutdownTimeout: time.Minute,
	})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		handled.Add(1)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	rdb := redistest.New(t)
	if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(asynq.NewTask("probe", nil), asynq.TaskID("a")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-failed:
	case <-t.Context().Done():
		t.Fatal("no acknowledgement was sent")
	}
	srv.Shutdown() // tries what is left to try before it returns
	if left := redistest.Keys(t, "asynq:{default}:*"); holds(left, ":t:a") || holds(left, ":active") ||
		holds(left, ":lease") {
		t.Errorf("the task is still there, to be run again: %v", left)
	}
	if n := handled.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// acknowledges tells asynq's script that takes a task off the active ones.
func acknowledges(cmd redis.Cmder) bool {
	args := cmd.Args()
	if name := strings.ToLower(cmd.Name()); (name != "evalsha" && name != "eval") || len(args) < 4 {
		return false
	}
	key, _ := args[3].(string)
	return strings.HasSuffix(key, ":active")
}

func holds(keys []string, suffix string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, suffix) })
}

// silent is asynq's log, which this test provokes.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}
