package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

// arithmetic is implemented by gcra.go and gcra.lua.
type arithmetic interface {
	Take(now, tat int64) (next, wait int64)
	Refund(tat int64) int64
	Drain(until, tat int64) int64
	Bound(due, meant, tat int64) int64
}

// luaGCRA is gcra.lua, run by the Redis of the test.
type luaGCRA struct {
	t *testing.T
	g pace.GCRA
}

func (l luaGCRA) call(expression string) []int64 {
	l.t.Helper()
	got, err := redistest.New(l.t).Eval(l.t.Context(), pace.Lua()+"return {"+expression+"}", nil).Int64Slice()
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

func (l luaGCRA) Take(now, tat int64) (next, wait int64) {
	got := l.call(fmt.Sprintf("gcra_take(%d, %d, %d, %d)", l.g.Interval(), l.g.Burst(), now, tat))
	return got[0], got[1]
}

func (l luaGCRA) Refund(tat int64) int64 {
	return l.call(fmt.Sprintf("gcra_refund(%d, %d, %d)", l.g.Interval(), l.g.Burst(), tat))[0]
}

func (l luaGCRA) Drain(until, tat int64) int64 {
	return l.call(fmt.Sprintf("gcra_drain(%d, %d, %d, %d)", l.g.Interval(), l.g.Burst(), until, tat))[0]
}

func (l luaGCRA) Bound(due, meant, tat int64) int64 {
	return l.call(fmt.Sprintf("gcra_bound(%d, %d, %d, %d, %d)", l.g.Interval(), l.g.Burst(), due, meant, tat))[0]
}

func both(t *testing.T, g pace.GCRA, run func(t *testing.T, a arithmetic)) {
	t.Run("go", func(t *testing.T) { run(t, g) })
	t.Run("lua", func(t *testing.T) { run(t, luaGCRA{t, g}) })
}

func TestGCRA(t *testing.T) {
	const now = 1_795_000_000_123_456 // in 2026: must stay exact
	tests := []struct {
		name            string
		interval, burst int64
		tat             int64 // relative to now
		next, wait      int64 // next relative to now
	}{
		{"never used", 62_500, 50, -now, 62_500, 0},
		{"long rested", 62_500, 50, -3_600_000_000, 62_500, 0},
		{"full to the microsecond", 62_500, 50, 0, 62_500, 0},
		{"one permit taken", 62_500, 50, 62_500, 125_000, 0},
		{"the last permit", 62_500, 50, 49 * 62_500, 50 * 62_500, 0},
		{"a microsecond before the next", 62_500, 50, 49*62_500 + 1, 49*62_500 + 1, 1},
		{"empty", 62_500, 50, 50 * 62_500, 50 * 62_500, 62_500},
		{"drained far ahead", 62_500, 50, 3_600_000_000, 3_600_000_000, 3_600_000_000 - 49*62_500},
		{"no burst, rested", 500_000, 1, -1, 500_000, 0},
		{"no burst, just now", 500_000, 1, 0, 500_000, 0},
		{"no burst, taken", 500_000, 1, 500_000, 500_000, 500_000},
		{"no burst, a microsecond early", 500_000, 1, 1, 1, 1},
		{"one an hour", 3_600_000_000, 1, 1_800_000_000, 1_800_000_000, 1_800_000_000},
		{"the fastest", 10, 100_000, 999_990, 1_000_000, 0},
		{"the fastest, empty", 10, 100_000, 1_000_000, 1_000_000, 10},
		{"unlimited", 0, 1, -now, 0, 0},
		{"unlimited, after a pause", 0, 1, 0, 0, 0},
		{"unlimited, drained until later", 0, 50, 700, 700, 700},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			both(t, pace.RawGCRA(tt.interval, tt.burst), func(t *testing.T, a arithmetic) {
				next, wait := a.Take(now, now+tt.tat)
				if next != now+tt.next || wait != tt.wait {
					t.Errorf("tat now%+d, wait %d; want now%+d, %d", next-now, wait, tt.next, tt.wait)
				}
				if wait > 0 {
					if _, wait = a.Take(now+tt.wait, next); wait != 0 {
						t.Errorf("after the wait there are another %d to wait", wait)
					}
				}
				if wait == 0 && tt.wait == 0 && tt.tat >= 0 && a.Refund(next) != now+tt.tat {
					t.Errorf("given back: now%+d, want now%+d", a.Refund(next)-now, tt.tat)
				}
			})
		})
	}
}

func TestGCRADrain(t *testing.T) {
	const now = 1_795_000_000_123_456
	for _, g := range []struct{ interval, burst int64 }{{62_500, 50}, {500_000, 1}, {10, 100_000}, {0, 3}} {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			both(t, pace.RawGCRA(g.interval, g.burst), func(t *testing.T, a arithmetic) {
				const until = now + 5_000_000
				tat := a.Drain(until, now+7)
				if _, wait := a.Take(until-1, tat); wait != 1 {
					t.Errorf("a microsecond before the end: wait %d, want 1", wait)
				}
				tat, wait := a.Take(until, tat)
				if wait != 0 {
					t.Errorf("at the end: wait %d, want the first permit", wait)
				}
				if _, wait := a.Take(until, tat); wait != g.interval {
					t.Errorf("the second: wait %d, want %d: no burst", wait, g.interval)
				}
				if later := until + 1_000_000*g.burst; a.Drain(until, later+g.burst*g.interval) != later+g.burst*g.interval {
					t.Error("a bucket that is emptier still was filled")
				}
			})
		})
	}
}

func TestGCRABound(t *testing.T) {
	const (
		due  = 1_795_000_000_123_456
		year = 365 * 86400 * 1_000_000
	)
	tests := []struct {
		name                string
		interval, burst     int64
		meant, tat, bounded int64 // tat and bounded relative to due
	}{
		{"never used", 62_500, 50, 0, -due, -due},
		{"rested", 62_500, 50, 0, -1, -1},
		{"one permit taken", 62_500, 50, 62_500, 62_500, 62_500},
		{"empty", 62_500, 50, 3_125_000, 3_125_000, 3_125_000},
		{"a microsecond further than empty", 62_500, 50, 0, 3_125_001, 3_125_000},
		{"a year ahead: empty, not full", 62_500, 50, 62_500, year, 3_125_000},
		{"no burst", 500_000, 1, 500_000, year, 500_000},
		{"set by a slower worker", 62_500, 50, 50_000_000, 50_000_000, 50_000_000},
		{"set by a slower worker, a year ahead", 62_500, 50, 50_000_000, year, 50_000_000},
		{"unlimited", 0, 1, 0, year, 0},
		{"the slowest", 3_600_000_000, 100_000, 0, 100_000 * 3_600_000_000, 100_000 * 3_600_000_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			both(t, pace.RawGCRA(tt.interval, tt.burst), func(t *testing.T, a arithmetic) {
				got := a.Bound(due, tt.meant, due+tt.tat)
				if got != due+tt.bounded {
					t.Fatalf("due%+d, want due%+d", got-due, tt.bounded)
				}
				if tt.tat != year || tt.meant > tt.interval*tt.burst {
					return
				}
				if _, wait := a.Take(due, got); wait != tt.interval {
					t.Errorf("the next permit after %d, want %d: the bucket is empty", wait, tt.interval)
				}
			})
		})
	}
}

// TestGCRANeverExceedsItsRate checks for random arrivals that permits never exceed rate*t +
// burst in any window, and that Go and Lua agree on each.
func TestGCRANeverExceedsItsRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lua := luaGCRA{t: t}
	for range 20 {
		g := pace.RawGCRA(1+r.Int64N(1_000_000), 1+r.Int64N(20))
		lua.g = g
		now, tat := int64(1_795_000_000_000_000), int64(0)
		var given []int64
		for step := range 500 {
			now += r.Int64N(g.Interval())
			next, wait := g.Take(now, tat)
			if step%50 == 0 {
				if n, w := lua.Take(now, tat); n != next || w != wait {
					t.Fatalf("lua says %d, %d; go %d, %d", n, w, next, wait)
				}
			}
			tat = next
			if wait == 0 {
				given = append(given, now)
			}
		}
		for i, from := range given {
			for j, to := range given[i:] {
				if most := (to-from)/g.Interval() + g.Burst(); int64(j+1) > most {
					t.Fatalf("interval %d, burst %d: %d permits in %d µs, want at most %d", g.Interval(),
						g.Burst(), j+1, to-from, most)
				}
			}
		}
	}
}
