package pace

import (
	"context"
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

// seen is the state of the API's bucket that responses have shown. Requests for permits bring it to
// Redis, so that it costs no command of its own.
type seen struct {
	// full is when the bucket will be full again without further requests.
	full time.Time
	// empty is when the last response arrived that found the bucket empty.
	empty time.Time
	// limits are the sizes of the bucket that the last success of each operation named; 0: none.
	limits map[string]int64
	// warned is set once a different bucket than the configured one was logged.
	warned bool
}

// observe stores the size of the bucket and its level after the request, by the headers.
// Responses arrive late and in any order: of several the lowest level counts. A level that is
// too low corrects itself, since the bucket fills by its rate.
//
// If the API's bucket is not the configured one, that is logged once. An endpoint may have a
// bucket of its own, of an unknown rate: its level is ignored, its 429s are not.
//
// observe reports whether a 429 may be of the tenant's bucket. It is not if the headers name
// another one, or none although those of successes do: something before the API has refused.
func (l *Limiter) observe(ctx context.Context, operation string, status int, header http.Header) (ofTenant bool) {
	holds, ok := count(header, "X-Ratelimit-Limit")
	left, found := count(header, "X-Ratelimit-Remaining")
	if !ok || !found {
		holds, left = 0, 0
	}
	burst, limited, now := int64(l.cfg.Limit.Burst), !l.rate.IsUnlimited(), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case limited && holds == burst:
		const partial = 1 // a permit that is available in part is not reported
		missing := time.Duration(max(holds-left-partial, 0)*l.api.Interval) * time.Microsecond
		l.seen.full = later(l.seen.full, now.Add(missing))
		if left == 0 {
			l.seen.empty = now
		}
	case limited && holds != 0 && !l.seen.warned:
		l.seen.warned = true
		l.cfg.Logger.WarnContext(ctx, "burst differs from the API's x-ratelimit-limit: x-ratelimit-remaining is ignored",
			"burst", l.cfg.Limit.Burst, "x_ratelimit_limit", holds)
	}
	if status >= 200 && status < 300 {
		l.seen.limits[operation] = holds
	}
	var tenants, same, another bool // named by a success: the tenant's bucket; of another operation the same; another one
	for of, limit := range l.seen.limits {
		tenants = tenants || limit == burst
		same = same || of != operation && limit == holds
		another = another || limit != holds
	}
	switch {
	case !limited:
		return left == 0 && !another
	case now.Sub(l.seen.empty) < time.Second: // longer than answers are late
		return true
	case holds == 0:
		return !tenants
	case holds == burst:
		return false
	}
	return same && !another // then burst is set wrong
}

// count reads a header with a number of requests.
func count(header http.Header, name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(header.Get(name)), 10, 64)
	return n, err == nil && n >= 0 && n <= maxBurst
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
