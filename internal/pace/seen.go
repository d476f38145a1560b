package pace

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
