package backoff_test

import (
	"math"
	"testing"
	"time"

	"orgops/internal/backoff"
)

func TestDoubled(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: 2 * time.Second, 10: 1024 * time.Second,
		11: 30 * time.Minute, 12: 30 * time.Minute, math.MaxInt: 30 * time.Minute} {
		if got := backoff.Doubled(time.Second, 30*time.Minute, n); got != want {
			t.Errorf("after failure %d: %s, want %s", n, got, want)
		}
	}
	if got := backoff.Doubled(time.Minute, time.Second, 0); got != time.Second {
		t.Errorf("a first wait above the longest: %s, want %s", got, time.Second)
	}
}

func TestSpread(t *testing.T) {
	least := time.Hour
	most := time.Duration(0)
	for range 10_000 {
		wait := backoff.Spread(time.Minute)
		least = min(least, wait)
		most = max(most, wait)
	}
	if least < 54*time.Second || most > 66*time.Second || most-least < 10*time.Second {
		t.Errorf("from %s to %s, want from about 54 s to about 66 s", least, most)
	}
}
