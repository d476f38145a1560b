package apiclient

import (
	"errors"
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

// retryAfter returns how long an answer asks to wait, at most a day; 0: unknown, or less than a
// second. The gate, and the row or the token that the answer is for, all wait by it. A time in it
// is compared with the answer's own Date: an SDK that compared it with the local clock waited too
// short.
func retryAfter(status int, header http.Header) time.Duration {
	// Retry-After, if it can be read. It has whole seconds, so that 0 is a part of one.
	if d, ok := requested(header); ok {
		return d
	}

	// The reset of the limit. Every answer of a limited endpoint has it; it is only a time to wait for
	// with a 429. It does not say whether the bucket is full by then or has one permit: the wait is
	// long enough for either.
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
	d, _ := requested(header)
	return d
}

// requested is RetryAfter, and reports whether the answer has one that can be read.
func requested(header http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return until(dateOrNow(header), at), true
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
