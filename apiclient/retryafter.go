package apiclient

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds the wait that a header can request: more than a day is more likely a
// wrong unit.
const maxRetryAfter = 24 * time.Hour

// latestTime, in seconds, is of the year 5138; in milliseconds it is of 1973.
const latestTime = 100_000_000_000

// retryAfter returns how long an answer asks to wait; 0: unknown. A time in it is compared
// with the answer's own Date: an SDK that compared it with the local clock waited too short.
func retryAfter(status int, header http.Header) time.Duration {
	if d := RetryAfter(header); d > 0 {
		return d
	}
	// Every answer of a limited endpoint has the reset; it is only a time to wait for with
	// a 429.
	if status != http.StatusTooManyRequests {
		return 0
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(header.Get("X-RateLimit-Reset")), 10, 64)
	date, ok := dateOf(header)
	if err != nil || !ok {
		return 0
	}
	for seconds > latestTime { // it is in milliseconds, or smaller units
		seconds /= 1000
	}
	return until(date, time.Unix(max(seconds, 0), 0))
}

// RetryAfter returns how long an answer's Retry-After asks to wait, in seconds or by a date
// (RFC 9110 section 10.2.3): at most a day, and 0 if it is missing or invalid. A date is
// compared with the answer's Date or, if that is missing, with the local clock: an error
// of the difference of the clocks is better than a retry at once.
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

// dateOrNow returns the answer's Date, or the local time if it is missing.
func dateOrNow(header http.Header) time.Time {
	if date, ok := dateOf(header); ok {
		return date
	}
	return time.Now()
}

// dateOf returns the answer's Date; false: it is missing or invalid.
func dateOf(header http.Header) (time.Time, bool) {
	date, err := http.ParseTime(header.Get("Date"))
	return date, err == nil
}

// until returns the time from date to at, within 0 and maxRetryAfter.
func until(date, at time.Time) time.Duration {
	return min(max(at.Sub(date), 0), maxRetryAfter)
}
