package web

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Places bound how many requests of one sort are served at a time. Some are reserved for callers
// that have none. Of the others a caller gets another one only while it has fewer than are free, so
// that a few callers cannot have all. Callers that have not signed in cannot be distinguished: they
// share all of them.
type Places struct {
	sort     string
	reserved int
	each     int // the most of one caller; 0: as many as the others leave
	mu       sync.Mutex
	free     int
	of       map[string]int // the places of each caller that has one
}

// NewPlaces returns n places for requests of that sort, a plural such as "uploads". A quarter of
// them is reserved: of 16, one caller gets 6, and five callers 13.
func NewPlaces(sort string, n int) *Places {
	return &Places{sort: sort, reserved: n / 4, free: n, of: map[string]int{}}
}

// NewAmount returns places that callers take many of, such as bytes. None is reserved: a caller
// that has none does not need one, but many.
func NewAmount(sort string, n int) *Places {
	return &Places{sort: sort, free: n, of: map[string]int{}}
}

// Take takes a place for the caller, and returns a function that frees it; or why there is none.
func (p *Places) Take(caller string) (free func(), refused *Refusal) {
	if refused := p.Add(caller, 1); refused != nil {
		return nil, refused
	}
	return sync.OnceFunc(func() { _ = p.Add(caller, -1) }), nil
}

// Add takes n more places for the caller, or frees -n of them.
func (p *Places) Add(caller string, n int) *Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.of[caller]
	switch {
	case p.each > 0 && n > 0 && own+n > p.each:
		return p.full(http.StatusTooManyRequests, fmt.Sprintf("You have %d %s in progress, the most that you may have.",
			own, p.sort))
	case n > 0 && own > 0 && own+n > p.free-p.reserved && caller != string(Anybody):
		return p.full(http.StatusTooManyRequests, fmt.Sprintf("You have %d %s in progress. The %d that are left are for others.",
			own, p.sort, p.free))
	case n > p.free:
		return p.full(http.StatusServiceUnavailable, "The server has reached its limit of "+p.sort+".")
	}
	p.free -= n
	if p.of[caller] += n; p.of[caller] == 0 {
		delete(p.of, caller)
	}
	return nil
}

func (p *Places) full(status int, text string) *Refusal {
	return &Refusal{Status: status, Limit: p.sort, RetryAfter: 5 * time.Second, Text: text + " Try again in a moment."}
}
