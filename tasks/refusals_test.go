package tasks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

const oom = redisAnswer("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.")

// TestARefusedWriteUsesUpNoAttempt: whichever write it is, however often, and also on the
// last attempt; with Redis well again the row goes on.
func TestARefusedWriteUsesUpNoAttempt(t *testing.T) {
	for _, call := range []string{"standing", "settle", "note"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified", Use: new(true)})
			w.submit(tasks.TypeUpdate, verifyRow("status", "pending"))
			q := w.queue.tasks[0]
			q.retried = tasks.MaxAttempts - 1
			direct := w.config.Ledger
			w.config.Ledger = failingLedger{direct, func(c string) bool { return c == call }, oom}
			w.mux = tasks.NewMux(w.config)
			heal := func() {}
			if call == "note" {
				heal = w.sandbox.AddFault(status(429)) // so that there is something to note
			}
			for range 2 * tasks.MaxAttempts {
				w.step()
				wait := q.at.Sub(w.clock.now())
				if q.state != "" || q.retried != tasks.MaxAttempts-1 || wait < tasks.RedisAgain*9/10 || wait > tasks.RedisAgain*11/10 {
					t.Fatalf("state %q, %d attempts, due in %v, %v; want it back in about %v, and none counted", q.state, q.retried, wait, q.lastErr, tasks.RedisAgain)
				}
			}
			heal()
			w.reboot(func(c *tasks.Config) { c.Ledger = direct })
			w.drain()
			w.wantFate("run0", 0, "done")
		})
	}
}

// TestARefusedTaskUsesUpNoAttempt: asynq's client keeps of a script's error the text alone.
func TestARefusedTaskUsesUpNoAttempt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client func(*testing.T) redis.UniversalClient
		counts bool
	}{
		{"no memory", func(t *testing.T) redis.UniversalClient { return refusingScripts(t, oom) }, false},
		{"wrong type", func(t *testing.T) redis.UniversalClient {
			return refusingScripts(t, redisAnswer("WRONGTYPE Operation against a key holding the wrong kind of value"))
		}, true},
		{"no connection", func(*testing.T) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.proven(sandbox.Domain{Use: new(true)})
			w.submit(tasks.TypeVerify, verifyRow())
			client := tt.client(t)
			t.Cleanup(func() { _ = client.Close() })
			w.config.Enqueuer = asynq.NewClientFromRedisClient(client)
			w.mux = tasks.NewMux(w.config)
			w.step()
			q := w.queue.tasks[0]
			if q.state != "" || q.lastErr == nil || (q.retried != 0) != tt.counts {
				t.Errorf("state %q, %d attempts, %v; want it back, an attempt counted: %t", q.state, q.retried, q.lastErr, tt.counts)
			}
			if tt.name == "no memory" && !strings.Contains(q.lastErr.Error(), oom.Error()) {
				t.Errorf("error %v, want Redis' words", q.lastErr)
			}
		})
	}
}

// refusingScripts is a client whose scripts fail.
func refusingScripts(t *testing.T, err error) redis.UniversalClient {
	t.Helper()
	client := redistest.New(t)
	client.AddHook(refusing{[]string{"evalsha", "eval"}, err})
	return client
}

// refusing is a hook that answers for Redis: commands of those names get err.
type refusing struct {
	names []string
	err   error
}

func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(r.names, cmd.Name()) {
			cmd.SetErr(r.err)
			return r.err
		}
		return next(ctx, cmd)
	}
}

func (refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestALostLeaseIsAnAttempt, as a task that kills its worker must end, except where Redis has
// refused to extend it.
func TestALostLeaseIsAnAttempt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error         // of a command
		since time.Duration // that was so long ago
		lost  error
		want  bool
	}{
		{"refused just now", oom, 0, asynq.ErrLeaseExpired, false},
		{"refused when the lease was to be extended", oom, 119 * time.Second, asynq.ErrLeaseExpired, false},
		{"refused long ago", oom, 2 * time.Minute, asynq.ErrLeaseExpired, true},
		{"not refused", nil, 0, asynq.ErrLeaseExpired, true},
		{"another error", redisAnswer("WRONGTYPE x"), 0, asynq.ErrLeaseExpired, true},
		{"nothing there", redis.Nil, 0, asynq.ErrLeaseExpired, true},
		{"another failure", oom, 0, errors.New("x"), true},
		{"what uses up none", nil, 0, tasks.VerdictError(tasks.Judgement{Outcome: tasks.NotYet}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &tasks.Refusals{}
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
				t.Cleanup(func() { _ = client.Close() })
				client.AddHook(r)
				if tt.err != nil {
					client.AddHook(refusing{[]string{"zadd"}, tt.err})
					_ = client.ZAddXX(t.Context(), "asynq:{default.dns}:lease", redis.Z{}).Err()
				}
				time.Sleep(tt.since)
				if got := r.IsFailure(tt.lost); got != tt.want {
					t.Errorf("an attempt: %t, want %t", got, tt.want)
				}
			})
		})
	}
	if !(*tasks.Refusals)(nil).IsFailure(asynq.ErrLeaseExpired) {
		t.Error("without the hook no attempt is counted")
	}
}
