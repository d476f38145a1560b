package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// authorityTime bounds the queries to name servers for one verdict: five zones at a
	// second's distance, or two of which half the servers are silent.
	authorityTime = 5 * time.Second
	// disproofTime is the same for a disproof, which waits for each server's timeout: three
	// zones with a silent server each, over both transports, and the way there.
	disproofTime = 10 * time.Second
	// authorityAttempt is the timeout of one name server over one transport: three times the
	// longest way around the earth. TCP makes up for a lost datagram.
	authorityAttempt = time.Second
	// maxReferrals bounds the referrals to one name. Four are many.
	maxReferrals = 12
	// maxQueries bounds the queries to name servers for one verdict, each attempt counted. Eight
	// servers named in a zone of thirteen take 260 with an empty cache, a zone at each of three
	// labels with eight servers at four addresses each some 120.
	maxQueries = 300
	// maxLookups bounds the name servers whose addresses are looked up for one verdict: those of
	// a zone of 16, each in a top-level domain of its own, or of some zones below each other.
	maxLookups = 48
	// maxDepth bounds the zones whose name servers lie in the next one. Two are many.
	maxDepth              = 4
	maxServerObservations = 16 // in a verdict
)

var (
	errSpent = &exchangeError{ReasonDelegation, errors.New("the delegation needs more queries than one check may send")}
	// errTimeUp is the cause of authorityTime, as opposed to the end of the caller's context.
	errTimeUp  = errors.New("the time for querying the name servers is over")
	errTooDeep = &exchangeError{ReasonDelegation, fmt.Errorf("more than %d referrals on the way down", maxReferrals)}
)

// authority queries zones' own name servers, found from the top-level domain down.
type authority struct {
	panel                 // resolves the names of name servers, never the host
	exchange    *exchange // to name servers
	port        uint16
	anyAddress  bool // also non-public addresses
	delegations *cache[delegation]
	// addresses are those of name servers without glue, by the number of zones sought before. A
	// load waits only for those of the next cache, and never for itself.
	addresses [maxDepth]*cache[addresses]
	reach     reachability
}

// addresses are those of a name server. Without any, err is why.
type addresses struct {
	addrs []netip.Addr
	err   error
}

// walk leads from the top-level domain of a name down to the name's zone, and on into the zones of
// aliases: ask queries the servers of a zone, and the caller decides by their answers whether to
// enter the zone below, or to follow an alias.
type walk struct {
	*authority
	token    string
	path     *aliasPath
	limited  *exchange     // within maxQueries
	lookups  *atomic.Int64 // that are left of maxLookups
	operator string        // of the lowest zone on the way to the host, before any alias
	// sought are the zones whose servers need the address that is looked up, each for the one
	// before it. Empty: the question is the host's.
	sought []string

	thorough    bool       // no cache below the top-level domain, and each server is waited for
	zone        delegation // to query next; without a name: the nearest one that is cached, or the top-level domain
	cached      bool       // the walk to this name began at a cached zone
	atTop       bool       // begin at the top-level domain
	polls       int        // on the way to this name
	unreachable bool       // a registry's servers were silent, and no others answered lately
}

func (a *authority) walk(q question) *walk {
	var own, lookups atomic.Int64
	own.Store(maxQueries)
	lookups.Store(maxLookups)
	queries := cmp.Or(q.queries, &own)
	return &walk{
		authority: a, token: q.token, path: newAliasPath(q.host), lookups: &lookups,
		limited: &exchange{dialer: budget{a.exchange.dialer, queries}, timeout: a.exchange.timeout}, thorough: q.thorough,
	}
}

func (w *walk) isLookup() bool { return len(w.sought) > 0 }

// budget is a dialer that opens a connection for each of a number of queries.
type budget struct {
	dialer
	queries *atomic.Int64
}

func (b budget) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if b.queries.Add(-1) < 0 {
		return nil, errSpent
	}
	return b.dialer.DialContext(ctx, network, address)
}

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
