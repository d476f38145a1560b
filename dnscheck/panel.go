package dnscheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// lookupTime is the resolvers' time to find the name servers of a top-level domain, or the
	// addresses of its servers: well under authorityTime, so that a name without an answer
	// does not use up the time of the others.
	lookupTime = 2 * time.Second
	// notFoundTTL caches that a name server has no addresses. A dead one is often named by
	// thousands of zones.
	notFoundTTL = 30 * time.Second
)

var (
	// errNoQuorum: no quorum of the resolvers gives the same answer.
	errNoQuorum = errors.New("no quorum of the resolvers gives an answer")
	// errNone: a quorum of the resolvers says that there are no records.
	errNone = errors.New("there are none")
)

// panel are the resolvers, of which a quorum has to agree.
type panel struct {
	resolvers []resolverClient
	quorum    int
	span      bool // over two perspectives
}

// agreed queries all resolvers for the records of a name, and returns the values that a quorum
// of them has, as soon as there are any: one resolver that lies must not choose a zone's name
// servers. With errNone the duration is the shortest negative TTL.
func (p panel) agreed(ctx context.Context, name string, kind uint16) ([]string, time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	var queries sync.WaitGroup
	defer queries.Wait()
	defer cancel()
	ballots := make(chan ballot, len(p.resolvers))
	for _, r := range p.resolvers {
		queries.Go(func() { ballots <- r.values(limited, name, kind) })
	}
	of := make(map[string]votes)
	var empty votes
	ttl, emptyTTL := longestTTL, longestTTL
	for range p.resolvers {
		b := <-ballots
		if b.valid && len(b.values) == 0 {
			empty.add(b.by.perspective())
			emptyTTL = min(emptyTTL, b.ttl)
		}
		for _, value := range b.values {
			v := of[value]
			v.add(b.by.perspective())
			of[value] = v
			ttl = min(ttl, b.ttl)
		}
		var winners []string
		for value, v := range of {
			if p.enough(v) {
				winners = append(winners, value)
			}
		}
		if len(winners) > 0 {
			slices.Sort(winners)
			return winners, ttl, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, 0, errors.Join(errAbandoned, ctx.Err())
	case p.enough(empty):
		return nil, emptyTTL, errNone
	}
	return nil, 0, errNoQuorum
}

func (p panel) enough(v votes) bool { return v.count >= p.quorum && (!p.span || v.several) }

// ballot is one resolver's answer for a name, each value once.
type ballot struct {
	by     Resolver
	values []string
	ttl    time.Duration // of the values, or the negative TTL
	valid  bool          // the resolver has answered
}

func (c resolverClient) values(ctx context.Context, name string, kind uint16) ballot {
	m, _, err := c.query(ctx, c.resolver.Transport, query{name: name, kind: kind})
	if err != nil || !m.isAnswer() {
		return ballot{}
	}
	b := ballot{by: c.resolver, valid: true, ttl: longestTTL}
	for _, record := range m.answer {
		if !isAt(record, name) || record.Header().Rrtype != kind {
			continue
		}
		if value := valueOf(record); value != "" && !slices.Contains(b.values, value) {
			b.values = append(b.values, value)
			b.ttl = min(b.ttl, seconds(record.Header().Ttl))
		}
	}
	if len(b.values) == 0 {
		b.ttl = negativeTTL(m.authority, name)
	}
	return b
}

func valueOf(record dns.RR) string {
	if ns, ok := record.(*dns.NS); ok {
		return strings.TrimPrefix(canonical(ns.Ns), ".") // the root is no name server
	}
	if addr, ok := addressIn(record); ok {
		return addr.String()
	}
	return ""
}
