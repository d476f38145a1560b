package dnscheck_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// registryOf gives a top-level domain these servers.
func (n *internet) registryOf(tld string, servers ...zone) {
	for i, z := range servers {
		name, addr := fmt.Sprintf("%c.nic.%s", 'a'+i, tld), fmt.Sprintf("5.9.%d.%d", len(tld), i+1)
		n.know(ns(tld, name), address(name, addr))
		n.at(addr, z)
	}
}

// TestRegistryWithHostileServers has some of a registry's servers refer to the attacker's, which
// has the token, while the others are there, silent, or late. However the servers are chosen, and
// whatever a check has cached before, a majority of all of them decides.
func TestRegistryWithHostileServers(t *testing.T) {
	servers := delegatedTo("example.com", 2)
	honest := zoneOf(append([]dns.RR{start("com")}, servers...)...)
	hostile := zoneOf(start("com"), ns("example.com", "ns.example.com"), address("ns.example.com", evilAddr))
	glue := zoneOf(start("com"), ns("example.com", "ns1.example.com"), ns("example.com", "ns2.example.com"),
		address("ns1.example.com", evilAddr), address("ns2.example.com", evilAddr))
	tests := []struct {
		name                    string
		honest, hostile, silent int
		bad                     zone
		want                    expected
	}{
		{"two of five", 3, 2, 0, hostile, absent(dnscheck.ReasonNoName)},
		{"six of thirteen", 7, 6, 0, hostile, absent(dnscheck.ReasonNoName)},
		{"six of thirteen, by other addresses", 7, 6, 0, glue, absent(dnscheck.ReasonNoName)},
		{"six of thirteen, the others silenced", 0, 6, 7, hostile, unknown(dnscheck.ReasonTooFew)},
		{"six of thirteen, one of the others not silenced", 1, 6, 6, hostile, unknown(dnscheck.ReasonServersDisagree)},
		{"half of four", 2, 2, 0, hostile, unknown(dnscheck.ReasonServersDisagree)},
	}
	for _, test := range tests {
		for _, lookFirst := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, after a check: %t", test.name, lookFirst), func(t *testing.T) {
				n := newInternet(t)
				n.know(txt(host, token))
				n.at(evilAddr, publishes)
				n.at(serverAddr(0), denies)
				n.at(serverAddr(1), denies)
				var registry []zone
				for range test.hostile {
					registry = append(registry, test.bad)
				}
				for range test.honest {
					registry = append(registry, honest)
				}
				for range test.silent {
					registry = append(registry, nil)
				}
				n.registryOf("com", registry...)
				for range 5 {
					c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
					if lookFirst {
						look(t, c)
					}
					want(t, prove(t, c), test.want.state, test.want.reason)
				}
				if n.dials(evilAddr) > 0 {
					t.Error("the attacker's server was queried")
				}
			})
		}
	}
}

// TestStaleServerOfARegistry has a minority of a registry's servers not know a new domain, deny it
// late, or fail: they hold no token, and do not prevent a proof. The others are not waited for.
func TestStaleServerOfARegistry(t *testing.T) {
	fresh := zoneOf(append([]dns.RR{start("com")}, delegatedTo("example.com", 2)...)...)
	for name, stale := range map[string]zone{"denies": zoneOf(start("com")), "silent": nil, "refuses": refused} {
		bubble(t, name, func(t *testing.T) {
			n := newInternet(t)
			n.know(txt(host, token))
			n.at(serverAddr(0), publishes)
			n.at(serverAddr(1), publishes)
			n.registryOf("com", stale, fresh, fresh, stale, fresh)
			began := time.Now()
			for _, ask := range []func(*testing.T, *dnscheck.Checker) dnscheck.Verdict{look, prove, disprove} {
				want(t, ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestRegistryThatHoldsASuffixBelow has half of a country's servers hold a suffix below as well:
// these refer straight to the domain, or deny it, and the others to the suffix. All are asked for
// the suffix's servers, and a majority has to give the same: one server that refers to another
// suffix leads nowhere.
func TestRegistryThatHoldsASuffixBelow(t *testing.T) {
	const name = "_v.example.co.uk"
	domain := delegatedTo("example.co.uk", 2)
	suffix := []dns.RR{ns("co.uk", "a.co.uk"), address("a.co.uk", "5.8.0.1")}
	above := zoneOf(append([]dns.RR{start("uk")}, suffix...)...)
	both := zoneOf(append(append([]dns.RR{start("uk"), start("co.uk")}, suffix...), domain...)...)
	knowsNot := zoneOf(append([]dns.RR{start("uk"), start("co.uk")}, suffix...)...)
	hostile := zoneOf(start("uk"), ns("co.uk", "ns.evil.co.uk"), address("ns.evil.co.uk", evilAddr))
	tests := []struct {
		name     string
		registry []zone
		want     expected
	}{
		{"half", []zone{above, above, both, both}, found},
		{"half, one is silent", []zone{above, above, both, both, nil}, found},
		{"a minority", []zone{above, above, above, both}, found},
		{"most", []zone{above, both, both, both}, found},
		{"half deny it", []zone{above, above, knowsNot, knowsNot}, found},
		{"one refers to another suffix, one straight to the domain, the others are silent",
			[]zone{hostile, both, nil, nil}, unknown(dnscheck.ReasonTooFew)},
		{"one refers to another suffix, as many as not straight to the domain",
			[]zone{hostile, above, both, both}, found},
		{"some refer to another suffix, one is silent", []zone{hostile, hostile, hostile, both, both, both, nil},
			unknown(dnscheck.ReasonServersDisagree)},
	}
	for _, test := range tests {
		for way, ask := range ways {
			bubble(t, test.name+", "+way, func(t *testing.T) {
				n := newInternet(t)
				n.know(txt(name, token))
				z := zoneOf(start("example.co.uk"), txt(name, token))
				n.at(serverAddr(0), z)
				n.at(serverAddr(1), z)
				n.at("5.8.0.1", zoneOf(append([]dns.RR{start("co.uk")}, domain...)...))
				n.at(evilAddr, says(txt(name, token)))
				n.registryOf("uk", test.registry...)
				c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
				_ = ask
				v, err := map[string]func() (dnscheck.Verdict, error){
					"look":  func() (dnscheck.Verdict, error) { return c.Check(t.Context(), name, token) },
					"prove": func() (dnscheck.Verdict, error) { return c.Prove(t.Context(), name, token) },
				}[way]()
				if err != nil {
					t.Fatal(err)
				}
				want(t, v, test.want.state, test.want.reason)
				if n.dials(evilAddr) > 0 {
					t.Error("the attacker's server was queried")
				}
			})
		}
	}
}

// TestRegistryIsQueriedForTheRegisteredDomain checks that registries are asked for the registered
// domain, and for the host only if they do not refer to others for that.
func TestRegistryIsQueriedForTheRegisteredDomain(t *testing.T) {
	bubble(t, "a referral", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		n.know(txt(host, token))
		want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
		for _, a := range n.askedOf(tldAddr) {
			if diff := cmp.Diff("example.com.", a.name); diff != "" {
				t.Errorf("the registry was asked for (-want +got):\n%s", diff)
			}
		}
	})
	bubble(t, "it holds the domain itself", func(t *testing.T) {
		n := overTLD(t, txt(host, token))
		n.know(txt(host, token))
		want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestLateDenial has a server deny the token after the others have given it: a proof waits for each
// server, for as long as one address has not answered.
func TestLateDenial(t *testing.T) {
	for _, late := range []time.Duration{600 * time.Millisecond, 900 * time.Millisecond} {
		bubble(t, late.String(), func(t *testing.T) {
			n := servedBy(t, publishes, publishes, publishes, func(q *dns.Msg) *dns.Msg {
				time.Sleep(late)
				return denies(q)
			})
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
		})
	}
}

// TestIPv6BlackHole has servers with an address of each family, of which IPv6 leads nowhere: a
// proof takes no longer than without.
func TestIPv6BlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t)
		n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, many(n, 4, 1, publishes)...)...))
		for i := range 4 {
			n.at(fmt.Sprintf("2a00::%x:1", i+1), nil)
		}
		n.know(txt(host, token), address("a.registry.net", "2a00::99"))
		n.at("2a00::99", nil)
		began := time.Now()
		want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
		if took := time.Since(began); took > 0 {
			t.Errorf("took %s", took)
		}
	})
}

// TestGlueAsASecondChoice has name servers whose addresses cannot be looked up, and which the
// registry gives: a majority of its servers is believed then. Where they can be looked up, its
// addresses, which may be stale, are not used.
func TestGlueAsASecondChoice(t *testing.T) {
	names := []dns.RR{ns("example.com", "ns1.provider.com"), ns("example.com", "ns2.provider.com"),
		ns("example.com", "ns3.provider.com"), ns("provider.com", "a.provider.com"), ns("provider.com", "b.provider.com"),
		address("a.provider.com", "5.7.0.1"), address("b.provider.com", "5.7.0.2")}
	glue := func(addrs ...string) (records []dns.RR) {
		for i, addr := range addrs {
			records = append(records, address(fmt.Sprintf("ns%d.provider.com", i+1), addr))
		}
		return records
	}
	right := glue(serverAddr(0), serverAddr(1), serverAddr(2))
	stale := glue(evilAddr, evilAddr, evilAddr)
	provider := zoneOf(append([]dns.RR{start("provider.com")}, right...)...)
	registry := func(more ...dns.RR) zone { return zoneOf(append(append([]dns.RR{start("com")}, names...), more...)...) }
	tests := []struct {
		name     string
		provider []zone
		registry []zone
		want     expected
	}{
		{"one dead server of two of the provider's zone", []zone{provider, nil},
			[]zone{registry(right...), registry(right...), registry(right...)}, found},
		{"most of the registry's servers give it", []zone{provider, nil},
			[]zone{registry(right...), registry(right...), registry(stale...)}, found},
		{"half of them do", []zone{provider, nil},
			[]zone{registry(right...), registry(right...), registry(stale...), registry(stale...)},
			unknown(dnscheck.ReasonTooFew)},
		{"the registry's are stale", []zone{provider, provider}, []zone{registry(stale...)}, found},
		{"the provider's zone denies the names", []zone{zoneOf(start("provider.com")), zoneOf(start("provider.com"))},
			[]zone{registry(stale...)}, unknown(dnscheck.ReasonUnreachable)},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := newInternet(t)
			n.know(txt(host, token))
			n.registryOf("com", test.registry...)
			n.at("5.7.0.1", test.provider[0])
			n.at("5.7.0.2", test.provider[1])
			n.at(evilAddr, denies)
			for i := range 3 {
				n.at(serverAddr(i), publishes)
			}
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if test.want != unknown(dnscheck.ReasonTooFew) {
				want(t, v, test.want.state, test.want.reason)
			} else if v.State != dnscheck.Unknown {
				t.Errorf("%s (%s)", v.State, v.Reason)
			}
			if n.dials(evilAddr) > 0 {
				t.Error("a stale address was queried")
			}
		})
	}
	bubble(t, "two zones that name their servers in each other", func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.other.com"), ns("example.com", "ns2.other.com"),
			ns("other.com", "ns1.example.com"), ns("other.com", "ns2.example.com"),
			address("ns1.other.com", serverAddr(0)), address("ns2.other.com", serverAddr(1)),
			address("ns1.example.com", "5.7.0.1"), address("ns2.example.com", "5.7.0.2"))
		n.know(txt(host, token))
		n.at(serverAddr(0), publishes)
		n.at(serverAddr(1), publishes)
		other := zoneOf(start("other.com"), address("ns1.other.com", serverAddr(0)), address("ns2.other.com", serverAddr(1)))
		n.at("5.7.0.1", other)
		n.at("5.7.0.2", other)
		want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
	})
}
