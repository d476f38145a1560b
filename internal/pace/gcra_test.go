package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

// luaGCRA is a bucket of gcra.lua, run by the Redis of the test.
type luaGCRA struct {
	t               *testing.T
	interval, burst int64
}

func (l luaGCRA) run(script string, args ...any) []int64 {
	l.t.Helper()
	script = fmt.Sprintf("%slocal interval, burst = %d, %d\n%s", pace.Lua(), l.interval, l.burst, script)
	got, err := redistest.New(l.t).Eval(l.t.Context(), script, nil, args...).Int64Slice()
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

func (l luaGCRA) take(now, tat int64) (next, wait int64) {
	l.t.Helper()
	got := l.run(fmt.Sprintf("return {gcra_take(interval, burst, %d, %d)}", now, tat))
	return got[0], got[1]
}

func (l luaGCRA) drain(due, tat int64) int64 {
	l.t.Helper()
	return l.run(fmt.Sprintf("return {gcra_drain(interval, burst, %d, %d)}", due, tat))[0]
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
			g := luaGCRA{t, tt.interval, tt.burst}
			next, wait := g.take(now, now+tt.tat)
			if next != now+tt.next || wait != tt.wait {
				t.Errorf("tat now%+d, wait %d; want now%+d, %d", next-now, wait, tt.next, tt.wait)
			}
			if wait > 0 {
				if _, wait = g.take(now+tt.wait, next); wait != 0 {
					t.Errorf("after the wait there are another %d to wait", wait)
				}
			}
		})
	}
}

func TestGCRADrain(t *testing.T) {
	const now = 1_795_000_000_123_456
	for _, g := range []luaGCRA{{t, 62_500, 50}, {t, 500_000, 1}, {t, 10, 100_000}, {t, 0, 3}} {
		const until = now + 5_000_000
		tat := g.drain(until, now+7)
		if _, wait := g.take(until-1, tat); wait != 1 {
			t.Errorf("%d, %d: a microsecond before the end: wait %d, want 1", g.interval, g.burst, wait)
		}
		tat, wait := g.take(until, tat)
		if wait != 0 {
			t.Errorf("%d, %d: at the end: wait %d, want the first permit", g.interval, g.burst, wait)
		}
		if _, wait := g.take(until, tat); wait != g.interval {
			t.Errorf("%d, %d: the second: wait %d, want %d: no burst", g.interval, g.burst, wait, g.interval)
		}
		emptier := until + 1_000_000*g.burst + g.burst*g.interval
		if g.drain(until, emptier) != emptier {
			t.Errorf("%d, %d: a bucket that is emptier still was filled", g.interval, g.burst)
		}
	}
}

// TestGCRANeverExceedsItsRate checks for random arrivals that permits never exceed rate*t +
// burst in any window.
func TestGCRANeverExceedsItsRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		g := luaGCRA{t, 1 + r.Int64N(1_000_000), 1 + r.Int64N(20)}
		arrivals := make([]any, 500)
		for i, now := 0, int64(1_795_000_000_000_000); i < len(arrivals); i++ {
			now += r.Int64N(g.interval)
			arrivals[i] = now
		}
		given := g.run(`local tat, given = 0, {}
			for _, now in ipairs(ARGV) do
				local next, wait = gcra_take(interval, burst, tonumber(now), tat)
				if wait == 0 then given[#given + 1] = tonumber(now) end
				tat = next
			end
			return given`, arrivals...)
		if len(given) < len(arrivals)/3 {
			t.Errorf("interval %d, burst %d: %d permits of %d", g.interval, g.burst, len(given), len(arrivals))
		}
		for i, from := range given {
			for j, to := range given[i:] {
				if most := (to-from)/g.interval + g.burst; int64(j+1) > most {
					t.Fatalf("interval %d, burst %d: %d permits in %d µs, want at most %d", g.interval, g.burst,
						j+1, to-from, most)
				}
			}
		}
	}
}
