package pace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/pace"
)

// TestNoPermitsWithoutRedis checks that no request is sent while Redis is away, that requests
// which waited for it go on, and that no burst follows when it comes back empty.
func TestNoPermitsWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 3
		// 9 a second are left
		f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 20, Reserve: 0.1})
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		var mu sync.Mutex
		var given []time.Duration
		var wg sync.WaitGroup
		for p := range processes {
			l := f.process(func(c *pace.Config) {
				if p == 0 {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				}
			})
			for range 4 {
				wg.Go(func() {
					for {
						err := permit(ctx, l, op)
						if errors.Is(err, context.Canceled) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						given = append(given, time.Since(start))
						mu.Unlock()
					}
				})
			}
		}
		between := func(from, to time.Duration) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, at := range given {
				if at >= from && at < to {
					n++
				}
			}
			return n
		}
		const second = time.Second
		time.Sleep(20 * second)
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(15 * second)
		f.redis.FlushAll()
		f.redis.SetError("")
		time.Sleep(20 * second)
		cancel()
		wg.Wait()
		if n := between(20*second, 35*second); n > 0 {
			t.Errorf("%d permits without Redis", n)
		}
		if n := between(36*second, 55*second); n < 150 || n > 19*9+processes {
			t.Errorf("%d permits in the 19 s after it was back, want 171", n)
		}
		for from := 20 * second; from < 54*second; from += second / 10 {
			if n := between(from, from+second); n > 9+2*processes {
				t.Errorf("%d permits in the second from %v", n, from)
			}
		}
		if n := strings.Count(log.String(), "Redis gives no permits"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log.String())
		}
	})
}

// TestUnstoredPauseIsStoredWithTheNextPermit checks that a pause missing in Redis is stored with
// the next request for a permit, and holds for the fleet. The bucket is empty after it.
func TestUnstoredPauseIsStoredWithTheNextPermit(t *testing.T) {
	const pause = 15 * time.Second
	paused := func(t *testing.T, l *pace.Limiter) {
		l.Answered(t.Context(), op, http.StatusTooManyRequests, nil, 15*time.Second)
	}
	for name, miss := range map[string]func(*testing.T, *fleet, *pace.Limiter){
		"it is away, and back during the pause": func(t *testing.T, f *fleet, l *pace.Limiter) {
			f.redis.SetError("LOADING")
			paused(t, l)
			time.Sleep(2 * time.Second)
			f.redis.SetError("")
		},
		"it was told, and comes back without it": func(t *testing.T, f *fleet, l *pace.Limiter) {
			paused(t, l)
			f.redis.SetError("LOADING")
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := permit(short, l, op); err == nil {
				t.Error("a permit without Redis during the pause")
			}
			time.Sleep(time.Second)
			f.redis.FlushAll()
			f.redis.SetError("")
		},
		"one step fails, and a shorter pause is stored": func(t *testing.T, f *fleet, l *pace.Limiter) {
			f.redis.SetError("LOADING")
			paused(t, l)
			f.redis.SetError("")
			l.Answered(t.Context(), op, http.StatusTooManyRequests, nil, time.Second)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, perSecond(10, 5))
			told, other := f.process(), f.process()
			wait(t, told, op)
			start := time.Now()
			miss(t, f, told)
			wait(t, told, op)
			if took := time.Since(start); took < pause || took > pause+time.Second {
				t.Errorf("the next permit came after %v, want %v", took, pause)
			}
			start = time.Now()
			for range 20 {
				wait(t, other, op)
			}
			if took := time.Since(start); took < 1900*time.Millisecond {
				t.Errorf("20 permits at 10/s within %v of the pause: the bucket was not empty", took)
			}
		})
	}
	bubble(t, "once it was told, it is not told again", func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		l := f.process()
		wait(t, l, op)
		f.redis.SetError("LOADING")
		paused(t, l)
		f.redis.SetError("")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := permit(short, l, op); err == nil {
			t.Error("a permit during the pause")
		}
		f.redis.FlushAll() // Redis has lost the pause
		start := time.Now()
		wait(t, l, op)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the next permit came after %v, want it at once", took)
		}
	})
}
