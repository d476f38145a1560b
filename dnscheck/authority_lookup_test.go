package dnscheck_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// namedIn delegates example.com to three servers with names in other.net, which has three servers
// itself: a hostile one, and two that give the right addresses, of which some are silenced. The
// resolvers have the attacker's address for each of the names.
func namedIn(t *testing.T, served, hostile zone, silenced int) *internet {
	var delegation, hosted []dns.RR
	for i := range 3 {
		name := fmt.Sprintf("ns%d.other.net", i+1)
		delegation, hosted = append(delegation, ns("example.com", name)), append(hosted, address(name, serverAddr(i)))
	}
	n := overTLD(t, delegation...)
	below := []dns.RR{start("net")}
	for i := range 3 {
		n.at(serverAddr(i), served)
		name, addr := fmt.Sprintf("own%d.other.net", i+1), fmt.Sprintf("5.4.0.%d", i+1)
		below = append(below, ns("other.net", name), address(name, addr))
		switch {
		case i == 0:
			n.at(addr, hostile)
		case i <= silenced:
			n.at(addr, nil)
		default:
			n.at(addr, zoneOf(append([]dns.RR{start("other.net")}, hosted...)...))
		}
	}
	n.know(ns("net", "a.nic.net"), address("a.nic.net", "5.0.1.1"))
	n.at("5.0.1.1", zoneOf(append(below, ns("evil.net", "ns.evil.net"), address("ns.evil.net", evilAddr))...))
	for _, record := range hosted {
		n.know(address(record.Header().Name, evilAddr))
	}
	return n
}

// TestNameServersNamedInAZoneWithOneHostileServer has an attacker control one of the three servers
// of the zone in which a domain's name servers have their names, and lead the resolvers to it by
// silencing the two others. If it chose the addresses, both the name servers and the resolvers
// would be the attacker's: a stranger would be verified, or the owner locked out.
func TestNameServersNamedInAZoneWithOneHostileServer(t *testing.T) {
	refer := func(q *dns.Msg) *dns.Msg {
		m := straight(answer(q))
		m.Ns = []dns.RR{ns(q.Question[0].Name, "ns.evil.net")}
		return m
	}
	answers := map[string]zone{
		"its own address": func(q *dns.Msg) *dns.Msg { return says(made(evilAddr, q))(q) },
		"its own address beside the right one": func(q *dns.Msg) *dns.Msg {
			return says(made(evilAddr, q), made(serverAddr(int(q.Question[0].Name[2]-'1')), q))(q)
		},
		"a denial":   zoneOf(start("other.net")),
		"an alias":   func(q *dns.Msg) *dns.Msg { return says(cname(q.Question[0].Name, "ns.evil.net"))(q) },
		"a referral": refer,
		"more addresses than are taken": func(q *dns.Msg) *dns.Msg {
			var records []dns.RR
			for i := range 50 {
				records = append(records, made(fmt.Sprintf("4.0.0.%d", i+1), q))
			}
			return says(records...)(q)
		},
		"nothing": nil,
	}
	for name, hostile := range answers {
		for _, published := range []bool{false, true} {
			for _, silenced := range []int{0, 1, 2} {
				bubble(t, fmt.Sprintf("%s, published %t, %d silenced", name, published, silenced), func(t *testing.T) {
					served, evil := denies, publishes
					if published {
						served, evil = publishes, denies
					}
					n := namedIn(t, served, hostile, silenced)
					n.at(evilAddr, evil)
					if !published {
						n.know(txt(host, token)) // the resolvers query the attacker's server
					}
					c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
					for range 2 { // the second uses the cache
						proof, absence := prove(t, c), disprove(t, c)
						if proof.State == dnscheck.Present || published && proof.State == dnscheck.Absent {
							t.Errorf("proof: %s (%s)", proof.State, proof.Reason)
						}
						if published && absence.State == dnscheck.Absent {
							t.Errorf("disproof: %s (%s)", absence.State, absence.Reason)
						}
						found := silenced == 0 || silenced == 1 && name == "its own address beside the right one"
						if found && !published && proof.State != dnscheck.Absent ||
							found && published && proof.Reason != dnscheck.ReasonLag {
							t.Errorf("proof: %s (%s), though a majority gives the addresses", proof.State, proof.Reason)
						}
					}
					if n.dials(evilAddr) > 0 {
						t.Error("the attacker's server was queried")
					}
					for _, a := range n.askedOf(resolverAddrs...) {
						if dns.IsSubDomain("other.net.", a.name) {
							t.Errorf("a resolver was asked for %s", a.name)
						}
					}
				})
			}
		}
	}
}

// TestAddressesOfNameServers has example.com delegated to names in other zones, and checks which
// answers about these names lead to its servers.
func TestAddressesOfNameServers(t *testing.T) {
	yes := expected{dnscheck.Present, dnscheck.ReasonFound}
	none := expected{dnscheck.Unknown, dnscheck.ReasonUnreachable}
	few := expected{dnscheck.Unknown, dnscheck.ReasonTooFew}
	const name, six = "ns1.hoster.net", "2a00::1"
	served := func(t *testing.T, names ...string) *internet {
		var records []dns.RR
		for _, name := range names {
			records = append(records, ns("example.com", name))
		}
		n := overTLD(t, records...)
		n.know(txt(host, token))
		n.at(nsOne, publishes)
		n.at(six, publishes)
		n.hosts(address("x.hoster.net", "5.5.5.5"), address("x.middle.org", "5.5.5.5"))
		return n
	}
	// at delegates hoster.net to servers that answer in order.
	at := func(zones ...zone) func(t *testing.T) *internet {
		return func(t *testing.T) *internet {
			n := served(t, name)
			below := []dns.RR{start("net")}
			for i, z := range zones {
				own, addr := fmt.Sprintf("own%d.hoster.net", i), fmt.Sprintf("5.4.0.%d", i+1)
				below = append(below, ns("hoster.net", own), address(own, addr))
				n.at(addr, z)
			}
			n.at(hostAddr("net"), zoneOf(below...))
			return n
		}
	}
	holds := func(records ...dns.RR) zone { return zoneOf(append([]dns.RR{start("hoster.net")}, records...)...) }
	right := holds(address(name, nsOne))
	// chain has the servers of z1.net named in z2.net, those of z2.net in z3.net, and so on.
	chain := func(length int) func(t *testing.T) *internet {
		return func(t *testing.T) *internet {
			n := served(t, "ns.z1.net")
			below := []dns.RR{start("net")}
			for i := 1; i <= length; i++ {
				zone, next, addr := fmt.Sprintf("z%d.net", i), fmt.Sprintf("ns.z%d.net", i+1), fmt.Sprintf("5.4.0.%d", i)
				n.at(addr, zoneOf(start(zone), address("ns."+zone, fmt.Sprintf("5.4.0.%d", i-1))))
				if i == 1 {
					n.at(addr, zoneOf(start(zone), address("ns."+zone, nsOne)))
				}
				if i == length {
					next = "own." + zone
					below = append(below, address(next, addr))
				}
				below = append(below, ns(zone, next))
			}
			n.at(hostAddr("net"), zoneOf(below...))
			return n
		}
	}
	tests := []struct {
		name  string
		build func(t *testing.T) *internet
		want  expected
	}{
		{"an IPv4 address, no IPv6 address", at(right), yes},
		{"an IPv6 address, no IPv4 address", at(holds(address(name, six))), yes},
		{"of both families", at(holds(address(name, six), address(name, nsOne))), yes},
		{"no record", at(holds(txt(name, "v=spf1 -all"))), none},
		{"no such name", at(holds()), none},
		{"an alias, with the target's address (RFC 2181 section 10.3)",
			at(holds(cname(name, "a.hoster.net"), address("a.hoster.net", nsOne))), unknown(dnscheck.ReasonServerAlias)},
		{"the address of another name", at(says(address("a.hoster.net", nsOne))),
			expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"no such name, and its address", at(func(q *dns.Msg) *dns.Msg {
			m := right(q)
			m.Rcode = dns.RcodeNameError
			return m
		}), expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"without authority", at(func(q *dns.Msg) *dns.Msg {
			m := right(q)
			m.Authoritative = false
			return m
		}), expected{dnscheck.Unknown, dnscheck.ReasonLame}},
		{"two of three servers give it, one another", at(right, holds(address(name, evilAddr)), right), yes},
		{"two of three servers give it, one denies it", at(right, holds(), right), yes},
		{"two of three servers give it, one fails", at(right, servfail, right), yes},
		{"two of three servers give it, one has an alias", at(right, holds(cname(name, "a.hoster.net")), right), yes},
		{
			"two of three servers give it, one refers",
			at(right, holds(ns(name, "ns."+name), address("ns."+name, evilAddr)), right), yes,
		},
		{"one of two servers gives it, one another", at(right, holds(address(name, evilAddr))), few},
		{"one of two servers gives it, one is silent", at(right, nil), few},
		{
			"one of two servers gives it, one refers",
			at(right, holds(ns(name, "ns."+name), address("ns."+name, evilAddr))), few,
		},
		{"in a zone below, to which both servers refer", at(
			holds(ns(name, "ns."+name), address("ns."+name, "5.4.1.1")),
			holds(ns(name, "ns."+name), address("ns."+name, "5.4.1.1"))), yes},
		{"the zone's own glue", func(t *testing.T) *internet {
			n := served(t, name)
			n.at(hostAddr("net"), zoneOf(start("net"), ns("hoster.net", name), address(name, nsOne)))
			return n
		}, yes},
		{"two zones of which each is served by both names", func(t *testing.T) *internet {
			n := served(t, name, "ns1.middle.org")
			n.at(hostAddr("net"), zoneOf(start("net"), ns("hoster.net", name),
				ns("hoster.net", "ns1.middle.org"), address(name, nsOne)))
			n.at(hostAddr("org"), zoneOf(start("org"), ns("middle.org", name), ns("middle.org", "ns1.middle.org"),
				address("ns1.middle.org", nsTwo)))
			n.at(nsTwo, publishes)
			return n
		}, yes},
		{"two zones of which each has its servers in the other", func(t *testing.T) *internet {
			n := served(t, name)
			n.at(hostAddr("net"), zoneOf(start("net"), ns("hoster.net", "a.middle.org")))
			n.at(hostAddr("org"), zoneOf(start("org"), ns("middle.org", "a.hoster.net")))
			return n
		}, none},
		{"names in the domain that they serve, by way of another", func(t *testing.T) *internet {
			n := served(t, name)
			n.at(hostAddr("net"), zoneOf(start("net"), ns("hoster.net", "ns.example.com")))
			return n
		}, none},
		{"as many zones one after the other as are followed", chain(dnscheck.MaxDepth), yes},
		{"a zone more", chain(dnscheck.MaxDepth + 1), none},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := test.build(t)
			n.at("5.4.1.1", zoneOf(start(name), address(name, nsOne)))
			n.at(evilAddr, publishes)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for range 2 {
				began := time.Now()
				want(t, prove(t, c), test.want.state, test.want.reason)
				if took := time.Since(began); took > dnscheck.CheckTime {
					t.Errorf("took %s", took)
				}
				if n.dials(evilAddr) > 0 {
					t.Error("an address of one server was queried")
				}
			}
		})
	}
}

// TestResolversAddressIsOfATopLevelDomainOnly has a domain name a top-level domain's server as its
// own. The resolvers gave an address of that server, which must not be used for the domain.
func TestResolversAddressIsOfATopLevelDomainOnly(t *testing.T) {
	for _, name := range []string{"a.registry.net", "dns.net"} { // of com and of net
		bubble(t, name, func(t *testing.T) {
			n := overTLD(t, ns("example.com", name))
			n.know(txt(host, token))
			n.hosts(address(name, nsOne), address("x.registry.net", "5.5.5.5"))
			n.at(nsOne, denies)
			refers := n.servers[hostAddr("net")]
			n.at(hostAddr("net"), func(q *dns.Msg) *dns.Msg { // as the resolvers' address would answer
				if asksFor(q, host) {
					return publishes(q)
				}
				return refers(q)
			})
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for range 2 {
				want(t, prove(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
			}
		})
	}
}

// TestCachedAddressesOfNameServers checks that addresses are looked up again after their TTL, and
// that a name without any is not looked up at once again.
func TestCachedAddressesOfNameServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.hoster.net"), ns("example.com", "gone.hoster.net"))
		n.hosts(address("ns1.hoster.net", nsOne))
		n.at(nsOne, denies)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		queried := func() (there, gone int) {
			look(t, c)
			for _, a := range n.askedOf(hostAddr("hoster.net")) {
				if a.name == "gone.hoster.net." {
					gone++
				} else {
					there++
				}
			}
			return there, gone
		}
		for _, step := range []struct {
			after       time.Duration
			there, gone int
		}{{0, 2, 2}, {29 * time.Second, 2, 2}, {2 * time.Second, 2, 4}, {270 * time.Second, 4, 6}} { // the TTL is 300 s
			time.Sleep(step.after)
			if there, gone := queried(); there != step.there || gone != step.gone {
				t.Errorf("%s later: %d and %d queries in all, want %d and %d", step.after, there, gone, step.there, step.gone)
			}
		}
	})
}

// elsewhere is a layout of a domain's name servers: names in zones, each with servers of its own.
type elsewhere struct {
	zones   []string // in turn
	names   int      // of the domain's servers
	servers int      // of each zone
	own     bool     // the domain's servers are those of the zone, below net
	above   string   // the zone with the names of the zones' servers; empty: they have glue
}

// build makes the servers of a layout. Each has an address of either family, and each top-level
// domain has three.
func (e elsewhere) build(t *testing.T) *internet {
	n := newInternet(t)
	registries := map[string][]dns.RR{"com": nil}
	next := 0
	both := func(name string) []dns.RR {
		next++
		return []dns.RR{address(name, fmt.Sprintf("5.1.%d.1", next)), address(name, fmt.Sprintf("2a00::1:%x", next))}
	}
	serve := func(z zone, records []dns.RR) {
		for _, record := range records {
			if addr := dnscheck.AddressIn(record); addr.IsValid() {
				n.at(addr.String(), z)
			}
		}
	}
	// delegate has the servers of these names serve the zone, and returns their addresses.
	delegate := func(zone string, names []string, z zone) (addresses []dns.RR) {
		labels := dns.SplitDomainName(zone)
		tld := labels[len(labels)-1]
		for _, name := range names {
			found := both(name)
			addresses = append(addresses, found...)
			registries[tld] = append(registries[tld], ns(zone, name))
			if dns.IsSubDomain(zone, name) {
				registries[tld] = append(registries[tld], found...)
			}
		}
		serve(z, addresses)
		return addresses
	}
	names := make(map[string][]string) // of the domain's servers, by zone
	var all []string
	for i := range e.names {
		zone := e.zones[i%len(e.zones)]
		names[zone] = append(names[zone], fmt.Sprintf("ns%d.%s", i, zone))
		all = append(all, names[zone][len(names[zone])-1])
	}
	held := delegate("example.com", all, publishes)
	var above []dns.RR
	for zone, servers := range names {
		if e.own {
			for _, name := range servers {
				registries["net"] = append(append(registries["net"], ns(zone, name)), at(held, name)...)
			}
			continue
		}
		var own []string
		for i := range e.servers {
			own = append(own, fmt.Sprintf("own%d.%s", i, cmp.Or(e.above, zone)))
		}
		above = append(above, delegate(zone, own, zoneOf(append([]dns.RR{start(zone)}, held...)...))...)
	}
	if e.above != "" {
		delegate(e.above, []string{"a." + e.above, "b." + e.above}, zoneOf(append([]dns.RR{start(e.above)}, above...)...))
	}
	for tld, records := range registries {
		for i := range 13 {
			name := fmt.Sprintf("%c.nic.%s", 'a'+i, tld)
			found := both(name)
			n.know(append(found, ns(tld, name))...)
			serve(zoneOf(append([]dns.RR{start(tld)}, records...)...), found)
		}
	}
	n.know(txt(host, token))
	return n
}

// TestProofsOfServersNamedElsewhere counts the queries to name servers for a proof of domains whose
// servers are named in other zones, with a cold and a warm cache.
func TestProofsOfServersNamedElsewhere(t *testing.T) {
	const registry = 14 // each is queried at one address, and one that is given up perhaps over TCP
	for name, test := range map[string]struct {
		elsewhere

		cold, warm int
	}{
		"four in four top-level domains (Route 53)": {elsewhere{names: 4, servers: 4,
			zones: []string{"awsdns-01.com", "awsdns-02.net", "awsdns-03.org", "awsdns-04.co.uk"}},
			registry + 4*(registry+4*2) + 8, 8},
		"six in six top-level domains": {elsewhere{names: 6, servers: 4,
			zones: []string{"one.com", "one.net", "one.org", "one.info", "one.de", "one.fr"}},
			registry + 6*(registry+4*2) + 12, 12},
		"two in a zone of five servers": {elsewhere{names: 2, servers: 5, zones: []string{"hoster.net"}},
			registry + 2*(registry+5*2) + 4, 4},
		"four that are their zone's own": {elsewhere{names: 4, own: true, zones: []string{"hoster.net"}},
			registry + 4*registry + 8, 8},
		"eight in a zone of thirteen servers": {elsewhere{names: 8, servers: 13, zones: []string{"hoster.net"}},
			registry + 8*(registry+13*2) + 16, 16},
		"four in a zone whose four servers are in a third": {elsewhere{names: 4, servers: 4,
			zones: []string{"hoster.net"}, above: "middle.org"},
			registry + 4*(registry+4*2) + 4*(registry+2*2) + 8, 8},
	} {
		bubble(t, name, func(t *testing.T) {
			n := test.build(t)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for i, most := range []int{test.cold, test.warm, test.warm} {
				before := n.straight()
				want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
				got := n.straight() - before
				if t.Logf("%d queries to name servers", got); got > most {
					t.Errorf("%d queries in proof %d, want at most %d", got, i, most)
				}
			}
			for _, a := range n.askedOf(resolverAddrs...) {
				if dns.CountLabel(a.name) > 1 && !strings.Contains(a.name, ".nic.") && !dnsname.Same(a.name, host) {
					t.Errorf("a resolver was asked for %s", a.name)
				}
			}
		})
	}
}
