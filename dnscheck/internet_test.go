package dnscheck_test

import (
	"context"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// internet is an in-process network for a synctest bubble: servers by address, and a log of
// their queries. Its recursive resolvers know only the records in known. Connections to an
// address without a server are refused.
type internet struct {
	t       *testing.T
	running sync.WaitGroup

	mu      sync.Mutex
	servers map[string]zone // by address without port; nil: never answers
	noIPv6  bool            // there is no route to IPv6 addresses
	noTCP   bool            // over TCP, connections are refused
	known   []dns.RR        // the resolvers' records
	hosted  []dns.RR        // by hosts
	byTCP   map[string]zone // by address: the zone over TCP, where it is another one
	log     []asked
	dialled []string
}

// asked is one query that a server read.
type asked struct {
	address, network, name string
	kind                   uint16
	recursion              bool
}

// bubble runs a subtest in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

var resolverAddrs = []string{"10.9.0.1", "10.9.1.1", "10.9.2.1"} // each of another operator

func newInternet(t *testing.T) *internet {
	n := &internet{t: t, servers: make(map[string]zone)}
	for _, address := range resolverAddrs {
		n.at(address, n.resolver)
	}
	t.Cleanup(n.running.Wait)
	return n
}

func (n *internet) at(address string, z zone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[address] = z
}

// overTCP replaces the zone of a server over TCP.
func (n *internet) overTCP(address string, z zone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byTCP == nil {
		n.byTCP = make(map[string]zone)
	}
	n.byTCP[address] = z
}

// know adds records to the resolvers.
func (n *internet) know(records ...dns.RR) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = append(n.known, records...)
}

// hosts adds the addresses of name servers that lie in zones of their own: each domain has one
// server with its records, and each top-level domain one that refers to it.
func (n *internet) hosts(records ...dns.RR) {
	n.hosted = append(n.hosted, records...)
	zones := make(map[string][]dns.RR)
	for _, record := range n.hosted {
		labels := dns.SplitDomainName(record.Header().Name)
		tld, zone := labels[len(labels)-1], strings.Join(labels[len(labels)-2:], ".")
		for _, origin := range []string{tld, zone} {
			if zones[origin] == nil {
				zones[origin] = []dns.RR{start(origin)}
			}
		}
		if len(zones[zone]) == 1 {
			zones[tld] = append(zones[tld], ns(zone, "dns."+zone), address("dns."+zone, hostAddr(zone)))
		}
		zones[zone] = append(zones[zone], record)
	}
	for origin, records := range zones {
		n.at(hostAddr(origin), zoneOf(records...))
		if dns.CountLabel(origin) == 1 {
			n.know(ns(origin, "dns."+origin), address("dns."+origin, hostAddr(origin)))
		}
	}
}

// hostAddr is the address of a zone's server that hosts has added.
func hostAddr(zone string) string {
	sum := crc32.ChecksumIEEE([]byte(zone))
	return netip.AddrFrom4([4]byte{7, byte(sum), byte(sum >> 8), byte(sum >> 16)}).String()
}

func (n *internet) resolver(q *dns.Msg) *dns.Msg {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := answer(q)
	exists := false
	for _, record := range n.known {
		if dnsname.Same(record.Header().Name, q.Question[0].Name) {
			exists = true
			if record.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, record)
			}
		}
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if labels := dns.SplitDomainName(q.Question[0].Name); len(m.Answer) == 0 && len(labels) > 1 {
		m.Ns = []dns.RR{start(strings.Join(labels[len(labels)-2:], "."))}
	}
	return m
}

func (n *internet) dial(_ context.Context, network, address string) (net.Conn, error) {
	at := netip.MustParseAddrPort(address)
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	serve, there := n.servers[at.Addr().String()]
	if other := n.byTCP[at.Addr().String()]; other != nil && network == "tcp" {
		serve = other
	}
	n.mu.Unlock()
	if n.noIPv6 && at.Addr().Is6() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
	}
	if !there || at.Port() != 53 || n.noTCP && network == "tcp" {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	n.running.Go(func() {
		defer func() { _ = far.Close() }()
		logged := func(q *dns.Msg) *dns.Msg {
			n.note(at.Addr().String(), network, q)
			return serve(q)
		}
		switch {
		case serve == nil:
			unanswered(far)
		case network == "tcp":
			memoryTCP(zone(logged).tcp)(far)
		default:
			memoryUDP(zone(logged).udp)(far)
		}
	})
	return near, nil
}

func (n *internet) note(address, network string, q *dns.Msg) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, asked{address, network, strings.ToLower(q.Question[0].Name),
		q.Question[0].Qtype, q.RecursionDesired})
}

// askedOf returns the queries to these addresses.
func (n *internet) askedOf(addresses ...string) []asked {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []asked
	for _, a := range n.log {
		if slices.Contains(addresses, a.address) {
			found = append(found, a)
		}
	}
	return found
}

func (n *internet) everythingAsked() []asked {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.log)
}

// dials counts the connections to any port of an address.
func (n *internet) dials(address string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, d := range n.dialled {
		if netip.MustParseAddrPort(d).Addr() == netip.MustParseAddr(address) {
			count++
		}
	}
	return count
}

// straight counts the connections to addresses other than those of the resolvers, and of the
// servers that hosts has added.
func (n *internet) straight() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, d := range n.dialled {
		if addr := netip.MustParseAddrPort(d).Addr().String(); !slices.Contains(resolverAddrs, addr) &&
			!strings.HasPrefix(addr, "7.") {
			count++
		}
	}
	return count
}

// checker returns a Checker that uses this network and all resolvers.
func (n *internet) checker(c dnscheck.Config) *dnscheck.Checker {
	n.t.Helper()
	return n.checkerBy(c, resolverAddrs...)
}

// checkerBy returns a Checker that uses only these resolvers.
func (n *internet) checkerBy(c dnscheck.Config, resolvers ...string) *dnscheck.Checker {
	n.t.Helper()
	for _, address := range resolvers {
		c.Resolvers = append(c.Resolvers, dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr(address), 53)})
	}
	checker, err := dnscheck.NewOver(c, n.dial)
	if err != nil {
		n.t.Fatal(err)
	}
	return checker
}

// quietAbout fails the test if a resolver was queried for the name, a name below it, or a name
// above it other than its top-level domain.
func (n *internet) quietAbout(name string) {
	n.t.Helper()
	name = dns.CanonicalName(name)
	for _, a := range n.askedOf(resolverAddrs...) {
		onTheWay := dns.IsSubDomain(a.name, name) && dns.CountLabel(a.name) > 1
		if onTheWay || dns.IsSubDomain(name, a.name) {
			n.t.Errorf("a resolver was asked for %s %s: its NXDOMAIN would deny %s", a.name, dns.TypeToString[a.kind], name)
		}
	}
}

// zoneOf is an authoritative server of one or more zones. Each SOA record starts the records
// of a zone.
func zoneOf(records ...dns.RR) zone {
	zones := make(map[string][]dns.RR)
	origin := ""
	for _, record := range records {
		if _, ok := record.(*dns.SOA); ok {
			origin = dns.CanonicalName(record.Header().Name)
		}
		zones[origin] = append(zones[origin], record)
	}
	return func(q *dns.Msg) *dns.Msg {
		name := dns.CanonicalName(q.Question[0].Name)
		best := ""
		for origin := range zones {
			if dns.IsSubDomain(origin, name) && len(origin) > len(best) {
				best = origin
			}
		}
		if best == "" {
			return straight(rcode(q, dns.RcodeRefused))
		}
		return authoritative(q, best, zones[best])
	}
}

func straight(m *dns.Msg) *dns.Msg {
	m.RecursionAvailable = false
	return m
}

func authoritative(q *dns.Msg, origin string, records []dns.RR) *dns.Msg {
	m := straight(answer(q))
	name := dns.CanonicalName(q.Question[0].Name)
	exists := false
	for _, record := range records {
		owner := dns.CanonicalName(record.Header().Name)
		switch record := record.(type) {
		case *dns.NS:
			switch {
			case owner != origin && dns.IsSubDomain(owner, name):
				m.Ns = append(m.Ns, record)
				m.Extra = append(m.Extra, at(records, record.Ns)...)
			case owner == name && q.Question[0].Qtype == dns.TypeNS:
				m.Answer = append(m.Answer, record)
				m.Extra = append(m.Extra, at(records, record.Ns)...)
			}
		case *dns.DNAME:
			if owner != name && dns.IsSubDomain(owner, name) {
				target := strings.TrimSuffix(name, owner) + record.Target
				m.Answer = append(m.Answer, record, cname(name, target))
			}
		case *dns.CNAME:
			if owner == name {
				m.Answer = append(m.Answer, record)
			}
		default:
			if owner == name && record.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, record)
			}
		}
		exists = exists || dns.IsSubDomain(name, owner)
	}
	if len(m.Ns) > 0 {
		m.Answer = nil
		return m
	}
	m.Authoritative = true
	if len(m.Answer) > 0 {
		return m
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	m.Ns = []dns.RR{records[0]}
	return m
}

// at returns the address records of a name.
func at(records []dns.RR, name string) []dns.RR {
	var found []dns.RR
	for _, record := range records {
		kind := record.Header().Rrtype
		if dnsname.Same(record.Header().Name, name) && (kind == dns.TypeA || kind == dns.TypeAAAA) {
			found = append(found, record)
		}
	}
	return found
}

// address returns an A or AAAA record.
func address(owner, addr string) dns.RR {
	a := netip.MustParseAddr(addr)
	if a.Is4() {
		return &dns.A{Hdr: header(owner, dns.TypeA, 300), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(owner, dns.TypeAAAA, 300), AAAA: a.AsSlice()}
}

func dname(owner, target string) *dns.DNAME {
	return &dns.DNAME{Hdr: header(owner, dns.TypeDNAME, 300), Target: dns.Fqdn(target)}
}

func start(origin string) *dns.SOA { return soa(origin, 3600, 3600) }
