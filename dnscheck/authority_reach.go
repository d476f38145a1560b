package dnscheck

import (
	"sync"
	"time"
)

const (
	// reachedLately is how long an answer from any name server shows that port 53 is open outwards: when the servers of one
	// top-level domain are silent within that time, it is they.
	reachedLately = 10 * time.Minute
	// closedFor is how long nobody tries after the servers of a top-level domain, anycast by the dozen, were all silent. A look
	// that tries waits seconds for nothing; a rule that was changed in a firewall counts five minutes later.
	closedFor = 5 * time.Minute
	// reachedOnce is how long after an answer from any name server it is not believed, where it is to be acted upon, that none can be
	// reached: then something has broken down since, and is likely to be put right.
	reachedOnce = 24 * time.Hour
)

// reach knows whether name servers can be reached from here at all: many networks let DNS out to their own resolvers only.
// The zero value does not know yet, and lets look.
type reach struct {
	told func(reached bool, why string)

	mu      sync.Mutex
	reached time.Time // when a name server last answered
	closed  time.Time // nobody shall try before; zero: they may
	first   time.Time // when a top-level domain's servers were found silent since then for the first time,
	last    time.Time // and for the last
	why     string
	news    *bool // what was told last; nil: nothing
}

// shut says why nobody shall try now; empty: go ahead. Once the time of waiting is over one tries, and the others go on waiting
// for as long as that can take.
func (r *reach) shut(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.IsZero() {
		return ""
	}
	if now.Before(r.closed) {
		return r.why
	}
	r.closed = now.Add(authorityTime)
	return ""
}

// isSurelyShut tells whether a disproof believes that no name server can be reached from here: none has answered within a day,
// and those of top-level domains were silent on tries as far apart as tries are made, so that it is no breakdown of theirs.
func (r *reach) isSurelyShut(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lately := !r.reached.IsZero() && now.Sub(r.reached) < reachedOnce
	return !r.closed.IsZero() && !lately && r.last.Sub(r.first) >= closedFor
}

// blame says why name servers are out of reach; empty where they are not.
func (r *reach) blame() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// opened notes that a name server has answered as one.
func (r *reach) opened(now time.Time) {
	r.mu.Lock()
	r.reached, r.closed, r.first, r.last = now, time.Time{}, time.Time{}, time.Time{}
	r.unlock(true, "")
}

// silent notes that none of a top-level domain's servers has answered as one, and reports whether port 53 is taken to be closed.
func (r *reach) silent(now time.Time, why string) bool {
	r.mu.Lock()
	if !r.reached.IsZero() && now.Sub(r.reached) < reachedLately {
		r.mu.Unlock()
		return false
	}
	if r.first.IsZero() {
		r.first = now
	}
	r.last, r.closed = now, now.Add(closedFor)
	r.unlock(false, why)
	return true
}

// unlock unlocks, and tells of a change.
func (r *reach) unlock(reached bool, why string) {
	changed := r.news == nil || *r.news != reached
	r.why, r.news = why, &reached
	r.mu.Unlock()
	if changed && r.told != nil {
		r.told(reached, why)
	}
}
