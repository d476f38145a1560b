package dnscheck_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// evilAddr is the address of an attacker's server. It answers every query with the token.
const evilAddr = "6.6.6.6"

// serverAddr returns the address of the i-th server of example.com.
func serverAddr(i int) string { return fmt.Sprintf("5.1.0.%d", i+1) }

// delegatedTo returns the NS and glue records of a zone with n servers at the addresses of
// serverAddr.
func delegatedTo(zone string, n int) []dns.RR {
	var records []dns.RR
	for i := range n {
		name := fmt.Sprintf("ns%d.%s", i+1, zone)
		records = append(records, ns(zone, name), address(name, serverAddr(i)))
	}
	return records
}

// servedBy delegates example.com to these servers. The resolvers see the token. The attacker
// runs a further server at evilAddr.
func servedBy(t *testing.T, servers ...zone) *internet {
	n := overTLD(t, append(delegatedTo("example.com", len(servers)), ns("evil.com", "ns.evil.com"),
		address("ns.evil.com", evilAddr))...)
	for i, z := range servers {
		n.at(serverAddr(i), z)
	}
	n.know(txt(host, token))
	n.at(evilAddr, func(q *dns.Msg) *dns.Msg { return says(txt(q.Question[0].Name, token))(q) })
	return n
}

// Answers of the servers of example.com.
var (
	publishes = zoneOf(start("example.com"), txt(host, token))
	denies    = zoneOf(start("example.com"))
	leads     = zoneOf(start("example.com"), ns(host, "ns."+host), address("ns."+host, evilAddr))
	misleads  = zoneOf(start("example.com"), cname(host, "_v.evil.com"))
	diverts   = zoneOf(start("example.com"), cname(host, "_v.evil.example.com"),
		ns("evil.example.com", "ns.evil.example.com"), address("ns.evil.example.com", evilAddr))
)

func prove(t *testing.T, c *dnscheck.Checker) dnscheck.Verdict {
	t.Helper()
	v, err := c.Prove(t.Context(), host, token)
	if err != nil {
		t.Fatal(err)
	}
	if proof, ok := v.Proof(); ok != (v.State == dnscheck.Present) || ok != proof.Of(host, token) {
		t.Errorf("verdict %s (%s), and its proof is %+v", v.State, v.Reason, proof)
	}
	return v
}

// inTurn answers each query with the next zone. A nil zone does not answer for an hour.
func inTurn(zones ...zone) zone {
	var queries atomic.Int64
	return func(q *dns.Msg) *dns.Msg {
		z := zones[int(queries.Add(1)-1)%len(zones)]
		if z == nil {
			time.Sleep(time.Hour)
			return answer(q)
		}
		return z(q)
	}
}

// proofScene has the i-th name server or resolver answer as the i-th zone. A nil zone is silent.
type proofScene struct {
	name    string
	answers []zone
	want    expected
}

// Verdicts of proofs.
var (
	disagree    = unknown(dnscheck.ReasonServersDisagree)
	tooFew      = unknown(dnscheck.ReasonTooFew)
	isBogus     = unknown(dnscheck.ReasonDNSSEC)
	unconfirmed = unknown(dnscheck.ReasonUnconfirmed)
	unsigned    = unknown(dnscheck.ReasonUnsigned)
)

var hostileServers = []proofScene{
	{"a referral, the other denies", []zone{leads, denies}, disagree},
	{"a referral, three deny", []zone{denies, leads, denies, denies}, disagree},
	{"a referral, one denies, two are silent", []zone{nil, leads, denies, nil}, disagree},
	{"two referrals, two deny", []zone{denies, leads, denies, leads}, disagree},
	{"a referral, the other is silent", []zone{leads, nil}, tooFew},
	{"a referral, three are silent", []zone{nil, leads, nil, nil}, tooFew},
	{"two referrals, two are silent", []zone{nil, leads, nil, leads}, tooFew},
	{"a referral, the others fail", []zone{servfail, leads, refused}, tooFew},
	{"the token, the other is silent", []zone{publishes, nil}, tooFew},
	{"the token, three are silent", []zone{nil, nil, publishes, nil}, tooFew},
	{"the token at two of four, the others are silent", []zone{publishes, nil, publishes, nil}, tooFew},
	{"the token, the others fail or are lame", []zone{publishes, servfail, refused, noName}, tooFew},
	{"an alias, the other is silent", []zone{diverts, nil}, tooFew},
	{"an alias, three are silent", []zone{nil, diverts, nil, nil}, tooFew},
	{"an alias to a zone of the attacker's, the other is silent", []zone{misleads, nil}, tooFew},
	{"an alias to a zone of the attacker's at two of four, the others are silent",
		[]zone{misleads, nil, nil, misleads}, tooFew},
	{"the token together with a referral, two are silent", []zone{publishes, leads, nil, nil}, tooFew},
	{"one denies, two are silent", []zone{denies, nil, nil}, unknown(dnscheck.ReasonTimeout)},
	{"the token, the other denies", []zone{publishes, denies}, disagree},
	{"an alias, the others deny", []zone{denies, diverts, denies}, disagree},
	{"an alias to a zone of the attacker's, the other denies", []zone{misleads, denies}, disagree},
	{"an alias together with a referral", []zone{diverts, leads, nil, nil}, disagree},
	{"an alias together with the token", []zone{diverts, publishes, nil, nil}, disagree},
}

// TestHostileNameServersProveNothing has an attacker control at most half of a zone's servers
// while the resolvers see the token. Nothing is proven, whether the other servers deny the
// token or are silenced.
func TestHostileNameServersProveNothing(t *testing.T) {
	for _, test := range hostileServers {
		t.Run(test.name, func(t *testing.T) { test.provesNothing(t) })
	}
}

func (s proofScene) provesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := servedBy(t, s.answers...)
		for range 5 { // servers are queried in random order
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for i := range 3 { // each proof uses the cache of the previous one
				if i == 2 {
					look(t, c)
				}
				before := n.dials(evilAddr)
				v := prove(t, c)
				want(t, v, s.want.state, s.want.reason)
				if v.Basis != dnscheck.ByAuthority {
					t.Errorf("basis %s", v.Basis)
				}
				if n.dials(evilAddr) != before {
					t.Error("the attacker's server was queried")
				}
			}
		}
	})
}

// TestServerThatChangesItsAnswers has one hostile server give another answer to each query.
func TestServerThatChangesItsAnswers(t *testing.T) {
	for name, others := range map[string]zone{"the other denies": denies, "the other is silent": nil,
		"the other fails": servfail} {
		bubble(t, name, func(t *testing.T) {
			n := servedBy(t, inTurn(leads, publishes, diverts, nil, publishes, leads, refused), others)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for range 20 {
				look(t, c)
				if v := prove(t, c); v.State != dnscheck.Unknown && v.State != dnscheck.Absent {
					t.Errorf("verdict %s (%s): %+v", v.State, v.Reason, v.Observations)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

// TestReferralOfOneServerIsNotCached has a server that refers to the attacker, and later
// answers correctly.
func TestReferralOfOneServerIsNotCached(t *testing.T) {
	for way, ask := range ways {
		bubble(t, way, func(t *testing.T) {
			n := servedBy(t, leads, denies)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for range 10 {
				ask(t, c)
			}
			n.at(serverAddr(0), denies)
			v := prove(t, c)
			want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
			if len(v.Observations) != 2 || n.dials(evilAddr) != 0 {
				t.Errorf("%d queries to the attacker's server; observations %+v", n.dials(evilAddr), v.Observations)
			}
		})
	}
}

// TestOneDeadServerOfTwo checks that one of two servers proves nothing: an attacker who
// controls it can silence the other.
func TestOneDeadServerOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := servedBy(t, publishes, nil)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		v := prove(t, c)
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTooFew)
		for what, sentences := range map[string][2]string{
			"sentence": {
				v.Sentence(), "Only 1 of the 2 name servers of example.com answered for the TXT record at " + host +
					": more than half of them have to. No usable answer: ns2.example.com (5.1.0.2:53). " +
					"Repair it, or take it out at the registrar.",
			},
			"plain": {
				v.Plain(), "Too few of the domain's name servers answered for the TXT record at " + host +
					": more than half of them have to.",
			},
		} {
			if diff := cmp.Diff(sentences[1], sentences[0]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		n.quietAbout(host)
		n.at(serverAddr(1), publishes)
		want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestResolversDoNotReplaceSilentNameServersInAProof checks that resolvers do not decide when
// the zone's servers fail, because an attacker can silence them.
func TestResolversDoNotReplaceSilentNameServersInAProof(t *testing.T) {
	for name, test := range map[string]struct {
		servers []zone
		reason  dnscheck.Reason
	}{
		"silent":        {[]zone{nil, nil}, dnscheck.ReasonTimeout},
		"lame, failing": {[]zone{noName, servfail}, dnscheck.ReasonLame},
	} {
		bubble(t, name, func(t *testing.T) {
			n := servedBy(t, test.servers...)
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, test.reason)
			n.quietAbout(host)
		})
	}
}

// many adds servers of example.com, each at addrs addresses per family, and returns the
// delegation.
func many(n *internet, servers, addrs int, z zone) []dns.RR {
	var records []dns.RR
	for i := range servers {
		name := fmt.Sprintf("ns%d.example.com", i+1)
		records = append(records, ns("example.com", name))
		for j := range addrs {
			for _, addr := range []string{fmt.Sprintf("5.1.%d.%d", i, j+1), fmt.Sprintf("2a00::%x:%x", i+1, j+1)} {
				records = append(records, address(name, addr))
				n.at(addr, z)
			}
		}
	}
	return records
}

// TestProofsOfCalmWorlds checks that proofs without an attacker are present, and counts their
// queries to name servers, with a cold and a warm cache.
func TestProofsOfCalmWorlds(t *testing.T) {
	cut := func(zone, addr string) []dns.RR { return []dns.RR{ns(zone, "ns."+zone), address("ns."+zone, addr)} }
	at := func(records ...[]dns.RR) zone {
		return zoneOf(append([]dns.RR{start("example.com")}, slices.Concat(records...)...)...)
	}
	tests := []struct {
		name       string
		build      func(t *testing.T) *internet
		cold, warm int
		// spare is how many of the queries may be left out: the poll ends once each server has answered
		// at one address.
		spare int
	}{
		{"one server", func(t *testing.T) *internet { return servedBy(t, publishes) }, 2, 1, 0},
		{"two servers", func(t *testing.T) *internet { return servedBy(t, publishes, publishes) }, 3, 2, 0},
		{"four servers", func(t *testing.T) *internet {
			return servedBy(t, publishes, publishes, publishes, publishes)
		}, 5, 4, 0},
		{"eight servers", func(t *testing.T) *internet {
			return servedBy(t, publishes, publishes, publishes, publishes, publishes, publishes, publishes, publishes)
		}, 1 + 8, 8, 0},
		{"eight servers with four addresses, below a registry of thirteen", func(t *testing.T) *internet {
			n := newInternet(t)
			registry := zoneOf(append([]dns.RR{start("com")}, many(n, 8, 2, publishes)...)...)
			for i := range 13 {
				name, addr := fmt.Sprintf("%c.registry.net", 'a'+i), fmt.Sprintf("5.0.0.%d", i+1)
				n.know(ns("com", name), address(name, addr), address(name, "2a00::53:"+fmt.Sprint(i+1)))
				n.at(addr, registry)
				n.at("2a00::53:"+fmt.Sprint(i+1), registry)
			}
			n.know(txt(host, token))
			return n
		}, 13 + 32, 32, 32 - 8},
		{"two names at one address", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne),
				ns("example.com", "ns2.example.com"), address("ns2.example.com", nsOne))
			n.at(nsOne, publishes)
			n.know(txt(host, token))
			return n
		}, 2, 1, 0},
		{"addresses of one family out of reach", func(t *testing.T) *internet {
			n := overTLD(t)
			n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, many(n, 2, 1, publishes)...)...))
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.servers, "2a00::1:1")
			delete(n.servers, "2a00::2:1")
			n.known = append(n.known, txt(host, token))
			return n
		}, 1 + 2 + 2*2, 2 + 2*2, 2 * 2},
		{"one dead server of three", func(t *testing.T) *internet {
			return servedBy(t, publishes, nil, publishes)
		}, 1 + 4, 4, 0}, // the dead one is waited for, over TCP too
		{"a zone for each label", func(t *testing.T) *internet {
			n := servedBy(t, at(cut("org-1.example.com", "5.2.0.1")), at(cut("org-1.example.com", "5.2.0.1")))
			n.at("5.2.0.1", zoneOf(append([]dns.RR{start("org-1.example.com")}, cut(host, "5.2.0.2")...)...))
			n.at("5.2.0.2", zoneOf(start(host), txt(host, token)))
			return n
		}, 1 + 2 + 1 + 1, 1, 0},
		{"a zone at the verification label, one lame server of three above it", func(t *testing.T) *internet {
			n := servedBy(t, at(cut(host, "5.2.0.2")), noName, at(cut(host, "5.2.0.2")))
			n.at("5.2.0.2", zoneOf(start(host), txt(host, token)))
			return n
		}, 1 + 3 + 1 + 1, 1, 0}, // the lame one is queried again in the given letters
		{"a zone at the verification label that a server above holds as well", func(t *testing.T) *internet {
			above := append([]dns.RR{start("example.com")}, cut(host, serverAddr(0))...)
			return servedBy(t, zoneOf(append(slices.Clone(above), start(host), txt(host, token), ns(host, "ns."+host),
				address("ns."+host, serverAddr(0)))...),
				zoneOf(above...))
		}, 1 + 2 + 2 + 1, 1, 0}, // both are asked for the zone's name servers
		{"an alias into another zone", func(t *testing.T) *internet {
			n := servedBy(t, at([]dns.RR{cname(host, "_v.target.com")}), at([]dns.RR{cname(host, "_v.target.com")}))
			n.at(tldAddr, zoneOf(slices.Concat([]dns.RR{start("com")}, delegatedTo("example.com", 2),
				cut("target.com", "5.3.0.1"))...))
			n.at("5.3.0.1", zoneOf(start("target.com"), txt("_v.target.com", token)))
			return n
		}, 1 + 2 + 1 + 1 + 2*2, 2 + 1 + 2*2, 0}, // both are asked for a sibling, which they deny twice
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := test.build(t)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			for i, cost := range []int{test.cold, test.warm, test.warm} {
				before, atResolver := n.straight(), n.dials(resolverAddrs[0])
				v := prove(t, c)
				want(t, v, dnscheck.Present, dnscheck.ReasonFound)
				if v.Basis != dnscheck.ByBoth {
					t.Errorf("basis %s", v.Basis)
				}
				// With a cold cache, the last of a registry's servers may not need to be queried.
				if got := n.straight() - before; got > cost || (i > 0 && got < cost-test.spare) {
					t.Errorf("%d queries to name servers, want %d", got, cost)
				}
				most := 1 // for the host
				if i == 0 {
					most += 1 + 13*2 // a registry's servers, and two address types of each
				}
				if got := n.dials(resolverAddrs[0]) - atResolver; got > most {
					t.Errorf("%d queries to a resolver, want at most %d", got, most)
				}
			}
		})
	}
}

// TestMajorityCountsNamesAndAddresses checks that neither many addresses of one name nor many
// names of one address make a majority.
func TestMajorityCountsNamesAndAddresses(t *testing.T) {
	name := func(i int, addrs ...string) []dns.RR {
		server := fmt.Sprintf("ns%d.example.com", i)
		records := []dns.RR{ns("example.com", server)}
		for _, addr := range addrs {
			records = append(records, address(server, addr))
		}
		return records
	}
	tests := []struct {
		name      string
		delegated [][]dns.RR
		up        []string
		reason    dnscheck.Reason
	}{
		{"one name with four addresses, the other is silent",
			[][]dns.RR{name(1, "6.0.0.1", "6.0.0.2", "2a00::1", "2a00::2"), name(2, nsTwo)},
			[]string{"6.0.0.1", "6.0.0.2", "2a00::1", "2a00::2"}, dnscheck.ReasonTooFew},
		{"two names at one address, the third is silent", [][]dns.RR{name(1, nsOne), name(2, nsOne), name(3, nsTwo)},
			[]string{nsOne}, dnscheck.ReasonTooFew},
		{"one name with an address, the other without", [][]dns.RR{name(1, nsOne), name(2)},
			[]string{nsOne}, dnscheck.ReasonTooFew},
		{"four names at two addresses, three names without",
			[][]dns.RR{name(1, nsOne), name(2, nsOne), name(3, nsThree), name(4, nsThree), name(5), name(6), name(7)},
			[]string{nsOne, nsThree}, dnscheck.ReasonTooFew},
		{"two names at one address, two silent ones", [][]dns.RR{name(1, nsOne), name(2, nsOne), name(3, nsTwo),
			name(4, nsThree)}, []string{nsOne}, dnscheck.ReasonTooFew},
		{"two names at two addresses, the third is silent", [][]dns.RR{name(1, nsOne), name(2, nsThree), name(3, nsTwo)},
			[]string{nsOne, nsThree}, dnscheck.ReasonFound},
		{"two addresses of one name, one of them silent", [][]dns.RR{name(1, nsOne, nsTwo)},
			[]string{nsOne}, dnscheck.ReasonFound},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := overTLD(t, slices.Concat(test.delegated...)...)
			n.know(txt(host, token))
			n.at(nsTwo, nil)
			n.at(nsThree, nil)
			for _, addr := range test.up {
				n.at(addr, publishes)
			}
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if v.Reason != test.reason {
				t.Errorf("%s (%s), want %s: %s", v.State, v.Reason, test.reason, v.Sentence())
			}
		})
	}
}

// TestMoreServersThanAreQueried checks that a majority counts all delegated servers, including
// those that are not queried.
func TestMoreServersThanAreQueried(t *testing.T) {
	for name, test := range map[string]struct {
		servers int
		reason  dnscheck.Reason
	}{
		"all of sixteen":        {16, dnscheck.ReasonFound},
		"sixteen of thirty-one": {31, dnscheck.ReasonFound},
		"sixteen of thirty-two": {32, dnscheck.ReasonTooFew},
	} {
		bubble(t, name, func(t *testing.T) {
			n := overTLD(t, delegatedTo("example.com", test.servers)...)
			for i := range test.servers {
				n.at(serverAddr(i), publishes)
			}
			n.know(txt(host, token))
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if v.Reason != test.reason {
				t.Errorf("%s (%s), want %s", v.State, v.Reason, test.reason)
			}
		})
	}
	bubble(t, "and several servers refer to them", func(t *testing.T) {
		var records []dns.RR // the checker must choose the same subset from each server's referral
		for i := range 24 {
			name := fmt.Sprintf("ns%d.%s", i, host)
			records = append(records, ns(host, name), address(name, fmt.Sprintf("5.2.0.%d", i)))
		}
		refers := zoneOf(append([]dns.RR{start("example.com")}, records...)...)
		n := servedBy(t, refers, refers, refers)
		for i := range 24 {
			n.at(fmt.Sprintf("5.2.0.%d", i), zoneOf(start(host), txt(host, token)))
		}
		want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestDelegationsThatDiffer has the servers of a zone or a registry refer to different
// servers. The majority decides.
func TestDelegationsThatDiffer(t *testing.T) {
	old := zoneOf(start("example.com"), ns(host, "ns.old.net"))
	moved := zoneOf(start("example.com"), ns(host, "ns.new.net"))
	both := zoneOf(start("example.com"), ns(host, "ns.old.net"), ns(host, "ns.new.net"))
	tests := []struct {
		name    string
		servers []zone
		want    expected
	}{
		{"most have the new one", []zone{moved, old, moved}, expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"most have the old one", []zone{moved, old, old}, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{"each has its own", []zone{moved, old}, expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		{"one has one server more", []zone{moved, both}, expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		{"half have the new one", []zone{moved, old, moved, old}, expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		{"one has the new one, two are silent", []zone{moved, nil, nil}, expected{dnscheck.Unknown, dnscheck.ReasonTooFew}},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := servedBy(t, test.servers...)
			n.hosts(address("ns.old.net", "5.2.0.1"), address("ns.new.net", "5.2.0.2"))
			n.at("5.2.0.1", zoneOf(start(host)))
			n.at("5.2.0.2", zoneOf(start(host), txt(host, token)))
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if test.want.reason == dnscheck.ReasonNoName {
				test.want.reason = dnscheck.ReasonNoRecord // the zone begins at the host
			}
			want(t, v, test.want.state, test.want.reason)
			if test.want.reason == dnscheck.ReasonServersDisagree {
				const sentence = "The domain's name servers disagree about the TXT record at " + host +
					": they refer to different name servers."
				if diff := cmp.Diff(sentence, v.Sentence()); diff != "" {
					t.Errorf("sentence (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("at a registry", func(t *testing.T) {
		for lies, wanted := range []expected{
			{dnscheck.Absent, dnscheck.ReasonNoName}, {dnscheck.Absent, dnscheck.ReasonNoName},
			{dnscheck.Present, dnscheck.ReasonFound},
		} {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, denies, denies)
				honest, hostile := n.servers[tldAddr],
					zoneOf(start("com"), ns("example.com", "ns.example.com"), address("ns.example.com", evilAddr))
				for i := range 3 {
					name, addr := fmt.Sprintf("%c.registry.net", 'b'+i), fmt.Sprintf("5.0.1.%d", i)
					n.know(address(name, addr))
					n.at(addr, honest)
					if i < lies {
						n.at(addr, hostile)
					}
				}
				n.known[0] = ns("com", "b.registry.net")
				n.know(ns("com", "c.registry.net"), ns("com", "d.registry.net"))
				want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), wanted.state, wanted.reason)
			})
		}
	})
}

// TestReferralNextToTheToken has one of two servers refer to the attacker's, which denies the
// token. The other server has it: a record that is published is not absent.
func TestReferralNextToTheToken(t *testing.T) {
	for way, ask := range ways {
		bubble(t, way, func(t *testing.T) {
			n := servedBy(t, leads, publishes)
			n.at(evilAddr, zoneOf(start(host)))
			v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if n.dials(evilAddr) > 0 {
				t.Error("the attacker's server was queried")
			}
			if way == "look" { // a proof follows
				want(t, v, dnscheck.Present, dnscheck.ReasonFound)
				return
			}
			want(t, v, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
			const says = "ns2.example.com has it, ns1.example.com refers to other name servers."
			if !strings.HasSuffix(v.Sentence(), says) {
				t.Errorf("sentence %q, want %q at its end", v.Sentence(), says)
			}
		})
	}
}

// TestTokenAboveAZoneThatDeniesIt has one of two servers hold the token itself, above the zone of
// the host, to which both refer where they are asked for its name servers. That zone denies the
// token: a record that one of the servers has is not absent.
func TestTokenAboveAZoneThatDeniesIt(t *testing.T) {
	holds := func(q *dns.Msg) *dns.Msg {
		if q.Question[0].Qtype == dns.TypeNS {
			return leads(q)
		}
		return publishes(q)
	}
	for way, ask := range ways {
		bubble(t, way, func(t *testing.T) {
			n := servedBy(t, leads, holds)
			n.at(evilAddr, zoneOf(start(host)))
			v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if n.dials(evilAddr) == 0 {
				t.Error("the zone below was not queried")
			}
			want(t, v, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
			if !slices.ContainsFunc(v.Observations, func(o dnscheck.Observation) bool {
				return o.State == dnscheck.Present && o.Resolver == "ns2.example.com"
			}) {
				t.Errorf("the server that has the token is not among %+v", v.Observations)
			}
		})
	}
}

// TestLateAnswerNextToReferrals has two of three servers refer to a zone that holds the token.
// The third answers later.
func TestLateAnswerNextToReferrals(t *testing.T) {
	refers := zoneOf(start("example.com"), ns(host, "ns."+host), address("ns."+host, "5.2.0.1"))
	for name, test := range map[string]struct {
		late zone
		want expected
	}{
		"a no":     {denies, expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		"an alias": {diverts, expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		"the same": {refers, expected{dnscheck.Present, dnscheck.ReasonFound}},
	} {
		bubble(t, name, func(t *testing.T) {
			n := servedBy(t, refers, refers, func(q *dns.Msg) *dns.Msg {
				time.Sleep(dnscheck.Grace - time.Millisecond)
				return test.late(q)
			})
			n.at("5.2.0.1", zoneOf(start(host), txt(host, token)))
			want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), test.want.state, test.want.reason)
		})
	}
}

// TestGlueOfOneServerIsRejected has one of three servers give other glue addresses for the
// right names.
func TestGlueOfOneServerIsRejected(t *testing.T) {
	cut := func(addrs ...string) zone {
		records := []dns.RR{start("example.com"), ns(host, "ns."+host)}
		for _, addr := range addrs {
			records = append(records, address("ns."+host, addr))
		}
		return zoneOf(records...)
	}
	for name, hostile := range map[string]zone{"in place of the right one": cut(evilAddr),
		"beside the right one": cut("5.2.0.1", evilAddr), "none": cut()} {
		bubble(t, name, func(t *testing.T) {
			n := servedBy(t, hostile, cut("5.2.0.1"), cut("5.2.0.1"))
			n.at("5.2.0.1", zoneOf(start(host)))
			want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Absent, dnscheck.ReasonNoRecord)
			if n.dials(evilAddr) != 0 {
				t.Error("the attacker's server was queried")
			}
		})
	}
}

// TestAddressesInCachesAreBounded has name servers with many addresses each. The caches keep
// only the addresses that are queried.
func TestAddressesInCachesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addresses = 30
		cut := []dns.RR{start("example.com"), ns(host, "ns."+host), ns(host, "ns.elsewhere.net")}
		n := servedBy(t, nil, nil, nil)
		for i := range addresses {
			private, public := fmt.Sprintf("10.0.%d.%d", i/250, i%250), fmt.Sprintf("5.2.%d.%d", i/250, i%250)
			cut = append(cut, address("ns."+host, private), address("ns."+host, public))
			n.hosts(address("ns.elsewhere.net", private), address("ns.elsewhere.net", public))
			n.at(public, zoneOf(start(host), txt(host, token)))
		}
		for i := range 3 {
			n.at(serverAddr(i), zoneOf(cut...))
		}
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
		const most = 4 * dnscheck.MaxAddrs // two families, public and special-purpose
		if glue, own := dnscheck.MostAddresses(c); glue == 0 || own == 0 || glue > most || own > most {
			t.Errorf("the caches have %d and %d addresses of a name server, want 1 to %d", glue, own, most)
		}
	})
}

// TestSentenceOfAReferralNextToAnAnswer checks that the sentence names the servers that refer
// elsewhere.
func TestSentenceOfAReferralNextToAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		other zone
		says  string
	}{
		"a no": {denies, "ns2.example.com does not, ns1.example.com refers to other name servers."},
		"an alias": {zoneOf(start("example.com"), cname(host, "a.example.com")),
			"ns2.example.com does not, ns1.example.com refers to other name servers."},
	} {
		bubble(t, name, func(t *testing.T) {
			v := prove(t, servedBy(t, leads, test.other).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want := "The domain's name servers disagree about the TXT record at " + host + ": " + test.says
			if diff := cmp.Diff(want, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRedirectedPort53 has one resolver answer for all name servers, as some networks do, or
// nobody. The resolvers have the token, but do not decide in the name servers' place, now or on
// another day: each of them may have asked one hostile server.
func TestRedirectedPort53(t *testing.T) {
	tests := []struct {
		name string
		tld  zone // nil: port 53 is closed
		want dnscheck.Reason
	}{
		{"redirected", holding(token), dnscheck.ReasonLame},
		{"redirected to what refuses", refused, dnscheck.ReasonRefused},
		{"closed", nil, dnscheck.ReasonTimeout},
	}
	everyWay := maps.Clone(ways)
	everyWay["disprove"] = disprove
	for _, test := range tests {
		for way, ask := range everyWay {
			bubble(t, test.name+", "+way, func(t *testing.T) {
				n := servedBy(t, denies, denies)
				n.at(tldAddr, test.tld)
				c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
				for range 3 {
					if way == "disprove" { // a sighting is one, wherever it is
						want(t, ask(t, c), dnscheck.Present, dnscheck.ReasonFound)
					} else {
						want(t, ask(t, c), dnscheck.Unknown, test.want)
						n.quietAbout(host)
					}
					time.Sleep(24 * time.Hour)
				}
			})
		}
	}
}
