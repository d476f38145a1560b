package dnscheck

import (
	"context"
	"fmt"
	"sync"

	"github.com/miekg/dns"
)

// Examination is the result of a few test queries to a resolver.
type Examination struct {
	Name        string
	Operator    string // as returned by Operators
	Perspective string // "default" if the resolver names none
	Transport   string // that of the Resolver
	Err         error  // it does not answer for the root; nothing else is known then
	TCP         error  // it does not answer over TCP, if it is queried over UDP
	EDNS        bool   // it supports EDNS
	Validates   bool   // it authenticates the root's records (AD)
	Lies        string // its answer for a name that does not exist; empty: it denies the name
}

// Examine sends test queries to each resolver.
func (c *Checker) Examine(ctx context.Context) []Examination {
	found := make([]Examination, len(c.resolvers))
	var tests sync.WaitGroup
	for i, r := range c.resolvers {
		tests.Go(func() { found[i] = r.examine(ctx) })
	}
	tests.Wait()
	return found
}

func (c resolverClient) examine(ctx context.Context) Examination {
	e := Examination{
		Name: c.resolver.Name, Operator: c.operator, Perspective: c.resolver.perspective(),
		Transport: c.resolver.Transport,
	}
	var tests sync.WaitGroup
	tests.Go(func() {
		r, _, err := c.query(ctx, c.resolver.Transport, rootServers)
		if err == nil && r.rcode != dns.RcodeSuccess {
			err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
		}
		e.Err = err
		e.Validates = r.authenticated
		e.EDNS = len(recordsOf[*dns.OPT](r.additional)) > 0
	})
	if c.resolver.Transport == transportUDP {
		tests.Go(func() { _, e.TCP = c.exchange.attempt(ctx, c.resolver, transportTCP, rootServers) })
	}
	tests.Go(func() {
		// There is no such top-level domain. Some resolvers make up addresses only.
		for _, kind := range []uint16{dns.TypeTXT, dns.TypeA} {
			if r, _, err := c.query(ctx, c.resolver.Transport,
				query{name: randomLabel() + "." + randomLabel() + ".", kind: kind}); err == nil {
				if e.Lies = fabricationIn(r); e.Lies != "" {
					e.Lies += fmt.Sprintf(" (%s)", dns.Type(kind))
					return
				}
			}
		}
	})
	tests.Wait()
	return e
}

// fabricationIn describes the answer for a name that does not exist; empty: the reply denies it, or
// is not an answer of the zone.
func fabricationIn(r reply) string {
	_, refused := notZones(r)
	switch {
	case refused || (refersElsewhere(r) && len(r.answer) == 0):
	case len(r.answer) > 0:
		return fmt.Sprintf("it has %d records for a name that does not exist", len(r.answer))
	case r.rcode == dns.RcodeSuccess:
		return "it says that a name exists which does not"
	}
	return ""
}
