package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/miekg/dns"
)

// Examination is the result of a few test queries to a resolver.
type Examination struct {
	Name        string
	Operator    string // as returned by Operators
	Perspective string // "default" if the resolver names none
	Transport   string // that of the Resolver
	InTheClear  bool   // an attacker on the path can forge its answers
	Err         error  // it does not answer for the root; nothing else is known then
	TCP         error  // it does not answer over TCP, if it is queried over UDP
	EDNS        bool   // it supports EDNS
	Validates   bool   // it authenticates the root's records (AD)
	Lies        string // its answer for a name that does not exist; empty: it denies the name
}

// Outward is the result of test queries to one of the root's name servers.
type Outward struct {
	Server   string // the one that was queried; empty: none
	Err      error  // none could be queried, or the answer is not a name server's
	UDP, TCP error  // no answer over it
	IPv6     error  // no answer over UDP at its IPv6 address
}

// Examine sends test queries to each resolver and, unless the mode is ModeResolvers, to one
// of the root's name servers.
func (c *Checker) Examine(ctx context.Context) ([]Examination, Outward) {
	found := make([]Examination, len(c.resolvers))
	var tests sync.WaitGroup
	for i, r := range c.resolvers {
		tests.Go(func() { found[i] = r.examine(ctx) })
	}
	var out Outward
	if c.authority != nil {
		tests.Go(func() { out = c.authority.examine(ctx) })
	}
	tests.Wait()
	return found, out
}

func (c resolverClient) examine(ctx context.Context) Examination {
	e := Examination{
		Name: c.resolver.Name, Operator: c.operator, Perspective: c.resolver.perspective(),
		Transport: c.resolver.Transport, InTheClear: c.resolver.InTheClear(),
	}
	var tests sync.WaitGroup
	tests.Go(func() {
		r, _, err := c.query(ctx, c.resolver.Transport, rootServers)
		if err == nil && r.rcode != dns.RcodeSuccess {
			err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
		}
		e.Err, e.Validates, e.EDNS = err, r.authenticated, len(recordsOf[*dns.OPT](r.additional)) > 0
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
	case refused || refersElsewhere(r) && len(r.answer) == 0:
	case len(r.answer) > 0:
		return fmt.Sprintf("it has %d records for a name that does not exist", len(r.answer))
	case r.rcode == dns.RcodeSuccess:
		return "it says that a name exists which does not"
	}
	return ""
}

// examine queries one of the root's name servers, found by the resolvers.
func (a *authority) examine(ctx context.Context) Outward {
	names, _, err := a.agreed(ctx, ".", dns.TypeNS)
	if err != nil {
		return Outward{Err: fmt.Errorf("the root's name servers: %w", err)}
	}
	const most = 3
	var addrs []string
	for _, name := range names[:min(len(names), most)] {
		if addrs, _, err = a.agreed(ctx, dns.Fqdn(name), dns.TypeA); err == nil {
			out := a.examineRoot(ctx, name, addrs[0])
			if addrs, _, err = a.agreed(ctx, dns.Fqdn(name), dns.TypeAAAA); err == nil {
				six := a.examineRoot(ctx, name, addrs[0])
				out.IPv6 = cmp.Or(six.Err, six.UDP)
			}
			return out
		}
	}
	return Outward{Err: fmt.Errorf("the addresses of the root's name servers: %w", err)}
}

func (a *authority) examineRoot(ctx context.Context, name, address string) Outward {
	addr, err := netip.ParseAddr(address)
	if err == nil && !a.anyAddress && !IsPublic(addr) {
		err = fmt.Errorf("the resolvers say that %s, a name server of the root, is at %s, which is not a public address",
			shownHost(name), address)
	}
	if err != nil {
		return Outward{Err: err}
	}
	to := Resolver{Addr: netip.AddrPortFrom(addr, a.port)}
	out := Outward{Server: fmt.Sprintf("%s (%s)", shownHost(name), to.Addr)}
	q := rootServers
	q.nonRecursive = true
	var tests sync.WaitGroup
	var byUDP reply
	tests.Go(func() { byUDP, out.UDP = a.exchange.attempt(ctx, to, transportUDP, q) })
	tests.Go(func() { _, out.TCP = a.exchange.attempt(ctx, to, transportTCP, q) })
	tests.Wait()
	if out.UDP == nil && !byUDP.authoritative && !byUDP.truncated {
		out.Err = errors.New("another server answers in its place: port 53 is redirected on the way")
	}
	return out
}
