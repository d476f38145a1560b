package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// roundTrips counts the commands and pipelines of a client.
type roundTrips struct{ n, longest atomic.Int64 }

func (r *roundTrips) see(_ context.Context, cmds ...redis.Cmder) error {
	r.n.Add(1)
	r.longest.Store(max(r.longest.Load(), int64(len(cmds))))
	return nil
}

// TestBatch: calls that send commands one after the other take a pipeline for each 200
// calls and command, and get their own answers; so do scripts that Redis does not know yet,
// and asynq's inspector, which runs two such scripts.
func TestBatch(t *testing.T) {
	t.Parallel()
	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	for _, tt := range []struct {
		name string
		n    int
		most int64
		f    func(ctx context.Context, i int, rdb redis.Cmdable) error
	}{
		{"none", 0, 0, nil},
		{"one command", 1, 1, get},
		{"as many as run at a time", 200, 1, get},
		{"more", 1000, 5, get},
		{"two commands", 1000, 10, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			return errors.Join(get(ctx, i, rdb), get(ctx, i, rdb))
		}},
		// 200 calls, the first of which sends five commands: those of the others are in its first
		// pipeline.
		{"calls of different length", 200, 5, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			for range max(1, 5-i) {
				if err := get(ctx, i, rdb); err != nil {
					return err
				}
			}
			return nil
		}},
		{"scripts", 200, 2, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			return same(script.Run(ctx, rdb, []string{fmt.Sprint("k", i)}).Text())(i)
		}},
		{"pipelines", 200, 1, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			var a *redis.StringCmd
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				a = p.Get(ctx, fmt.Sprint("k", i))
				return p.Get(ctx, fmt.Sprint("k", i)).Err()
			})
			return errors.Join(err, same(a.Result())(i))
		}},
		{"pipelines of many commands", 20, 2, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range 100 {
					p.Get(ctx, fmt.Sprint("k", i))
				}
				return nil
			})
			return err
		}},
		{"asynq", 200, 5, func(_ context.Context, _ int, rdb redis.Cmdable) error {
			info, err := asynq.NewInspectorFromRedisClient(rdb.(redis.UniversalClient)).GetQueueInfo("q")
			if err == nil && info.Pending != 1 {
				err = fmt.Errorf("%d tasks", info.Pending)
			}
			return err
		}},
		{"calls with goroutines", 50, 100, func(ctx context.Context, i int, rdb redis.Cmdable) error {
			var all sync.WaitGroup
			errs := make([]error, 3)
			for n := range errs {
				all.Go(func() { errs[n] = get(ctx, i, rdb) })
			}
			all.Wait()
			return errors.Join(errs...)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rdb := redistest.Open(t)
			for i := range tt.n {
				if err := rdb.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(asynq.NewTask("x", nil), asynq.Queue("q")); err != nil {
				t.Fatal(err)
			}
			if _, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				return p.Ping(t.Context()).Err()
			}); err != nil {
				t.Fatal(err) // it connects, which takes round trips too
			}
			trips := new(roundTrips)
			rdb.AddHook(inner(trips.see))
			calls := make([]atomic.Int64, tt.n)
			err := redisconn.Batch(t.Context(), rdb, tt.n, func(i int, rdb redis.Cmdable) error {
				calls[i].Add(1)
				return tt.f(t.Context(), i, rdb)
			})
			if err != nil {
				t.Error(err)
			}
			for i := range calls {
				if n := calls[i].Load(); n != 1 {
					t.Errorf("call %d ran %d times", i, n)
				}
			}
			if n := trips.n.Load(); n > tt.most || trips.longest.Load() > 1000 {
				t.Errorf("%d round trips, want at most %d; the longest of %d commands", n, tt.most, trips.longest.Load())
			}
		})
	}
}

func get(ctx context.Context, i int, rdb redis.Cmdable) error {
	return same(rdb.Get(ctx, fmt.Sprint("k", i)).Result())(i)
}

// same wants the answer of a call.
func same(text string, err error) func(i int) error {
	return func(i int) error {
		if err == nil && text != fmt.Sprint(i) {
			return fmt.Errorf("call %d got the answer %q", i, text)
		}
		return err
	}
}

// TestBatchFails: a failed command is the error of its own call; after an error of a call no
// more calls begin; and no command goes on after its context.
func TestBatchFails(t *testing.T) {
	rdb := redistest.Open(t)
	var missing atomic.Int64
	check := func(err error) {
		if errors.Is(err, redis.Nil) {
			missing.Add(1)
		}
	}
	for _, key := range []string{"a", "b"} {
		if err := rdb.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	keys := []string{"a", "none", "b"}
	err := redisconn.Batch(t.Context(), rdb, len(keys), func(i int, rdb redis.Cmdable) error {
		text, err := rdb.Get(t.Context(), keys[i]).Result()
		check(err)
		if err == nil && text != keys[i] {
			return fmt.Errorf("%s: got %q", keys[i], text)
		}
		return nil
	})
	if err != nil || missing.Load() != 1 {
		t.Errorf("%v, %d missing", err, missing.Load())
	}
	var begun atomic.Int64
	err = redisconn.Batch(t.Context(), rdb, 1000, func(_ int, rdb redis.Cmdable) error {
		begun.Add(1)
		return rdb.Get(t.Context(), "none").Err()
	})
	if !errors.Is(err, redis.Nil) || begun.Load() != 200 {
		t.Errorf("%v after %d calls, want redis.Nil after the first 200", err, begun.Load())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = redisconn.Batch(ended, rdb, 3, func(_ int, rdb redis.Cmdable) error {
		return rdb.Get(t.Context(), "a").Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	rdb.AddHook(inner(func(context.Context, ...redis.Cmder) error { return errDone }))
	err = redisconn.Batch(t.Context(), rdb, 3, func(_ int, rdb redis.Cmdable) error {
		return rdb.Get(t.Context(), "a").Err()
	})
	if !errors.Is(err, errDone) {
		t.Errorf("not sent: %v", err)
	}
}
