package pace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

// TestWithoutRedisEachWorkerKeepsToItsShare checks that all workers together do not exceed the
// rate of the fleet without Redis, and that no burst follows when Redis comes back empty.
func TestWithoutRedisEachWorkerKeepsToItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 3
		f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 20, Reserve: 0.1}) // 9 a second are left
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
						err := l.Wait(ctx, op)
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
		time.Sleep(20 * second)
		f.redis.FlushAll()
		f.redis.SetError("")
		time.Sleep(20 * second)
		cancel()
		wg.Wait()
		slices.Sort(given)
		for name, part := range map[string][3]int{
			"away": {20, 40, 162}, "back": {41, 60, 153},
		} {
			n := between(time.Duration(part[0])*second, time.Duration(part[1])*second)
			most := float64(part[1]-part[0])*9 + processes
			if float64(n) > most || float64(n) < 0.9*float64(part[2]) {
				t.Errorf("Redis %s: %d permits, want at most %.0f, and about %d", name, n, most, part[2])
			}
		}
		// In no second, including that of the return, are there more permits than the rate and
		// a few.
		for from := 20 * second; from < 59*second; from += second / 10 {
			if n := between(from, from+second); n > 9+2*processes {
				t.Errorf("%d permits in the second from %v", n, from)
			}
		}
		for _, want := range []string{"Redis unavailable: this worker keeps to its share of the rate", "workers=3", "Redis available again"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("%q is not logged once:\n%s", want, log.String())
			}
		}
	})
}

func TestWhatDoesNotGoOutWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		f.redis.SetError("LOADING")
		l := f.process(byContext)
		refused := func(why string, ctx context.Context, operation string) {
			t.Helper()
			if err := l.Wait(ctx, operation); err == nil || !strings.Contains(err.Error(), "ask redis for a permit to "+operation) {
				t.Errorf("%s: got %v", why, err)
			}
		}
		refused("before the workers were ever counted", as(t, pace.Finish), op)
		f.redis.SetError("")
		wait(t, l, op)
		if err := l.Block(t.Context(), "create_template", "no scope"); err != nil {
			t.Fatal(err)
		}
		f.redis.SetError("LOADING")
		refused("a sweep", as(t, pace.Sweep), op)
		refused("what is known to be blocked", as(t, pace.Finish), "create_template")
		wait(t, l, op)

		l.Answered(t.Context(), op, http.StatusTooManyRequests, http.Header{"Retry-After": {"10"}})
		start := time.Now()
		wait(t, l, op)
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after a 429 without Redis it waited %v, want 10s", took)
		}
	})
	t.Run("with an unlimited rate, anything", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, pace.Limit{})
			l := f.process()
			wait(t, l, op)
			time.Sleep(time.Second)
			f.redis.SetError("LOADING")
			if err := l.Wait(t.Context(), op); err == nil {
				t.Error("it has a permit")
			}
		})
	})
}

// TestAPauseThatRedisWasNotToldOf checks that a pause missing in Redis is stored with the next
// request for a permit, and holds for the fleet. The bucket is empty after it.
func TestAPauseThatRedisWasNotToldOf(t *testing.T) {
	const pause = 15 * time.Second
	paused := func(t *testing.T, l *pace.Limiter) {
		l.Answered(t.Context(), op, http.StatusTooManyRequests, http.Header{"Retry-After": {"15"}})
	}
	for name, miss := range map[string]func(*testing.T, *fleet, *pace.Limiter){
		"it is away, and back during the pause": func(t *testing.T, f *fleet, l *pace.Limiter) {
			f.redis.SetError("LOADING")
			wait(t, l, op) // alone
			paused(t, l)
			time.Sleep(2 * time.Second)
			f.redis.SetError("")
		},
		"it was told, and comes back without it": func(t *testing.T, f *fleet, l *pace.Limiter) {
			paused(t, l)
			f.redis.SetError("LOADING")
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := l.Wait(short, op); err == nil {
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
			l.Answered(t.Context(), op, http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
	t.Run("once it was told, it is not told again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, perSecond(10, 5))
			l := f.process()
			wait(t, l, op)
			f.redis.SetError("LOADING")
			paused(t, l)
			f.redis.SetError("")
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := l.Wait(short, op); err == nil {
				t.Error("a permit during the pause")
			}
			f.redis.FlushAll() // Redis has lost the pause
			start := time.Now()
			wait(t, l, op)
			if took := time.Since(start); took > time.Second {
				t.Errorf("the next permit came after %v, want it at once", took)
			}
		})
	})
}

// TestARealRedisGoesAndComesBack stops and restarts a real Redis.
func TestARealRedisGoesAndComesBack(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	l := pace.New(pace.Config{
		Redis: server.Client(), Tenant: "acme", Limit: perSecond(50, 10), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	wait(t, l, op)
	server.Kill()
	for range 5 {
		wait(t, l, op)
	}
	if !strings.Contains(log.String(), "Redis unavailable") {
		t.Errorf("not logged:\n%s", log.String())
	}
	server.Restart()
	for !strings.Contains(log.String(), "Redis available again") {
		wait(t, l, op) // at this worker's share, until Redis is probed again
	}
	if s, err := l.State(t.Context()); err != nil || s.UsedLastMinute == 0 {
		t.Errorf("permits are not counted in Redis again: %+v, %v", s, err)
	}
}
