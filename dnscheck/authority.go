package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// checkTime bounds the queries to name servers for a check: five zones at a second's distance,
	// or two of which half the servers are silent.
	checkTime = 5 * time.Second
	// proofTime is the same for a proof and a disproof, which wait for each server's timeout: three
	// zones with a silent server each, over both transports, and the way there.
	proofTime = 10 * time.Second
	// authorityAttempt is the timeout of one name server over one transport: three times the
	// longest way around the earth. TCP makes up for a lost datagram.
	authorityAttempt = time.Second
	// maxReferrals bounds the referrals to one name. Four are many.
	maxReferrals = 12
	// maxQueries bounds the queries to name servers for one verdict, each attempt counted. With an
	// empty cache and thirteen servers at each registry, eight servers named in a zone of thirteen
	// take 13 on the way down, 8 times 13 and 2 times 13 for their addresses, and 32 at four
	// addresses each: 357. Six servers in six top-level domains take 13, 6 times 13 and 2 times 4,
	// and 24: 163. One silent server in each zone adds a third.
	maxQueries = 500
	// maxLookups bounds the name servers whose addresses are looked up for one verdict. Six servers
	// in six top-level domains, none the host's own, take 13 of each of seven registries, and 6: 97.
	// Two such zones below each other take a few more, since the registries are the same.
	maxLookups = 128
	// maxDepth bounds the zones whose name servers lie in the next one. Two are many.
	maxDepth              = 4
	maxServerObservations = 16 // in a verdict
)

var (
	errSpent = &exchangeError{ReasonDelegation, errors.New("the delegation needs more queries than one check may send")}
	// errTimeUp is the cause of checkTime and proofTime, as opposed to the end of the caller's
	// context.
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

	waits    bool       // for each server of a zone that may hold the token: of a proof or a disproof
	thorough bool       // no cache below the top-level domain, and each server is waited for
	zone     delegation // to query next; without a name: the nearest one that is cached, or the top-level domain
	cached   bool       // the walk to this name began at a cached zone
	atTop    bool       // begin at the top-level domain
	polls    int        // on the way to this name
}

func (a *authority) walk(q question) *walk {
	var own, lookups atomic.Int64
	own.Store(maxQueries)
	lookups.Store(maxLookups)
	queries := cmp.Or(q.queries, &own)
	return &walk{
		authority: a, token: q.token, path: newAliasPath(q.host), lookups: &lookups,
		limited: &exchange{dialer: budget{a.exchange.dialer, queries}, timeout: a.exchange.timeout},
		waits:   q.waits, thorough: q.thorough,
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
