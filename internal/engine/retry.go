package engine

import (
	"math/rand/v2"
	"time"
)

const (
	// MaxAttempts is how often an execution of a row may fail before the row settles as
	// failed: with the delays of [Backoff], an outage of about three hours.
	MaxAttempts = 17
	// longestBackoff bounds the wait between two attempts.
	longestBackoff = 30 * time.Minute
	// unknownAgain is when a row is due again that a newer worker has to execute.
	unknownAgain = 5 * time.Second
)

// Backoff returns the wait after the n-th failure, from 0: 1 s, 2 s, 4 s and so on.
func Backoff(n int) time.Duration {
	d := longestBackoff
	if n < 11 { // 2^11 s exceeds the longest
		d = time.Second << max(n, 0)
	}
	return spread(d)
}

// spread moves d by up to 10 % either way, so that rows which failed together are not
// repeated together.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
