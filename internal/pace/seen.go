package pace

import (
	"context"
	"encoding/json"
	"maps"
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
func (l *Limiter) observe(ctx context.Context, operation string, status int, header http.Header) {
	holds, left := bucketOf(header)
	burst := int64(l.cfg.Limit.Burst)
	limited := !l.rate.IsUnlimited()
	now := time.Now()
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
}

// refusal has the facts about the limit by which the API has refused a request with a 429.
type refusal struct {
	operation string
	limited   bool             // the tenant has a rate, with a bucket of that size
	burst     int64            // the size of the tenant's bucket
	size      int64            // of the bucket that the answer names; 0: it names none
	left      int64            // permits in that bucket
	emptied   bool             // a response of the last second has found the tenant's bucket empty
	spent     bool             // the tenant's bucket has no permit left, as far as the fleet knows
	sizes     map[string]int64 // of the buckets that the last success of each operation has named; 0: none
}

// ofTenant reports whether the limit is the tenant's, whose requests are all paused then. Otherwise
// it is one of the operation, which is paused alone. Other operations continue; if the tenant's
// limit refuses one of their requests, that pauses all. A 429 does not say whose limit it is, and
// the headers of endpoints differ. The first line that is true:
//
//	tenant     a response of the last second has found the tenant's bucket empty
//	tenant     the fleet has taken all permits of the tenant's bucket
//	operation  the answer names no bucket, and a success has named the tenant's: something before
//	           the API has refused
//	tenant     the answer names no bucket
//	operation  the answer names the tenant's bucket, which has permits left
//	operation  a success has named another bucket than the answer, or none
//	tenant     a success of another operation has named the same one: burst is set wrong
//	operation  otherwise
//
// Without a rate nothing is known of the tenant's bucket:
//
//	operation  the bucket that the answer names has permits left
//	operation  a success has named another bucket than the answer, or none
//	tenant     otherwise
func (r refusal) ofTenant() bool {
	// What successes have named.
	var tenants, same, another bool
	for operation, size := range r.sizes {
		tenants = tenants || size == r.burst
		same = same || (operation != r.operation && size == r.size)
		another = another || size != r.size
	}

	switch {
	case !r.limited:
		return r.left == 0 && !another
	case r.emptied, r.spent:
		return true
	case r.size == 0:
		return !tenants
	case r.size == r.burst:
		return false
	}
	return same && !another
}

// refusal returns the facts about the limit that has refused a request of the operation. If Redis
// does not answer, the tenant's permits are taken for spent.
func (l *Limiter) refusal(ctx context.Context, operation string, header http.Header) refusal {
	r := refusal{operation: operation, limited: !l.rate.IsUnlimited(), burst: int64(l.cfg.Limit.Burst)}
	r.size, r.left = bucketOf(header)
	l.mu.Lock()
	r.emptied = time.Since(l.seen.empty) < time.Second // longer than answers are late
	r.sizes = maps.Clone(l.seen.limits)
	l.mu.Unlock()
	if !r.limited {
		return r
	}
	own, cancel := l.detached(ctx)
	defer cancel()
	asks, _ := l.asks(operation)
	asks.Holds = l.cfg.Limit.Burst
	about, _ := json.Marshal(asks)
	spent, err := spentScript.Run(own, l.cfg.Redis, []string{l.key}, about).Bool()
	r.spent = spent || err != nil
	return r
}

// bucketOf returns the size of the bucket that an answer names, and its level after the request; 0:
// it names none.
func bucketOf(header http.Header) (size, left int64) {
	size, ok := count(header, "X-Ratelimit-Limit")
	left, found := count(header, "X-Ratelimit-Remaining")
	if !ok || !found {
		return 0, 0
	}
	return size, left
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
