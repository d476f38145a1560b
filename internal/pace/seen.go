package pace

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// seen is what answers have told of the API's bucket since Redis was last asked:
// the next one who asks for a permit takes it there, so that to learn costs no
// step of its own.
type seen struct {
	mu sync.Mutex
	// full is when the bucket will be full again, if nobody takes from it.
	full time.Time
	// told says that another bucket than the one that was set was told of.
	told bool
}

// observe keeps what the headers tell of the bucket: how much it holds, and how
// much was in it after the request. Answers come late and in any order; of several
// the one that leaves the least counts, and until it is full again the bucket
// gains what it does. What is believed too low is put right by that alone.
func (l *Limiter) observe(ctx context.Context, header http.Header) {
	holds, ok := count(header, "X-Ratelimit-Limit")
	left, found := count(header, "X-Ratelimit-Remaining")
	if !ok || !found || l.rate.IsUnlimited() {
		return
	}
	if holds != int64(l.burst) {
		l.otherBucket(ctx, holds)
		return
	}
	const begun = 1 // the permit that is there in part is not told
	missing := time.Duration(max(holds-left-begun, 0)*l.api.interval) * time.Microsecond
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	if full := time.Now().Add(missing); full.After(l.seen.full) {
		l.seen.full = full
	}
}

// otherBucket tells once that the API's bucket is not the one that was set. An
// endpoint may have one of its own, of which the rate is not known: from neither
// is anything learned but by its 429s.
func (l *Limiter) otherBucket(ctx context.Context, holds int64) {
	l.seen.mu.Lock()
	told := l.seen.told
	l.seen.told = true
	l.seen.mu.Unlock()
	if !told {
		l.log.WarnContext(ctx, "burst differs from the API's x-ratelimit-limit: x-ratelimit-remaining is ignored", "tenant", l.tenant, "burst", l.burst, "x_ratelimit_limit", holds)
	}
}

// missing is by how much the bucket was seen to be short of full, as the time in
// µs that it takes to fill, and forgets it; -1: nothing was seen.
func (l *Limiter) missing() int64 {
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	short := time.Until(l.seen.full)
	l.seen.full = time.Time{}
	if short <= 0 {
		return -1
	}
	return short.Microseconds()
}

// count reads a header that is a number of requests.
func count(header http.Header, name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(header.Get(name)), 10, 64)
	return n, err == nil && n >= 0 && n <= maxBurst
}
