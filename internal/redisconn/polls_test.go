package redisconn_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

const oom = answer("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.")

// offline returns a client of ForServer whose commands see answers: there is no network
// inside a synctest bubble.
func offline(t *testing.T, see func(ctx context.Context, cmds ...redis.Cmder) error) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.ForServer(redisconn.Config{URL: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(inner(see))
	return client
}

// keysOf are the keys of asynq's scripts, of one queue.
func keysOf(queue string, parts ...string) (keys []string) {
	for _, part := range parts {
		keys = append(keys, "asynq:{"+queue+"}:"+part)
	}
	return keys
}

func dequeueKeys(queue string) []string {
	return keysOf(queue, "pending", "paused", "active", "lease")
}

// TestWhatClosesAQueue sends a dequeue that ends with an error, and then another command:
// how long that is held back is what the hook has to decide.
func TestWhatClosesAQueue(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		then []string // keys of the script that follows
		want time.Duration
	}{
		{"no memory", oom, dequeueKeys("a"), time.Second},
		{"no disk", answer("MISCONF Redis is configured to save RDB snapshots"), dequeueKeys("a"), time.Second},
		{"a replica", answer("READONLY You can't write against a read only replica."), dequeueKeys("a"), time.Second},
		{"wrong type", answer("WRONGTYPE Operation against a key holding the wrong kind of value"),
			dequeueKeys("a"), time.Second},
		{"no connection", io.EOF, dequeueKeys("a"), time.Second},
		{"empty", redis.Nil, dequeueKeys("a"), 0},
		{"script unknown", redis.ErrNoScript, dequeueKeys("a"), 0},
		{"forward scheduled", oom, keysOf("a", "scheduled", "pending"), time.Second},
		{"forward retries", oom, keysOf("a", "retry", "pending"), time.Second},
		{"another queue", oom, dequeueKeys("b"), 0},
		{"acknowledgement", oom, keysOf("a", "active", "lease", "t:1", "processed:2026-11-22", "processed"), 0},
		{"retry", oom, keysOf("a", "t:1", "active", "lease", "retry"), 0},
		{"hand back", oom, keysOf("a", "active", "lease", "pending", "t:1"), 0},
		{"enqueue", oom, keysOf("a", "t:1", "pending"), 0},
		{"statistics", oom, keysOf("a", "pending", "active", "scheduled", "retry"), 0},
		{"ledger", oom, []string{"orgops:v1:{run:a}:run", "orgops:v1:{run:a}:settled"}, 0},
		{"no keys", oom, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				client := offline(t, func(context.Context, ...redis.Cmder) error {
					if sent++; sent == 1 {
						return tt.err
					}
					return redis.Nil
				})
				start := time.Now()
				if err := client.EvalSha(t.Context(), "1f", dequeueKeys("a"), 1).Err(); !errors.Is(err, tt.err) {
					t.Errorf("dequeue: %v, want %v", err, tt.err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("dequeue took %v", took)
				}
				for range 2 { // the first waits, and fails no more
					if err := client.Eval(t.Context(), "return nil", tt.then, 1).Err(); !errors.Is(err, redis.Nil) {
						t.Errorf("then: %v", err)
					}
				}
				if took := time.Since(start); took != tt.want {
					t.Errorf("then: after %v, want after %v", took, tt.want)
				}
			})
		})
	}
}

func TestAWaitingPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := offline(t, func(context.Context, ...redis.Cmder) error { return oom })
		start := time.Now()
		_ = client.EvalSha(t.Context(), "1f", dequeueKeys("a"), 1).Err()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_ = client.EvalSha(ctx, "1f", dequeueKeys("a"), 1).Err()
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("ended after %v, want its context's 300ms", took)
		}
	})
}

// memory is a Redis that knows asynq's polls, and may be full.
type memory struct {
	mu               sync.Mutex
	full             bool
	dequeues, others int
}

func (m *memory) see(_ context.Context, cmds ...redis.Cmder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := ""
	if args := cmds[0].Args(); len(args) > 3 {
		key, _ = args[3].(string)
	}
	switch {
	case key == "asynq:{default}:pending":
		m.dequeues++
		if m.full && m.dequeues < 1000 { // after so many at once the test has failed, and shall end
			return oom
		}
		return redis.Nil
	case key != "":
		m.others++
	}
	return errDone
}

func (m *memory) fill(full bool) (dequeues, others int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dequeues, others = m.dequeues, m.others
	m.full, m.dequeues, m.others = full, 0, 0
	return dequeues, others
}

// TestAnIdleServerAtMaxmemory runs asynq's own server: it must go on polling where Redis
// takes writes, once a second while it does not, and stop soon.
func TestAnIdleServerAtMaxmemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		srv := asynq.NewServerFromRedisClient(offline(t, m.see), asynq.Config{
			Concurrency: 1, TaskCheckInterval: 10 * time.Millisecond,
			DelayedTaskCheckInterval: 200 * time.Millisecond, LogLevel: asynq.FatalLevel,
		})
		if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if dequeues, _ := m.fill(true); dequeues < 500 {
			t.Errorf("%d dequeues in 10s while Redis takes writes", dequeues)
		}
		time.Sleep(10 * time.Second)
		if dequeues, others := m.fill(false); dequeues < 10 || dequeues > 11 || others > 20 {
			t.Errorf("%d dequeues and %d other scripts in 10s at maxmemory, want one dequeue a second and at most two others",
				dequeues, others)
		}
		time.Sleep(10 * time.Second)
		if dequeues, _ := m.fill(true); dequeues < 500 {
			t.Errorf("%d dequeues in 10s after memory was raised", dequeues)
		}
		time.Sleep(time.Second / 2)
		start := time.Now()
		srv.Shutdown()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v to stop", took)
		}
	})
}
