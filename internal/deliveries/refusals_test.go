package deliveries_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
)

// redisAnswer is an error of Redis.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}

const oom = redisAnswer("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.")

// refusing is a hook that answers commands of those names with err.
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

// TestALostLeaseIsAnAttempt, as a delivery that kills its worker must end, except while
// Redis refuses to extend it.
func TestALostLeaseIsAnAttempt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error         // of a command
		since time.Duration // after the command
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
		{"an execution that counts no attempt", nil, 0, deliveries.Verdict(false), false},
		{"an execution that counts one", nil, 0, deliveries.Verdict(true), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &deliveries.Refusals{}
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
				t.Cleanup(func() { _ = client.Close() })
				client.AddHook(r)
				if tt.err != nil {
					client.AddHook(refusing{[]string{"zadd"}, tt.err})
					_ = client.ZAddXX(t.Context(), "asynq:{acme.webhook}:lease", redis.Z{}).Err()
				}
				time.Sleep(tt.since)
				if got := r.IsFailure(tt.lost); got != tt.want {
					t.Errorf("an attempt: %t, want %t", got, tt.want)
				}
			})
		})
	}
	if !(*deliveries.Refusals)(nil).IsFailure(asynq.ErrLeaseExpired) {
		t.Error("without the hook no attempt is counted")
	}
}

// TestBackoff: a lost lease, and other errors of asynq's own, are followed by the delays of
// attempts that failed, of whole seconds.
func TestBackoff(t *testing.T) {
	for retried, want := range map[int]time.Duration{0: 5 * time.Second, 1: 30 * time.Second, 6: 2 * time.Hour, 7: 4 * time.Hour, 39: 4 * time.Hour} {
		for range 50 {
			got := deliveries.RetryDelay(retried, asynq.ErrLeaseExpired, nil)
			if got != got.Truncate(time.Second) || got < want*9/10 || got > want*11/10+time.Second {
				t.Fatalf("attempt %d: %v, want %v by a tenth", retried, got, want)
			}
		}
	}
}

// TestMaxRetry: asynq's Lua scripts and its messages hold 32 bits.
func TestMaxRetry(t *testing.T) {
	if deliveries.MaxRetry >= math.MaxInt32 || deliveries.MaxRetry < 1<<20 {
		t.Errorf("max retry is %d: want it out of reach and below 2^31", deliveries.MaxRetry)
	}
}
