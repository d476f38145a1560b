package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Examination is what a resolver was found to be like.
type Examination struct {
	Name        string
	Operator    string // who runs it, as Operators has it
	Perspective string // its name, "default" where the resolver names none
	Transport   string // that of the Resolver
	InTheClear  bool   // its answers can be forged on the way
	Err         error  // it does not answer for the root, and why; then nothing else is known
	TCP         error  // it does not answer over TCP, where it is asked over UDP
	EDNS        bool   // it speaks EDNS
	Validates   bool   // it says that it has checked the root's signature (AD)
	Lies        string // what it makes up for a name that does not exist; empty: nothing
	Canary      error  // what keeps it from saying that a name in the canary zone does not exist; nil without a zone
}

// Outward is how name servers can be reached from here, by one of the root's.
type Outward struct {
	Server   string // that was asked; empty: none was
	Err      error  // why none could be asked, or why the answer is not a name server's
	UDP, TCP error  // why there is no answer by them
}

// Examine asks each resolver a few questions and, unless the resolvers alone are asked for verdicts, one of the root's name
// servers. Nothing of it is remembered.
func (c *Checker) Examine(ctx context.Context) ([]Examination, Outward) {
	found := make([]Examination, len(c.resolvers))
	var asking sync.WaitGroup
	for i, v := range c.resolvers {
		asking.Go(func() { found[i] = v.examine(ctx) })
	}
	var out Outward
	if c.authority != nil {
		asking.Go(func() { out = c.authority.outward(ctx) })
	}
	asking.Wait()
	return found, out
}

var rootServers = query{name: ".", kind: dns.TypeNS}

func (v recursive) examine(ctx context.Context) Examination {
	e := Examination{Name: v.resolver.Name, Operator: v.operator, Perspective: v.resolver.perspective(), Transport: v.resolver.Transport, InTheClear: v.resolver.InTheClear()}
	var asking sync.WaitGroup
	asking.Go(func() {
		r, _, err := v.exchange.askFor(ctx, v.resolver, v.resolver.Transport, rootServers)
		if err == nil && r.rcode != dns.RcodeSuccess {
			err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
		}
		isOPT := func(record dns.RR) bool { return record.Header().Rrtype == dns.TypeOPT }
		e.Err, e.Validates, e.EDNS = err, r.authenticated, slices.ContainsFunc(r.additional, isOPT)
	})
	if v.resolver.Transport == transportUDP {
		asking.Go(func() { _, e.TCP = v.exchange.attempt(ctx, v.resolver, transportTCP, rootServers) })
	}
	asking.Go(func() {
		// No top-level domain is called so. Who rewrites what does not exist often does so for addresses alone.
		for _, kind := range []uint16{dns.TypeTXT, dns.TypeA} {
			if lies, err := v.denies(ctx, canaryName()+"."+canaryName()+".", kind); err == nil && lies != "" {
				e.Lies = fmt.Sprintf("%s (%s)", strings.TrimSuffix(lies, wildcardHint), dns.Type(kind))
				return
			}
		}
	})
	if v.canary != nil {
		asking.Go(func() {
			lies, err := v.denies(ctx, canaryName()+"."+v.canary.zone, dns.TypeTXT)
			if err == nil && lies != "" {
				err = errors.New(lies)
			}
			e.Canary = err
		})
	}
	asking.Wait()
	return e
}

// denies tells what the resolver makes up for a name that does not exist; empty: it says so.
func (v recursive) denies(ctx context.Context, name string, kind uint16) (lies string, err error) {
	r, _, err := v.exchange.askFor(ctx, v.resolver, v.resolver.Transport, query{name: name, kind: kind})
	if err != nil {
		return "", err
	}
	return madeUp(r)
}

// outward asks one of the root's name servers, as the resolvers name them.
func (a *authority) outward(ctx context.Context) Outward {
	names, _, err := a.agreed(ctx, ".", dns.TypeNS)
	if err != nil {
		return Outward{Err: fmt.Errorf("the root's name servers: %w", err)}
	}
	var addrs []string
	for _, name := range names[:min(len(names), maxTold)] {
		if addrs, _, err = a.agreed(ctx, dns.Fqdn(name), dns.TypeA); err == nil {
			return a.askRoot(ctx, name, addrs[0])
		}
	}
	return Outward{Err: fmt.Errorf("the addresses of the root's name servers: %w", err)}
}

func (a *authority) askRoot(ctx context.Context, name, address string) Outward {
	addr, err := netip.ParseAddr(address)
	if err == nil && !a.anyAddress && !IsPublic(addr) {
		err = fmt.Errorf("the resolvers say that %s, a name server of the root, is at %s, which is not a public address", shownHost(name), address)
	}
	if err != nil {
		return Outward{Err: err}
	}
	to := Resolver{Addr: netip.AddrPortFrom(addr, a.port)}
	out := Outward{Server: fmt.Sprintf("%s (%s)", shownHost(name), to.Addr)}
	straight := query{name: ".", kind: dns.TypeNS, straight: true}
	var asking sync.WaitGroup
	var byUDP reply
	asking.Go(func() { byUDP, out.UDP = a.exchange.attempt(ctx, to, transportUDP, straight) })
	asking.Go(func() { _, out.TCP = a.exchange.attempt(ctx, to, transportTCP, straight) })
	asking.Wait()
	if out.UDP == nil && !byUDP.authoritative && !byUDP.truncated {
		out.Err = errors.New("another server answers in its place: port 53 is redirected on the way")
	}
	return out
}
