package tasks

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
)

// MaxAttempts is how often an execution may meet trouble (see [Transient])
// before its rows settle as failed. With the delays of backoff that is an
// outage of about three hours. Looks that find nothing and waits for the
// tenant's budget are not counted, nor are writes that Redis refuses.
const MaxAttempts = 17

// maxRetry is asynq's own limit, put out of reach: asynq asks it before it
// asks whether an error counts, so a small one would archive a task that
// only has to wait. It stays below 2^31 for asynq's Lua scripts.
const maxRetry = 1 << 30

// longestBackoff bounds the wait between two attempts.
const longestBackoff = 30 * time.Minute

// backoff is the wait after the attempt-th failure, from 0: 1 s, 2 s, 4 s
// and so on, spread by a tenth so that rows which met the same outage do
// not come back together.
func backoff(attempt int) time.Duration {
	d := longestBackoff
	if attempt < 11 { // 2^11 s is beyond the longest
		d = time.Second << max(attempt, 0)
	}
	return spread(d)
}

// spread moves d by up to 10 % either way.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// Bounds of looking for a token.
const (
	// looksDouble is the age at which looks, doubling until then from
	// firstLook on, become hourly.
	looksDouble = 30 * time.Minute
	firstLook   = 15 * time.Second
	hourly      = time.Hour
	// longestNegativeTTL bounds how long a negative answer's TTL can hold
	// the next look back: the TTL is the stranger's to choose.
	longestNegativeTTL = time.Hour
)

// nextLook is how long after now a row of the given age is looked at again:
// at ages 15 s and 30 s, then doubling to 30 min, then hourly, each spread
// by a tenth; never before a negative answer that came from a cache can
// have expired (RFC 2308).
func nextLook(age, negativeTTL time.Duration) time.Duration {
	age = max(age, 0) // the producer's clock may be ahead of ours
	at := firstLook
	for at <= age && at < looksDouble {
		at *= 2
	}
	wait := hourly
	if at > age {
		wait = at - age
	}
	// A second more than the TTL: the cache's clock may be behind ours.
	return max(spread(wait), min(negativeTTL, longestNegativeTTL)+time.Second)
}

// verdictError carries a judgement through asynq: its server asks
// retryDelay and isFailure of the error that the middleware returned.
type verdictError struct{ Judgement }

func (e *verdictError) Error() string { return string(e.Outcome) + ": " + e.Reason }

// Is lets asynq archive what is settled badly, and drop what was cancelled.
func (e *verdictError) Is(target error) bool {
	switch target {
	case asynq.SkipRetry:
		return e.Outcome.Settles() && e.Outcome != Cancelled
	case asynq.RevokeTask:
		return e.Outcome == Cancelled || e.Outcome == Paused || e.Outcome == Superseded
	}
	return false
}

// retryDelay is asynq's RetryDelayFunc. Errors that are not ours are asynq's
// own: a lost lease or a timeout.
func retryDelay(retried int, err error, _ *asynq.Task) time.Duration {
	var v *verdictError
	if !errors.As(err, &v) || (v.Counts && v.After == 0) {
		return backoff(retried)
	}
	return v.After
}

// isFailure is asynq's IsFailure: only what uses up an attempt is one.
func isFailure(err error) bool {
	var v *verdictError
	return !errors.As(err, &v) || v.Counts
}
