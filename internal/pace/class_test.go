package pace_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/pace"
)

// as returns a request of a class.
func as(c pace.Class) pace.Request { return pace.Request{Operation: op, Class: c} }

// patient has requests wait as long as they must.
func patient(c *pace.Config) { c.MaxWait = time.Hour }

// served requests one permit for each of the classes, in that order and concurrently. It
// returns the order in which they were granted.
func served(t *testing.T, l *pace.Limiter, asking ...pace.Class) (order []pace.Class) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range asking {
		wg.Go(func() {
			if err := grant(t.Context(), l, as(c)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, c)
		})
		synctest.Wait()
	}
	wg.Wait()
	return order
}

func TestPermitsGoByClass(t *testing.T) {
	tests := []struct {
		name         string
		rate         float64 // per second
		asking, want []pace.Class
	}{
		{"in their order, whoever came first", 1,
			[]pace.Class{pace.Sweep, pace.Scan, pace.Look, pace.Finish},
			[]pace.Class{pace.Finish, pace.Look, pace.Scan, pace.Sweep}},
		{"a confirm before looks that wait", 1,
			[]pace.Class{pace.Look, pace.Look, pace.Look, pace.Finish},
			[]pace.Class{pace.Finish, pace.Look, pace.Look, pace.Look}},
		{"also where a permit takes minutes, and one waits for it already", 1.0 / 300,
			[]pace.Class{pace.Look, pace.Finish},
			[]pace.Class{pace.Finish, pace.Look}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			l := newFleet(t, perSecond(tt.rate, 1)).process(patient)
			wait(t, l, op)
			if diff := cmp.Diff(tt.want, served(t, l, tt.asking...)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoClassStarves checks that each class gets at least one permit in ten while all others
// request more than the rate allows.
func TestNoClassStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const permits = 240
		f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 1, SweepShare: 1})
		l := f.process(patient)
		wait(t, l, op)
		var asking []pace.Class
		for _, c := range []pace.Class{pace.Sweep, pace.Scan, pace.Look, pace.Finish} {
			asking = append(asking, slices.Repeat([]pace.Class{c}, permits)...)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		order := make(chan pace.Class, len(asking))
		for _, c := range asking {
			go func() {
				if grant(ctx, l, as(c)) == nil {
					order <- c
				}
			}()
		}
		last := map[pace.Class]int{}
		for i := range permits {
			c := <-order
			if passed := i - last[c]; passed > 10 {
				t.Errorf("class %d had no permit for %d others", c, passed)
			}
			last[c] = i
		}
		for c := range pace.Sweep + 1 {
			if passed := permits - last[c]; passed > 10 {
				t.Errorf("class %d had no permit among the last %d", c, passed)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// TestSweepsAreHeldToTheirShare checks that the sweeps of the whole fleet stay within their
// share, and do not delay other requests.
func TestSweepsAreHeldToTheirShare(t *testing.T) {
	const burst = 8
	tests := []struct {
		name       string
		length     time.Duration
		share      float64
		others     bool
		sweeps     [2]int // in 100 s, at least and at most
		othersLeft int    // in 100 s, at least
	}{
		{"alone, a fifth unless said", 100 * time.Second, 0, false, [2]int{150, 170}, 0},
		{"alone, a tenth", 100 * time.Second, 0.1, false, [2]int{75, 85}, 0},
		{"all of it", seconds(30, 100), 1, false, [2]int{760, 815}, 0},
		{"among others", seconds(30, 100), 0.25, true, [2]int{70, 210}, 560},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			// 8 a second are left, in bursts of 8.
			f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 10,
				Reserve: 0.2, SweepShare: tt.share})
			ctx, cancel := context.WithTimeout(t.Context(), tt.length)
			defer cancel()
			var mu sync.Mutex
			had := map[pace.Class]int{}
			var wg sync.WaitGroup
			ask := func(l *pace.Limiter, c pace.Class) {
				wg.Go(func() {
					for {
						err := grant(ctx, l, as(c))
						if errors.Is(err, context.DeadlineExceeded) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						had[c]++
						mu.Unlock()
					}
				})
			}
			for range 2 {
				l := f.process(patient)
				for range 3 {
					ask(l, pace.Sweep)
					if tt.others {
						ask(l, pace.Look)
					}
				}
			}
			wg.Wait()
			per100 := func(n int) int { return n * int(tt.length/time.Second) / 100 }
			least, most := per100(tt.sweeps[0]), burst+per100(tt.sweeps[1]-burst)
			if n := had[pace.Sweep]; n < least || n > most {
				t.Errorf("sweeps had %d permits, want %d to %d", n, least, most)
			}
			if n := had[pace.Look]; n < per100(tt.othersLeft) {
				t.Errorf("others had %d permits, want at least %d", n, per100(tt.othersLeft))
			}
		})
	}
}

func TestSweepWaitingForItsShareDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 4,
			SweepShare: 0.01}).process(patient)
		if err := grant(t.Context(), l, as(pace.Sweep)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		sweep := make(chan time.Duration, 1)
		go func() {
			if err := grant(t.Context(), l, as(pace.Sweep)); err != nil {
				t.Error(err)
			}
			sweep <- time.Since(start)
		}()
		synctest.Wait()
		for range 20 {
			if err := grant(t.Context(), l, as(pace.Look)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("20 looks took %v beside a sweep that waits", took)
		}
		if took := <-sweep; took < 9*time.Second || took > 11*time.Second {
			t.Errorf("the sweep had its permit after %v, want 10s", took)
		}
	})
}

// TestAhead checks that requests wait behind those of their class and of higher ones, in this and
// each other worker, and until a pause ends. A single one is no line, and a sweep is before none.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(1, 1))
		l, other := f.process(patient), f.process(patient)
		wait(t, l, op)
		ahead := func(c pace.Class, want time.Duration) {
			t.Helper()
			if got := l.Ahead(c); got != want {
				t.Errorf("ahead of class %d: %v, want %v", c, got, want)
			}
		}
		ahead(pace.Finish, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, c := range []pace.Class{pace.Finish, pace.Finish, pace.Look} {
			wg.Go(func() { _ = grant(ctx, l, as(c)) })
			synctest.Wait()
		}
		ahead(pace.Finish, time.Second)
		ahead(pace.Look, 2*time.Second)
		cancel()
		wg.Wait()
		ahead(pace.Look, 0)

		ctx, cancel = context.WithCancel(t.Context())
		for range 3 {
			wg.Go(func() { _ = grant(ctx, l, as(pace.Sweep)) })
		}
		synctest.Wait()
		ahead(pace.Sweep, 2*time.Second)
		ahead(pace.Look, 0)
		cancel()
		wg.Wait()

		wait(t, other, op)
		time.Sleep(10 * time.Second) // until the workers are counted again
		wait(t, l, op)
		ctx, cancel = context.WithCancel(t.Context())
		for range 2 {
			wg.Go(func() { _ = grant(ctx, l, as(pace.Finish)) })
		}
		synctest.Wait()
		ahead(pace.Finish, 2*time.Second)
		cancel()
		wg.Wait()

		l.Answered(t.Context(), op, http.StatusTooManyRequests, nil, 30*time.Second)
		ahead(pace.Finish, 30*time.Second)
	})
}
