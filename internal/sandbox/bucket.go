package sandbox

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// bucket is the tenant's limit of requests. A refused request takes no permit.
type bucket struct{ *rate.Limiter }

// slack tolerates the rounding of permits that are gained in fractions.
const slack = 1e-6

func newBucket(perSecond float64, burst int) *bucket {
	if burst == 0 {
		burst = max(1, int(perSecond))
	}
	return &bucket{rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// take takes a permit if there is one, and returns the service's headers for the state
// after that.
func (b *bucket) take(now time.Time) (bool, http.Header) {
	ok := b.AllowN(now, 1)
	permits := max(0, b.TokensAt(now))
	h := http.Header{}
	h.Set("X-Ratelimit-Limit", strconv.Itoa(b.Burst()))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(int(permits+slack)))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(b.reset(now, permits), 10))
	return ok, h
}

// reset returns the Unix second, rounded up, of the next whole permit.
func (b *bucket) reset(now time.Time, permits float64) int64 {
	missing := math.Floor(permits+slack) + 1 - permits
	if permits >= float64(b.Burst()) {
		missing = 0
	}
	// Whole nanoseconds are counted, since a float's seconds since 1970 are too coarse.
	at := now.Add(time.Duration(missing / float64(b.Limit()) * float64(time.Second)))
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}
