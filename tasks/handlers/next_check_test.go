package handlers_test

import (
	"testing"
	"time"

	"orgops/tasks/handlers"
)

// TestNextCheck checks that the intervals double, become hourly, and exceed the TTL of a
// negative answer.
func TestNextCheck(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, c := range []struct{ age, ttl, want time.Duration }{
		{0, 0, 15 * s}, {15 * s, 0, 15 * s}, {30 * s, 0, 30 * s}, {m, 0, m}, {8 * m, 0, 8 * m}, {16 * m, 0, 16 * m},
		{29 * m, 0, 3 * m}, {30 * m, 0, 2 * m},
		{32 * m, 0, h}, {100 * h, 0, h}, {-h, 0, 15 * s},
	} {
		seen := map[time.Duration]bool{}
		for range 200 {
			got := handlers.NextCheck(c.age, c.ttl)
			if got < max(c.want*9/10-1, s) || got > c.want*11/10+1 {
				t.Fatalf("at %v: %v, want %v by a tenth", c.age, got, c.want)
			}
			seen[got] = true
		}
		if len(seen) < 100 {
			t.Errorf("at %v: %d values of 200: not spread", c.age, len(seen))
		}
	}
	if got := handlers.NextCheck(0, 5*m); got != 5*m+s {
		t.Errorf("after a negative answer for 5m: %v", got)
	}
	if got := handlers.NextCheck(0, 100*h); got != handlers.MaxNegativeTTL+s {
		t.Errorf("after a negative answer for 100h: %v", got)
	}
}
