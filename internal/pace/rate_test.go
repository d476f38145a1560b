package pace_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"orgops/internal/pace"
)

func TestParseRate(t *testing.T) {
	tests := []struct {
		text      string
		want      pace.Rate
		perSecond float64
	}{
		{"16/s", pace.Rate{Count: 16, Per: time.Second}, 16},
		{"0.5/s", pace.Rate{Count: 0.5, Per: time.Second}, 0.5},
		{"150/min", pace.Rate{Count: 150, Per: time.Minute}, 2.5},
		{"1000/h", pace.Rate{Count: 1000, Per: time.Hour}, 1000.0 / 3600},
		{"1/h", pace.Rate{Count: 1, Per: time.Hour}, 1.0 / 3600},
		{"100000/s", pace.Rate{Count: 100000, Per: time.Second}, 100000},
		{"unlimited", pace.Rate{}, math.Inf(1)},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := pace.ParseRate(tt.text)
			if err != nil || got != tt.want {
				t.Fatalf("got %v, %v; want %v", got, err, tt.want)
			}
			if got.PerSecond() != tt.perSecond || got.IsUnlimited() != (tt.text == "unlimited") || got.String() != tt.text {
				t.Errorf("got %v/s, unlimited %v, %q", got.PerSecond(), got.IsUnlimited(), got)
			}
		})
	}
}

func TestParseRateRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", `"": want a form such as 16/s`},
		{"16", "want a form such as"},
		{"16/", "want a form such as"},
		{"/s", "want a form such as"},
		{"./s", "want a form such as"},
		{"16/d", "want a form such as"},
		{"16 /s", "want a form such as"},
		{"1.2.3/s", "want a form such as"},
		{"-1/s", "want a form such as"},
		{"+1/s", "want a form such as"},
		{"Inf/s", "want a form such as"},
		{"NaN/s", "want a form such as"},
		{"0x10/s", "want a form such as"},
		{"1e3/s", "want a form such as"},
		{"1/s/s", "want a form such as"},
		{"16/s\n", `"16/s\n": want`},
		{"0/s", "want at least 1/h and at most 100000/s"},
		{"0.9/h", "want at least 1/h"},
		{"100001/s", "at most 100000/s"},
		{strings.Repeat("9", 400) + "/s", "want"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := pace.ParseRate(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 200 {
				t.Errorf("got %v, %v; want an error that says %q", got, err, tt.want)
			}
		})
	}
}

func FuzzParseRate(f *testing.F) {
	for _, seed := range []string{"16/s", "0.5/s", "150/min", "unlimited", "1e9/s", "0.1/h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := pace.ParseRate(text)
		if err != nil {
			return
		}
		if again, err := pace.ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%q is read as %v, written as %q, read again as %v, %v", text, r, r.String(), again, err)
		}
	})
}

func TestEffective(t *testing.T) {
	rate := func(n float64) pace.Rate { return pace.Rate{Count: n, Per: time.Second} }
	tests := []struct {
		name  string
		limit pace.Limit
		rate  float64
		burst int
	}{
		{"no reserve", pace.Limit{Rate: rate(16), Burst: 50}, 16, 50},
		{"a fifth", pace.Limit{Rate: rate(16), Burst: 50, Reserve: 0.2}, 12.8, 40},
		{"rounded down", pace.Limit{Rate: rate(2), Burst: 2, Reserve: 0.2}, 1.6, 1},
		{"not by a binary fraction", pace.Limit{Rate: rate(100), Burst: 50, Reserve: 0.9}, 10, 5},
		{"never below one", pace.Limit{Rate: rate(100), Burst: 2, Reserve: 0.95}, 5, 1},
		{"no burst said", pace.Limit{Rate: rate(1)}, 1, 1},
		{"too much reserve", pace.Limit{Rate: rate(100), Burst: 100, Reserve: 2}, 5, 5},
		{"a negative reserve", pace.Limit{Rate: rate(100), Burst: 100, Reserve: -1}, 100, 100},
		{"unlimited", pace.Limit{Burst: 10, Reserve: 0.2}, math.Inf(1), 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, burst := tt.limit.Effective()
			if got := r.PerSecond(); (got != tt.rate && math.Abs(got-tt.rate) > 1e-9) || burst != tt.burst {
				t.Errorf("got %v, %d; want %v/s, %d", r, burst, tt.rate, tt.burst)
			}
		})
	}
}

func TestIntervals(t *testing.T) {
	tests := []struct {
		rate, reserve float64
		per           time.Duration
		want          int64 // µs
	}{
		{16, 0, time.Second, 62_500},
		{16, 0.2, time.Second, 78_125},
		{150, 0, time.Minute, 400_000},
		{150, 0.2, time.Minute, 500_000},
		{3, 0, time.Second, 333_334}, // up, never down
		{100_000, 0, time.Second, 10},
		{1, 0.95, time.Hour, 3_600_000_000},
		{0, 0, 0, 0},
	}
	for _, tt := range tests {
		r, _ := pace.Limit{Rate: pace.Rate{Count: tt.rate, Per: tt.per}, Reserve: tt.reserve}.Effective()
		if got := pace.Interval(r); got != tt.want {
			t.Errorf("%v less %v: %d µs, want %d", tt.rate, tt.reserve, got, tt.want)
		}
	}
}

// TestRaisedRateTakesEffect: a tenant was slowed down and has used its burst, sweeps their part
// of it. Whoever raises the rate again gets permits at once, not when the former bucket would be
// full: minutes later.
func TestRaisedRateTakesEffect(t *testing.T) {
	const burst = 50
	limit := func(perSecond float64) func(*pace.Config) {
		return func(cfg *pace.Config) {
			cfg.Limit = pace.Limit{Rate: pace.Rate{Count: perSecond, Per: time.Second}, Burst: burst, Reserve: 0.2}
		}
	}
	for name, class := range map[string]pace.Class{"rows": pace.Finish, "sweeps": pace.Sweep} {
		bubble(t, name, func(t *testing.T) {
			c := newClocked(t, pace.Limit{})
			slow, fast := c.process(limit(0.1)), c.process(limit(16))
			if n, next := c.take(slow, class); n == 0 || next < 10*time.Second {
				t.Fatalf("%d permits, and the next after %v", n, next)
			}
			if next := c.ask(fast, class, op); next > time.Second {
				t.Fatalf("the raised rate gives a permit after %v", next)
			}
			c.pass(time.Second)
			if n, _ := c.take(fast, class); n == 0 || n > 13 {
				t.Errorf("%d permits in a second of the raised rate, want those of a second", n)
			}
			// Lowered again, the bucket is as empty as before.
			if n, _ := c.take(slow, class); n > 1 {
				t.Errorf("%d permits once the rate is lowered, of a bucket that is empty", n)
			}
		})
	}
}
