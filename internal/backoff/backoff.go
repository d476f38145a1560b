// Package backoff has the waits before something is attempted again.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Doubled returns the wait after the n-th failure, from 0: first, twice that, four times that and
// so on, at most longest.
func Doubled(first, longest time.Duration, n int) time.Duration {
	wait := first
	for range n {
		if wait >= longest/2 {
			return longest
		}
		wait *= 2
	}
	return min(wait, longest)
}

// Spread moves a wait by up to a tenth either way, so that attempts which failed together are not
// repeated together.
func Spread(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (0.9 + 0.2*rand.Float64()))
}
