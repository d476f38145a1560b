package pace

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// seen is what answers have told of the API's bucket since Redis was last asked:
// the next one who asks for a permit takes it there, so that to learn costs no
// step of its own.
type seen struct {
	// full is when the bucket will be full again, if nobody takes from it.
	full time.Time
	// told says that another bucket than the one that was set was told of.
	told bool
}

// observe keeps what the headers tell of the bucket: how much it holds, and how
// much was in it after the request. Answers come late and in any order; of several
// the one that leaves the least counts, and until it is full again the bucket
// gains what it does. What is believed too low is put right by that alone.
//
// If the API's bucket is not the one that was set, that is logged once. An endpoint may have
// one of its own, of which the rate is not known: nothing is learned from it but by its 429s.
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
		const begun = 1 // the permit that is there in part is not told
		missing := time.Duration(max(holds-left-begun, 0)*l.api.interval) * time.Microsecond
		l.seen.full = later(l.seen.full, time.Now().Add(missing))
	case !l.seen.told:
		l.seen.told = true
		l.cfg.Logger.WarnContext(ctx, "burst differs from the API's x-ratelimit-limit: x-ratelimit-remaining is ignored", "burst", l.cfg.Limit.Burst, "x_ratelimit_limit", holds)
	}
}

// count reads a header that is a number of requests.
func count(header http.Header, name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(header.Get(name)), 10, 64)
	return n, err == nil && n >= 0 && n <= maxBurst
}
