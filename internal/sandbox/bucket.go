package sandbox

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// bucket is a token bucket of at most size permits, which gains rate permits per second. A
// refused request takes none.
type bucket struct {
	rate, size float64

	mu      sync.Mutex
	permits float64
	at      time.Time // when permits was computed
}

// slack tolerates the rounding of permits that are gained in fractions.
const slack = 1e-6

func newBucket(rate float64, burst int, now time.Time) *bucket {
	size := float64(burst)
	if burst == 0 {
		size = max(1, math.Floor(rate))
	}
	return &bucket{rate: rate, size: size, permits: size, at: now}
}

// take takes a permit if there is one, and returns the service's headers for the state
// after that.
func (b *bucket) take(now time.Time) (bool, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); passed > 0 {
		b.permits = min(b.size, b.permits+passed.Seconds()*b.rate)
		b.at = now
	}
	ok := b.permits >= 1-slack
	if ok {
		b.permits = max(0, b.permits-1)
	}
	h := http.Header{}
	h.Set("X-Ratelimit-Limit", strconv.Itoa(int(b.size)))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(int(b.permits+slack)))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(b.reset(now), 10))
	return ok, h
}

// reset returns the Unix second, rounded up, of the next whole permit.
func (b *bucket) reset(now time.Time) int64 {
	missing := math.Floor(b.permits+slack) + 1 - b.permits
	if b.permits >= b.size {
		missing = 0
	}
	// Whole nanoseconds are counted, since a float's seconds since 1970 are too coarse.
	at := now.Add(time.Duration(missing / b.rate * float64(time.Second)))
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}
