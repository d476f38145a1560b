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

// rest keeps a receiver that does not answer, or says that it has too much to do,
// from taking the places of all others: a worker delivers few events at a time,
// and a receiver that hangs holds each for its whole time. While the receiver is
// that way, one attempt at a time finds out whether it still is, with rests in
// between that double. Its zero value is that of a receiver that is well.
type rest struct {
	mu     sync.Mutex
	failed int       // attempts in a row
	until  time.Time // when the next may begin
	probed bool      // one is under way
}

// begin says how long to leave the receiver alone; 0: an attempt may begin, and
// end is to be told of it.
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

// end tells what became of an attempt.
func (r *rest) end(failure *DeliveryError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = false
	if !wantsRest(failure) {
		r.failed, r.until = 0, time.Time{}
		return
	}
	if time.Now().Before(r.until) {
		return // one of several that were under way together
	}
	r.failed++
	pause := min(firstRest<<min(r.failed-1, 10), longestRest)
	r.until = time.Now().Add(min(max(pause, failure.RetryAfter), longestRest))
}

// wantsRest tells what says something about the receiver from what says something
// about one event; the scheme names the statuses.
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
