package webhooks

import (
	"net/http"
	"sync"
	"time"
)

// Bounds of a rest.
const (
	// restAfter is how many attempts in a row fail before a receiver rests: one that fails now and
	// then gets all of its events at full speed.
	restAfter   = 5
	firstRest   = 5 * time.Second
	longestRest = time.Minute
)

// rest spares a receiver that does not answer, or is overloaded, so that several attempts in a row
// failed. It gets one attempt at a time then, after pauses that double, and the first success ends
// the rest. The zero value is for a receiver that answers.
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
	if r.failed < restAfter {
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
		r.failed = 0
		r.until = time.Time{}
		return
	}
	if time.Now().Before(r.until) {
		return // one of several that were in progress together
	}
	r.failed++
	if r.failed < restAfter {
		return
	}
	pause := min(firstRest<<min(r.failed-restAfter, 10), longestRest)
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
