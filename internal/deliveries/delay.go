package deliveries

import (
	"time"

	"orgops/internal/backoff"
)

// delays are the times between a failed attempt and the next one: short at first, in case
// the fault is brief. A receiver that comes back after an hour has attempts for three days.
var delays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
}

const (
	// longestDelay is used when delays are used up.
	longestDelay = 4 * time.Hour
	// lifetime is how long an event is tried: a weekend, and a day to notice.
	lifetime = 72 * time.Hour
	// maxAttempts is above the 25 that fit into the lifetime. A delivery that kills its
	// worker ends too.
	maxAttempts = 40
)

// nextAttempt returns the delay until the next attempt for an event that was notified at
// created, after so many failed ones, or the receiver's Retry-After if that is
// longer. again is false if that is past the event's lifetime.
func nextAttempt(failed int, created, now time.Time, retryAfter time.Duration) (after time.Duration, again bool) {
	after = wholeSeconds(max(delayAfter(failed), retryAfter))
	return after, !outlived(created, now.Add(after))
}

// delayAfter returns the delay after the failed-th attempt, from 1.
func delayAfter(failed int) time.Duration {
	delay := longestDelay
	if i := max(failed, 1) - 1; i < len(delays) {
		delay = delays[i]
	}
	return backoff.Spread(delay)
}

// outlived reports whether an event that was notified at created is no longer delivered.
func outlived(created, at time.Time) bool { return at.After(created.Add(lifetime)) }

// wholeSeconds rounds up: asynq's schedule has whole seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return max(d.Truncate(time.Second)+time.Second, time.Second)
}
