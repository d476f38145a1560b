package httpapi

import (
	"net/http"
	"sync"
	"time"
)

// slowRate is the rate from which on no upload is ended for another caller: 256 MB in 17 minutes.
const slowRate = 256 << 10

// arrival is a body that is being read.
type arrival interface {
	// rate returns how many bytes have arrived in a second for which the client was waited for, and
	// how long that was; 0 if nothing more is read.
	rate(now time.Time) (rate float64, waited time.Duration)
	// end ends it with a problem.
	end(why *problem)
}

// arriving are the bodies that are being read, with the functions that free the places of their
// uploads. One that is slow holds its place for long, so if a caller without an upload finds no
// place the slowest body is ended: the reserved places last for a few callers only.
type arriving struct {
	mu  sync.Mutex
	all map[arrival]func()
}

// add adds a body until the function that it returns is called.
func (a *arriving) add(b arrival, free func()) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[arrival]func(){}
	}
	a.all[b] = free
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, b)
	}
}

// endSlowest ends the slowest of the bodies that have been waited for that long, and frees its
// place. It reports whether there was one.
func (a *arriving) endSlowest(least time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var slowest arrival
	lowest := float64(slowRate)
	for b := range a.all {
		rate, waited := b.rate(time.Now())
		if waited > 0 && waited >= least && rate < lowest {
			slowest = b
			lowest = rate
		}
	}
	if slowest == nil {
		return false
	}
	slowest.end(newProblem(http.StatusTooManyRequests, "busy",
		"Other callers need the place of this upload, which was the slowest: %d KiB arrived in a second. "+
			"Repeat it with the same Idempotency-Key, gzipped or over a faster connection.", int(lowest)>>10).
		after(retryAfter).at("upload_rate"))
	a.all[slowest]()
	delete(a.all, slowest)
	return true
}
