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
	// latestTime, in seconds, is of the year 5138; in milliseconds it is of 1973.
	latestTime = 100_000_000_000
)

// pauseOf returns how long a 429 pauses: by Retry-After, seconds or a date (RFC 9110
// section 10.2.3), otherwise until the limit resets. Both are measured by the API's clock, its
// Date header. If there is none, a date in Retry-After is compared with the local clock, and
// the reset, an upper bound, is ignored.
func pauseOf(header http.Header) time.Duration {
	after := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(after, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return between(0, int64(min(seconds, uint64(longestPause/time.Second))))
	}
	date, noDate := http.ParseTime(header.Get("Date"))
	if at, err := http.ParseTime(after); err == nil {
		if noDate != nil {
			date = time.Now()
		}
		return between(date.Unix(), at.Unix())
	}
	// The reset does not say whether the bucket is full by then or has one token; the pause is
	// long enough for either.
	at, err := strconv.ParseInt(strings.TrimSpace(header.Get("X-Ratelimit-Reset")), 10, 64)
	if err != nil || noDate != nil {
		return shortestPause
	}
	for at > latestTime { // it is in milliseconds, or smaller units
		at /= 1000
	}
	return between(date.Unix(), at)
}

// between returns the time between two Unix times, within shortestPause and longestPause.
func between(from, to int64) time.Duration {
	const least, most = int64(shortestPause / time.Second), int64(longestPause / time.Second)
	// Bounded before the multiplication, which could overflow.
	return time.Duration(min(max(to, from+least), from+most)-from) * time.Second
}
