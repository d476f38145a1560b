package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	// maxQueries bounds the queries to name servers for one verdict, each attempt counted:
	// five zones of 8 servers with 4 addresses each (three below each other, and two of an
	// alias), and the registries above them.
	maxQueries = 200
	// maxLookups bounds the name servers whose addresses are resolved for one verdict: those
	// of five zones of 8 servers and of the registries above them, with an empty cache.
	maxLookups            = 48
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
	addresses   *cache[[]netip.Addr]
	reach       reachability
}

// resolution is the way from the top-level domain to the answers for one question.
type resolution struct {
	*authority
	token    string
	path     *aliasPath
	limited  *exchange // within maxQueries
	queries  atomic.Int64
	lookups  atomic.Int64
	operator string // of the lowest zone on the way to the host, before any alias

	proof         bool          // the token, and an alias on the way to it, need a majority of the servers
	disproof      bool          // no cache below the top-level domain, and each server is waited for
	sightings     []Observation // of the token, at servers above a zone that others refer to
	contradiction Reason        // of one server on the way; empty: none
	unreachable   bool          // a registry's servers were silent, and no others answered lately
}

func (a *authority) newResolution(q question) *resolution {
	r := &resolution{
		authority: a, token: q.token, path: newAliasPath(q.host),
		proof: q.purpose == forProof, disproof: q.purpose == forDisproof,
	}
	r.queries.Store(maxQueries)
	r.lookups.Store(maxLookups)
	r.limited = &exchange{dialer: budget{a.exchange.dialer, &r.queries}, timeout: a.exchange.timeout}
	return r
}

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
