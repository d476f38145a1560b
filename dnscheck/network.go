package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// Network is what test queries show of the way from here to the name servers of all zones. It
// chooses sentences, alerts and the reason of a verdict that is Unknown anyway. It never chooses a
// verdict, nor which servers a verdict asks.
type Network struct {
	Port53 Port53
	IPv6   IPv6
	Why    string // what the servers answered that decide Port53, for an operator; empty: open
	NoIPv6 string // likewise for IPv6
}

// Port53 is the state of UDP and TCP to port 53 outwards.
type Port53 string

// The states of port 53. The zero value is not known: no test query could be sent.
const (
	Port53Open       Port53 = "open"       // name servers answer over UDP and TCP
	Port53Closed     Port53 = "closed"     // none answers
	Port53Redirected Port53 = "redirected" // another server answers in the place of all of them
	Port53NoTCP      Port53 = "no_tcp"     // they answer over UDP only
	Port53NoUDP      Port53 = "no_udp"     // they answer over TCP only
)

// IPv6 is the state of the way to name servers over IPv6.
type IPv6 string

// The states of IPv6. The zero value is not known: no name server answers over IPv4 either, or
// none has an IPv6 address.
const (
	IPv6Open   IPv6 = "open"
	IPv6None   IPv6 = "none"   // the machine has no route
	IPv6Silent IPv6 = "silent" // there is a route, and nothing answers: packets are dropped on the way
)

// probedZones are the root and two top-level domains of different operators: the failure of one is
// no fault of our network.
var probedZones = []string{".", "com.", "org."}

// probedServers is how many servers of each of them are queried. A dead one has a neighbour.
const probedServers = 2

// probe is one test query, and its result.
type probe struct {
	server    string
	to        netip.AddrPort
	transport string
	own       bool // the server itself answered
	other     bool // another server did
	err       error
}

// ProbeNetwork sends test queries to name servers of the root and of two top-level domains, whose
// addresses are what a quorum of the resolvers says. In ModeResolvers it sends none.
func (c *Checker) ProbeNetwork(ctx context.Context) Network {
	if c.authority == nil {
		return Network{}
	}
	var mu sync.Mutex
	var all []probe
	var zones sync.WaitGroup
	for _, zone := range probedZones {
		zones.Go(func() {
			found := c.authority.probeZone(ctx, zone)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
		})
	}
	zones.Wait()
	if ctx.Err() != nil {
		return Network{}
	}
	return readProbes(all)
}

// probeZone queries servers of a zone for its SOA record, at an address of each family.
func (a *authority) probeZone(ctx context.Context, zone string) []probe {
	// Without the names no query can be sent, and the zone says nothing about the network. The choice
	// of servers is random, so that it does not meet the same dead ones each time.
	names, _, err := a.agreed(ctx, zone, dns.TypeNS)
	if err != nil {
		return nil
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })

	// All queries are sent at once: where packets are dropped, each of them lasts until its timeout.
	// An address that may not be queried for a domain is not queried here either.
	var mu sync.Mutex
	var all []probe
	var queries sync.WaitGroup
	for _, name := range names[:min(len(names), probedServers)] {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
			queries.Go(func() {
				addrs, _, err := a.agreed(ctx, dns.Fqdn(name), kind)
				if err != nil {
					return
				}
				addr := netip.MustParseAddr(addrs[0]) // formatted by valueOf
				if !a.anyAddress && !IsPublic(addr) {
					return
				}
				for _, transport := range []string{transportUDP, transportTCP} {
					queries.Go(func() {
						p := a.probeServer(ctx, zone, name, netip.AddrPortFrom(addr, a.port), transport)
						mu.Lock()
						defer mu.Unlock()
						all = append(all, p)
					})
				}
			})
		}
	}
	queries.Wait()
	return all
}

// probeServer sends one query. A server of the zone answers with authority (AA), and offers no
// recursion (RA). The resolver to which a network redirects port 53 does neither.
func (a *authority) probeServer(ctx context.Context, zone, name string, to netip.AddrPort, transport string) probe {
	p := probe{server: dnsname.Shown(dnsname.Unrooted(name)), to: to, transport: transport}
	r, err := a.exchange.attempt(ctx, Resolver{Addr: to}, transport,
		query{name: zone, kind: dns.TypeSOA, nonRecursive: true})
	switch {
	case err != nil:
		p.err = err
	case r.rcode == dns.RcodeSuccess && r.authoritative && !r.recursion:
		p.own = true
	default:
		p.other = true
		p.err = fmt.Errorf("another server answers in its place (%s, AA %t, RA %t)", r.rcodeName(), r.authoritative, r.recursion)
	}
	return p
}

// readProbes returns what the results show. One server that answers itself is enough to call a way
// open; all of those that were queried must fail for any other state.
func readProbes(all []probe) (n Network) {
	if len(all) == 0 {
		return Network{}
	}
	some := func(is func(probe) bool) bool { return slices.ContainsFunc(all, is) }
	over := func(transport string) (own, other bool) {
		own = some(func(p probe) bool { return p.transport == transport && p.own })
		other = some(func(p probe) bool { return p.transport == transport && p.other })
		return own, other
	}
	byUDP, redirectedUDP := over(transportUDP)
	byTCP, redirectedTCP := over(transportTCP)
	var decides func(probe) bool // the failures that Why tells
	switch {
	case byUDP && byTCP:
		n.Port53 = Port53Open
	case (redirectedUDP && !byUDP) || (redirectedTCP && !byTCP):
		n.Port53 = Port53Redirected
		decides = func(p probe) bool { return p.other }
	case byUDP:
		n.Port53 = Port53NoTCP
		decides = func(p probe) bool { return p.transport == transportTCP }
	case byTCP:
		n.Port53 = Port53NoUDP
		decides = func(p probe) bool { return p.transport == transportUDP }
	default:
		n.Port53 = Port53Closed
		decides = func(p probe) bool { return !isNoIPv6(p) }
	}
	if decides != nil {
		n.Why = failures(all, decides)
	}

	// Over IPv6 nothing is known while nothing answers over IPv4.
	six := func(p probe) bool { return p.to.Addr().Is6() }
	switch {
	case !some(six) || !some(func(p probe) bool { return p.own }):
	case some(func(p probe) bool { return six(p) && p.own }):
		n.IPv6 = IPv6Open
	case some(isNoIPv6):
		n.IPv6 = IPv6None
		n.NoIPv6 = failures(all, isNoIPv6)
	default:
		n.IPv6 = IPv6Silent
		n.NoIPv6 = failures(all, six)
	}
	return n
}

func isNoIPv6(p probe) bool {
	failed, ok := errors.AsType[*exchangeError](p.err)
	return ok && failed.reason == ReasonNoIPv6
}

// failures describes two of the probes that failed, those of IPv4 first.
func failures(all []probe, is func(probe) bool) string {
	const most = 2
	var found []probe
	for _, p := range all {
		if p.err != nil && is(p) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b probe) int {
		if by := a.to.Compare(b.to); by != 0 {
			return by
		}
		return strings.Compare(a.transport, b.transport)
	})
	var texts []string
	for _, p := range found[:min(len(found), most)] {
		texts = append(texts, fmt.Sprintf("%s (%s) over %s: %v", p.server, p.to, strings.ToUpper(p.transport), p.err))
	}
	return strings.Join(texts, "; ") + andMore(len(found)-most)
}

// Problem describes what is wrong with port 53, in one clause; empty: nothing is known to be.
func (n Network) Problem() string {
	switch n.Port53 {
	case Port53Closed:
		return "port 53 is closed: no name server of the root, com or org answers over UDP or TCP"
	case Port53Redirected:
		return "port 53 is redirected: another server answers in the place of the name servers of the root, com and org"
	case Port53NoTCP:
		return "TCP to port 53 is closed: the name servers of the root, com and org answer over UDP only"
	case Port53NoUDP:
		return "UDP to port 53 is closed: the name servers of the root, com and org answer over TCP only"
	}
	return ""
}

// NetworkFault is a fault of the way to name servers.
type NetworkFault struct {
	What string // in one clause
	Text string // the same with its effect, and the answers by which it was found
	Fix  string
	// Severe says that nothing can be proven.
	Severe bool
	// Usual says that many machines have it, which is no matter for a worker that runs there.
	Usual bool
}

// Faults returns the faults of the way, that of port 53 first.
func (n Network) Faults() (all []NetworkFault) {
	port := NetworkFault{What: n.Problem()}
	switch n.Port53 {
	case Port53Closed, Port53Redirected:
		port.Severe = true
		port.Text = fmt.Sprintf("%s. No domain can be proven, and rows wait: %s", port.What, n.Why)
		port.Fix = "let UDP and TCP to port 53 of any address out, or set dns_mode: resolvers (docs/how-to/choose-a-proof.md " +
			"says what that gives up)"
	case Port53NoTCP:
		port.Text = fmt.Sprintf("%s. Long answers are not seen: %s", port.What, n.Why)
		port.Fix = "let TCP to port 53 of any address out"
	case Port53NoUDP:
		port.Text = fmt.Sprintf("%s. Each query waits a second for it: %s", port.What, n.Why)
		port.Fix = "let UDP to port 53 of any address out"
	}
	if port.What != "" {
		all = append(all, port)
	}
	switch n.IPv6 {
	case IPv6None:
		all = append(all, NetworkFault{What: "there is no IPv6", Usual: true,
			Text: "there is no IPv6: domains that need name servers with IPv6 addresses only cannot be proven " +
				"(no_ipv6, or too_few_name_servers): " + n.NoIPv6,
			Fix: "give this machine IPv6, with UDP and TCP to port 53 out"})
	case IPv6Silent:
		const what = "there is an IPv6 route, and no name server answers over it"
		all = append(all, NetworkFault{What: what,
			Text: what + ": checks and proofs wait for those addresses in vain: " + n.NoIPv6,
			Fix:  "let UDP and TCP to port 53 out over IPv6, or take the IPv6 route from this machine"})
	}
	return all
}

// Explain returns the verdict with the reason that lies with our own network, if it is Unknown, no
// name server gave an answer that could be used, and port 53 is closed or redirected. Neither its
// state nor its observations change.
func (n Network) Explain(v Verdict) Verdict {
	reasons := map[Port53]Reason{Port53Closed: ReasonPortClosed, Port53Redirected: ReasonPortRedirected}
	reason, ours := reasons[n.Port53]
	if !ours || v.State != Unknown {
		return v
	}
	asked := false
	for _, o := range v.Observations {
		if !o.Authority {
			continue
		}
		asked = true
		if o.IsServerAnswer() {
			return v
		}
	}
	if asked {
		v.Basis = ByAuthority
		v.Reason = reason
		v.Note = n.Problem() + ": " + n.Why
	}
	return v
}

// IsServerAnswer reports whether a name server has answered with the token, a denial, an alias or a
// referral, as opposed to silence, an error, or the answer of another server in its place.
func (o Observation) IsServerAnswer() bool {
	return o.Authority && (o.State != Unknown || o.Reason == ReasonReferral || o.Reason == ReasonAlias)
}
