package redisconn_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// away is a Redis that is not there: commands fail before the network.
type away struct {
	err   error
	until time.Time // zero: for good
	sent  int
}

func (a *away) see(context.Context, ...redis.Cmder) error {
	a.sent++
	if !a.until.IsZero() && !time.Now().Before(a.until) {
		return errDone
	}
	return a.err
}

// errDone stands for an answer: inside of the bubble there is no network.
var errDone = answer("ERR carried out")

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestRetry(t *testing.T) {
	refused := answer("WRONGTYPE Operation against a key holding the wrong kind of value")
	for _, tt := range []struct {
		name   string
		err    error
		away   time.Duration // 0: for good
		cancel time.Duration // 0: not
		want   error
		took   [2]time.Duration
	}{
		{"gone for 20 s", io.EOF, 20 * time.Second, 0, errDone, [2]time.Duration{20 * time.Second, 21 * time.Second}},
		{"a replica for 5 s", answer("READONLY You can't write against a read only replica."), 5 * time.Second, 0, errDone,
			[2]time.Duration{5 * time.Second, 6 * time.Second}},
		{"gone for good", io.ErrUnexpectedEOF, 0, 0, io.ErrUnexpectedEOF, [2]time.Duration{time.Minute, 61 * time.Second}},
		{"given up by its caller", io.EOF, 0, 3 * time.Second, io.EOF, [2]time.Duration{3 * time.Second, 3 * time.Second}},
		{"an answer", refused, 0, 0, refused, [2]time.Duration{}},
		{"no such key", redis.Nil, 0, 0, redis.Nil, [2]time.Duration{}},
		{"closed", redis.ErrClosed, 0, 0, redis.ErrClosed, [2]time.Duration{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for what, send := range map[string]func(context.Context, redis.UniversalClient) error{
				"a command": func(ctx context.Context, c redis.UniversalClient) error { return c.Set(ctx, "k", "v", 0).Err() },
				"a pipeline": func(ctx context.Context, c redis.UniversalClient) error {
					_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Set(ctx, "k", "v", 0); return nil })
					return err
				},
			} {
				synctest.Test(t, func(t *testing.T) {
					client := open(t, redisconn.Config{URL: "redis://127.0.0.1:1"})
					a := &away{err: tt.err}
					told := 0
					redisconn.Retry(client, time.Minute, func(err error) {
						told++
						if !errors.Is(err, tt.err) {
							t.Errorf("%s: told %v", what, err)
						}
					})
					client.AddHook(inner(a.see))
					ctx, start := t.Context(), time.Now()
					if tt.away > 0 {
						a.until = start.Add(tt.away)
					}
					if tt.cancel > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, tt.cancel)
						defer cancel()
					}
					err := send(ctx, client)
					took := time.Since(start)
					if !errors.Is(err, tt.want) || took < tt.took[0] || took > tt.took[1] {
						t.Errorf("%s: %v after %v, want %v after %v", what, err, took, tt.want, tt.took)
					}
					if want := int(took/(10*time.Second)) + 1; tt.took[1] > 0 && (told < 1 || told > want) ||
						tt.took[1] == 0 && (told > 0 || a.sent != 1) {
						t.Errorf("%s: sent %d times, told %d times within %v", what, a.sent, told, took)
					}
				})
			}
		})
	}
}
