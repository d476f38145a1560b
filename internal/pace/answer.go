package pace

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// shortestPause is also the pause when the API names none: whole seconds are
	// all that its headers can tell, so 0 means somewhere within this one.
	shortestPause = time.Second
	// longestPause bounds what one answer can do to the fleet.
	longestPause = time.Hour
)

// pauseOf reads from a 429 how long to send nothing: Retry-After, otherwise the
// time at which the limit resets. Both are measured on the API's own clock, its
// Date header. Only a date in Retry-After is compared with the local clock where
// the answer has no Date: it is what the API asks for, and a reset is no more
// than an upper bound.
func pauseOf(header http.Header) time.Duration {
	pause, ok := retryAfter(header)
	if !ok {
		pause, _ = reset(header)
	}
	return min(max(pause, shortestPause), longestPause)
}

// retryAfter reads Retry-After: seconds or a date (RFC 9110 section 10.2.3).
func retryAfter(header http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	n, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // of which n is the largest number
		return time.Duration(min(n, uint64(longestPause/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		date = time.Now()
	}
	return between(date, at.Unix()), true
}

// reset reads x-ratelimit-reset, a Unix time. Whether the bucket is full by then
// or has one token is not told: it is long enough.
func reset(header http.Header) (time.Duration, bool) {
	at, err := strconv.ParseInt(strings.TrimSpace(header.Get("X-Ratelimit-Reset")), 10, 64)
	if err != nil {
		return 0, false
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return between(date, at), true
}

// between returns the time from date to a Unix time, within 0 and longestPause.
func between(date time.Time, at int64) time.Duration {
	const most = int64(longestPause / time.Second)
	// Held to sane numbers before they are multiplied.
	return time.Duration(min(max(at, date.Unix()), date.Unix()+most)-date.Unix()) * time.Second
}
