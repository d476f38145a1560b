package pace

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// shortestPause is also the pause if the API names none: its headers have whole seconds,
	// so 0 means a part of one.
	shortestPause = time.Second
	// longestPause bounds the effect of one answer on the fleet.
	longestPause = time.Hour
)

// pauseOf returns how long a 429 pauses the tenant: by Retry-After, otherwise until the limit
// resets. Both are measured by the API's clock, its Date header. If there is none, a date in
// Retry-After is compared with the local clock, and the reset, an upper bound, is ignored.
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
	if err == nil || errors.Is(err, strconv.ErrRange) { // then n is the largest number
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

// reset reads x-ratelimit-reset, a Unix time. It does not say whether the bucket is full by
// then or has one token; the pause is long enough for either.
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
	// Bounded before the multiplication, which could overflow.
	return time.Duration(min(max(at, date.Unix()), date.Unix()+most)-date.Unix()) * time.Second
}
