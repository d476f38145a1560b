package pace_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

const (
	year    = 365 * 24 * time.Hour
	paceKey = "orgops:v1:{tenant:acme}:pace"
)

// steps are the steps of Redis' clock, backwards: a failover to a replica whose clock is
// behind, or the correction of a wrong clock.
var steps = []time.Duration{100 * time.Millisecond, 10 * time.Minute, 26 * time.Hour, year}

// clocked is a fleet on a Redis whose clock the test sets: it is decades ahead of that of the
// processes, which do not wait.
type clocked struct {
	*fleet
	now  time.Time
	step time.Duration // of the test
}

func newClocked(t *testing.T, limit pace.Limit) *clocked {
	c := &clocked{fleet: newFleet(t, limit), now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	c.pass(0)
	return c
}

// pass moves the clock, forward or back.
func (c *clocked) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.redis.SetTime(c.now)
}

func (c *clocked) process(change ...func(*pace.Config)) *pace.Limiter {
	return c.fleet.process(append(change, patient, func(c *pace.Config) { c.MaxWait = 1 })...)
}

// ask requests a permit once. It returns 0 if one was granted, or else the time until the next
// one.
func (c *clocked) ask(l *pace.Limiter, class pace.Class, operation string) time.Duration {
	c.t.Helper()
	err := grant(c.t.Context(), l, pace.Request{Operation: operation, Class: class})
	if err == nil {
		return 0
	}
	later, ok := errors.AsType[interface {
		error
		RetryIn() time.Duration
	}](err)
	if !ok || later.RetryIn() <= 0 {
		c.t.Fatalf("got %v, want a permit or when to ask again", err)
	}
	return later.RetryIn()
}

// take takes all available permits. It returns their number and the time until the next one.
func (c *clocked) take(l *pace.Limiter, class pace.Class) (n int, next time.Duration) {
	c.t.Helper()
	for ; n <= 1000; n++ {
		if next = c.ask(l, class, op); next > 0 {
			return n, next
		}
	}
	c.t.Fatal("more than 1,000 permits at once")
	return 0, 0
}

// emptyFor checks that one permit is available after d and one after each interval from then
// on, as from an empty bucket.
func (c *clocked) emptyFor(l *pace.Limiter, class pace.Class, d, interval time.Duration) {
	c.t.Helper()
	if got := c.ask(l, class, op); got == 0 || got > d {
		c.t.Errorf("the next permit after %v, want it within %v and not at once", got, d)
	}
	c.pass(d)
	for range 5 {
		if n, next := c.take(l, class); n != 1 || next != interval {
			c.t.Errorf("%d permits and the next after %v, want 1 and %v", n, next, interval)
		}
		c.pass(interval)
	}
}

func TestAStepBackOfTheClock(t *testing.T) {
	const interval = 500 * time.Millisecond
	limit := pace.Limit{Rate: pace.Rate{Count: 2, Per: time.Second}, Burst: 8, SweepShare: 0.25}
	tests := []struct {
		name  string
		ahead func(*clocked, *pace.Limiter) // runs before the step
		after func(*clocked, *pace.Limiter)
	}{
		{
			"the bucket is empty", func(c *clocked, l *pace.Limiter) {
				c.take(l, pace.Finish)
			}, func(c *clocked, l *pace.Limiter) {
				used := func(want int64) {
					if s, err := l.State(c.t.Context()); err != nil || s.UsedLastMinute != want {
						c.t.Errorf("%d permits count as used, %v; want %d", s.UsedLastMinute, err, want)
					}
				}
				used(0)                                                  // all were taken at times that are ahead
				c.emptyFor(c.process(), pace.Finish, interval, interval) // another worker asks next
				if c.step > time.Minute {
					used(5)
				}
			},
		},
		{
			"a sweep's share is spent", func(c *clocked, l *pace.Limiter) {
				c.take(l, pace.Sweep)
			}, func(c *clocked, l *pace.Limiter) {
				c.emptyFor(l, pace.Sweep, 4*interval, 4*interval)
			},
		},
		{
			"a pause was made", func(c *clocked, l *pace.Limiter) {
				l.Answered(c.t.Context(), op, 429, nil, 7*time.Second)
			}, func(c *clocked, l *pace.Limiter) {
				left := c.ask(l, pace.Finish, op)
				if most := min(c.step+7*time.Second, time.Hour); left != most {
					c.t.Errorf("the next permit after %v, want %v", left, most)
				}
				if s, err := l.State(c.t.Context()); err != nil || s.PausedUntil.Sub(c.now) != left {
					c.t.Errorf("paused for %v, %v; want %v", s.PausedUntil.Sub(c.now), err, left)
				}
				c.pass(left)
				if n, next := c.take(l, pace.Finish); n > 1 || next > interval {
					c.t.Errorf("at the end of the pause %d permits, the next after %v; want one at the most, the next within %v",
						n, next, interval)
				}
			},
		},
		{
			"the bucket is empty, and a pause is made", func(c *clocked, l *pace.Limiter) {
				c.take(l, pace.Finish)
			}, func(c *clocked, l *pace.Limiter) {
				l.Answered(c.t.Context(), op, 429, nil, 20*time.Second)
				c.pass(20 * time.Second)
				n, next := c.take(l, pace.Finish)
				if n > 1 || next > interval {
					c.t.Errorf("at the end of the pause %d permits, the next after %v; want one at the most, the next within %v", n,
						next, interval)
				}
				c.pass(next)
				if n, next := c.take(l, pace.Finish); n != 1 || next != interval {
					c.t.Errorf("then %d permits, the next after %v; want 1 and %v", n, next, interval)
				}
			},
		},
		{
			"a pause is over", func(c *clocked, l *pace.Limiter) {
				l.Answered(c.t.Context(), op, 429, nil, 3600*time.Second)
				c.pass(time.Hour)
				c.take(l, pace.Finish)
			}, func(c *clocked, l *pace.Limiter) {
				if s, err := l.State(c.t.Context()); err != nil || !s.PausedUntil.IsZero() {
					c.t.Errorf("paused until %v, %v; want no pause", s.PausedUntil, err)
				}
				c.emptyFor(l, pace.Finish, interval, interval)
			},
		},
		{
			"an operation is blocked", func(c *clocked, l *pace.Limiter) {
				if err := l.Block(c.t.Context(), op, "why", "fix it"); err != nil {
					c.t.Fatal(err)
				}
			}, func(c *clocked, l *pace.Limiter) {
				probe := c.ask(l, pace.Finish, op)
				if probe > 5*time.Minute {
					c.t.Errorf("the probe after %v, want it within five minutes", probe)
				}
				c.pass(probe)
				if probe > 0 && c.ask(l, pace.Finish, op) > 0 {
					c.t.Errorf("no probe after %v", probe)
				}
				if got := c.ask(l, pace.Finish, op); got != 30*time.Second {
					c.t.Errorf("a second probe after %v, want 30s", got)
				}
			},
		},
	}
	for _, tt := range tests {
		for _, step := range steps {
			bubble(t, fmt.Sprintf("%s/%v", tt.name, step), func(t *testing.T) {
				c := newClocked(t, limit)
				c.step = step
				l := c.process()
				tt.ahead(c, l)
				c.pass(-step)
				tt.after(c, l)
			})
		}
	}
}

// TestWorkersAreNotCountedForAsLongAsTheStep checks that workers counted while the clock was
// ahead expire soon.
func TestWorkersAreNotCountedForAsLongAsTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t, perSecond(2, 8))
		l := c.process()
		for range 3 {
			c.ask(c.process(), pace.Finish, op)
		}
		c.pass(-year)
		for range 50 { // of 5 s, as often as workers are counted
			c.ask(l, pace.Finish, op)
			c.pass(5 * time.Second)
			time.Sleep(5 * time.Second)
		}
		if workers, err := c.redis.ZMembers("orgops:v1:{tenant:acme}:workers"); len(workers) != 1 || err != nil {
			t.Errorf("%d workers count, %v; want the one", len(workers), err)
		}
	})
}

// TestWorkersWithDifferentSettings has workers with a low and a high rate take permits
// alternately: together they never get more than the burst and the higher rate.
func TestWorkersWithDifferentSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		c := newClocked(t, perSecond(1, 10))
		slow := c.process()
		fast := c.process(func(c *pace.Config) { c.Limit = perSecond(10, 10) })
		var passed time.Duration
		permits := 0
		for range redistest.Amount(700, 2000) {
			d := time.Duration(r.Int64N(int64(200 * time.Millisecond)))
			c.pass(d)
			passed += d
			l := slow
			if r.IntN(2) == 0 {
				l = fast
			}
			if c.ask(l, pace.Finish, op) == 0 {
				permits++
			}
			if most := 10 + 10*passed.Seconds(); float64(permits) > most {
				t.Fatalf("%d permits in %v, want at most %g", permits, passed, most)
			}
		}
	})
}
