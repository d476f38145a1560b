package webhooks

import (
	"net/http"
	"sync"
	"time"
)

// Bounds of a rest.
const (
	firstRest   = 5 * time.Second
	longestRest = time.Minute
)

// rest spares a receiver that does not answer, or is overloaded. It gets one attempt at a time
// then, after pauses that double. The zero value is for a receiver that answers.
type rest struct {
	mu     sync.Mutex
	failed int       // attempts in a row
	until  time.Time // when the next may begin
	probed bool      // one is in progress
}

// begin returns how long the receiver gets no attempt; 0: one may begin, and the caller must
// call end.
func (r *rest) begin() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == 0 {
		return 0
	}
	if wait := time.Until(r.until); wait > 0 {
		return wait
	}
	if r.probed {
		return firstRest
	}
	r.probed = true
	return 0
}

func (r *rest) end(failure *DeliveryError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = false
	if !wantsRest(failure) {
		r.failed, r.until = 0, time.Time{}
		return
	}
	if time.Now().Before(r.until) {
		return // one of several that were in progress together
	}
	r.failed++
	pause := min(firstRest<<min(r.failed-1, 10), longestRest)
	r.until = time.Now().Add(min(max(pause, failure.RetryAfter), longestRest))
}

// wantsRest reports whether a failure concerns the receiver rather than one event. The scheme
// names the statuses.
func wantsRest(failure *DeliveryError) bool {
	if failure == nil || failure.Permanent {
		return false
	}
	switch failure.Status {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
