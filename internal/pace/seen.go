package pace

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// seen is the state of the API's bucket that responses have shown since the last permit. The
// next request for a permit stores it, so that it costs no command of its own.
type seen struct {
	// full is when the bucket will be full again without further requests.
	full time.Time
	// warned is set once a different bucket than the configured one was logged.
	warned bool
}

// observe stores the size of the bucket and its level after the request, by the headers.
// Responses arrive late and in any order: of several the lowest level counts. A level that is
// too low corrects itself, since the bucket fills by its rate.
//
// If the API's bucket is not the configured one, that is logged once. An endpoint may have a
// bucket of its own, of an unknown rate: its headers are ignored, its 429s are not.
func (l *Limiter) observe(ctx context.Context, header http.Header) {
	holds, ok := count(header, "X-Ratelimit-Limit")
	left, found := count(header, "X-Ratelimit-Remaining")
	if !ok || !found || l.rate.IsUnlimited() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case holds == int64(l.cfg.Limit.Burst):
		const partial = 1 // a permit that is available in part is not reported
		missing := time.Duration(max(holds-left-partial, 0)*l.api.interval) * time.Microsecond
		l.seen.full = later(l.seen.full, time.Now().Add(missing))
	case !l.seen.warned:
		l.seen.warned = true
		l.cfg.Logger.WarnContext(ctx, "burst differs from the API's x-ratelimit-limit: x-ratelimit-remaining is ignored",
			"burst", l.cfg.Limit.Burst, "x_ratelimit_limit", holds)
	}
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
