package dnscheck

import (
	"sync"
	"time"
)

const (
	// openFor is for how long an answer of any name server shows that port 53 is open: if the
	// servers of one top-level domain are silent within that time, the fault is theirs.
	openFor = 10 * time.Minute
	// closedFor is for how long none is queried after the servers of a top-level domain, which
	// are anycast by the dozen, were all silent. A check that tries waits for seconds. A changed
	// firewall rule takes effect five minutes later.
	closedFor = 5 * time.Minute
	// openForDisproof is for how long after an answer of any name server a disproof does not
	// trust that none can be reached: the cause is a recent failure, likely to be repaired.
	openForDisproof = 24 * time.Hour
)

// reachability records whether name servers can be reached at all: many networks allow DNS to
// their own resolvers only. The zero value does not know yet.
type reachability struct {
	notify func(reached bool, why string)

	mu           sync.Mutex
	lastAnswer   time.Time // of any name server
	closedUntil  time.Time // no query before; zero: open, or not known
	firstSilence time.Time // of a top-level domain's servers since the last answer
	lastSilence  time.Time
	why          string
	notified     *bool // the last notification; nil: none
}

// closed returns why port 53 is taken to be closed; empty: try. After closedFor one caller
// tries, and the others wait for the time of an attempt.
func (r *reachability) closed(now time.Time, attempt time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closedUntil.IsZero() {
		return ""
	}
	if now.Before(r.closedUntil) {
		return r.why
	}
	r.closedUntil = now.Add(attempt)
	return ""
}

// isClosedForSure reports whether a disproof trusts that no name server can be reached: none
// has answered within a day, and two attempts at least closedFor apart failed.
func (r *reachability) isClosedForSure(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	recent := !r.lastAnswer.IsZero() && now.Sub(r.lastAnswer) < openForDisproof
	return !r.closedUntil.IsZero() && !recent && r.lastSilence.Sub(r.firstSilence) >= closedFor
}

// problem returns why name servers cannot be reached; empty: they can.
func (r *reachability) problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

func (r *reachability) answered(now time.Time) {
	r.mu.Lock()
	r.lastAnswer, r.closedUntil, r.firstSilence, r.lastSilence = now, time.Time{}, time.Time{}, time.Time{}
	r.unlockAndNotify(true, "")
}

// silent records that no server of a top-level domain has answered, and reports whether port
// 53 is taken to be closed.
func (r *reachability) silent(now time.Time, why string) bool {
	r.mu.Lock()
	if !r.lastAnswer.IsZero() && now.Sub(r.lastAnswer) < openFor {
		r.mu.Unlock()
		return false
	}
	if r.firstSilence.IsZero() {
		r.firstSilence = now
	}
	r.lastSilence, r.closedUntil = now, now.Add(closedFor)
	r.unlockAndNotify(false, why)
	return true
}

func (r *reachability) unlockAndNotify(reached bool, why string) {
	changed := r.notified == nil || *r.notified != reached
	r.why, r.notified = why, &reached
	r.mu.Unlock()
	if changed && r.notify != nil {
		r.notify(reached, why)
	}
}
