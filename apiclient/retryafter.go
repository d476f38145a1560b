package apiclient

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a header can ask for: beyond a day it is more
// likely a wrong unit than a wish.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long an answer asks to wait; 0: it does not say. A time in
// it is compared with the answer's own Date: an SDK that compared it with the
// local clock waited too short.
func retryAfter(status int, header http.Header) time.Duration {
	if d := RetryAfter(header); d > 0 {
		return d
	}
	// The reset stands on every answer of a limited endpoint; only a 429 says
	// that there is something to wait for.
	if status != http.StatusTooManyRequests {
		return 0
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(header.Get("X-RateLimit-Reset")), 10, 64)
	if err != nil {
		return 0
	}
	date, ok := dateOf(header)
	if !ok {
		return 0
	}
	// Beyond that, in the year 36812, differences of times would overflow.
	return until(date, time.Unix(min(max(seconds, 0), 1<<40), 0))
}

// RetryAfter is how long an answer's Retry-After asks to wait, in seconds or by a
// date (RFC 9110 section 10.2.3); at most a day, and 0 where it says nothing. A
// date is compared with the answer's Date and, where there is none, with the
// local clock: an estimate that is off by the difference of two clocks is better
// than a retry at once.
func RetryAfter(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		seconds = min(max(seconds, 0), int64(maxRetryAfter/time.Second))
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return until(dateOrNow(header), at)
}

// dateOrNow returns the answer's Date, or the local time where it has none.
func dateOrNow(header http.Header) time.Time {
	if date, ok := dateOf(header); ok {
		return date
	}
	return time.Now()
}

// dateOf returns the answer's Date; false: it has none that can be read.
func dateOf(header http.Header) (time.Time, bool) {
	date, err := http.ParseTime(header.Get("Date"))
	return date, err == nil
}

// until returns the time from date to at, within 0 and maxRetryAfter.
func until(date, at time.Time) time.Duration {
	return min(max(at.Sub(date), 0), maxRetryAfter)
}
