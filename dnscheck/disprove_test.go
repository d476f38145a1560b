package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// disprove returns the verdict of a disproof for the host and token.
func disprove(t *testing.T, c *dnscheck.Checker) dnscheck.Verdict {
	t.Helper()
	v, err := c.Disprove(t.Context(), host, token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Further answers for or against the token, of resolvers and, with authority, of name servers.
var (
	never = zone(func(q *dns.Msg) *dns.Msg {
		time.Sleep(time.Hour)
		return answer(q)
	})
	against = zone(func(q *dns.Msg) *dns.Msg { // contradicts itself: a record, and NXDOMAIN
		m := answer(q, txt(q.Question[0].Name, token))
		m.Rcode = dns.RcodeNameError
		return m
	})
	beside = zone(func(q *dns.Msg) *dns.Msg {
		return answer(q, txt(q.Question[0].Name, other), txt("_x.example.com", token))
	})
	ambiguous = zone(func(q *dns.Msg) *dns.Msg {
		return answer(q, cname(q.Question[0].Name, "a.example.com"), txt(q.Question[0].Name, other))
	})
	upward = zone(func(q *dns.Msg) *dns.Msg {
		m := straight(answer(q))
		m.Ns = []dns.RR{ns(".", "a.root-servers.net")}
		return m
	})
)

// with adds an extended error to the answers of z.
func with(code uint16, z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := z(q)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code}}
		return m
	}
}

// saidBy answers NXDOMAIN with the SOA records of these zones, if any.
func saidBy(zones ...string) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := nothing(q)
		for _, z := range zones {
			m.Ns = append(m.Ns, start(z))
		}
		return m
	}
}

// resolverDisproof is the answers of the resolvers to a disproof in ModeResolvers.
type resolverDisproof struct {
	name   string
	zones  []zone
	quorum int
	want   expected
}

var resolverDisproofs = []resolverDisproof{
	{"all no", []zone{noName, noName, noName}, 0, absent(dnscheck.ReasonNoName)},
	{"no in three ways", []zone{noName, noRecord, noValue}, 0, absent(dnscheck.ReasonOtherValue)},
	{"no name, and no record", []zone{noName, noRecord, noName}, 0, absent(dnscheck.ReasonNoRecord)},
	{"all yes", []zone{yes, yes, yes}, 0, found},
	{"one of three sees it", []zone{noName, noName, yes}, 0, found},
	{"one of three sees it, others have another value", []zone{yes, noValue, noValue}, 0, found},
	{"one sees it, the others fail", []zone{servfail, yes, never}, 0, found},
	{"one of five sees it", []zone{noName, noName, noName, noName, yes}, 0, found},
	{"one fails", []zone{noName, servfail, noName}, 0, absent(dnscheck.ReasonNoName)},
	{"one is silent", []zone{noName, noName, never}, 0, absent(dnscheck.ReasonNoName)},
	{"one refuses", []zone{refused, noName, noName}, 0, absent(dnscheck.ReasonNoName)},
	{"one refers upward", []zone{noName, upward, noName}, 0, absent(dnscheck.ReasonNoName)},
	{"one filters", []zone{noName, with(dns.ExtendedErrorCodeFiltered, noName), noName}, 0, absent(dnscheck.ReasonNoName)},
	{"one has an old no", []zone{noName, noName, with(dns.ExtendedErrorCodeStaleNXDOMAINAnswer, noName)}, 0,
		absent(dnscheck.ReasonNoName)},
	{"two fail", []zone{servfail, noName, servfail}, 0, unknown(dnscheck.ReasonServFail)},
	{"two are silent", []zone{never, never, noName}, 0, unknown(dnscheck.ReasonTimeout)},
	{"two refuse", []zone{noName, refused, refused}, 0, unknown(dnscheck.ReasonRefused)},
	{"two filter", []zone{with(dns.ExtendedErrorCodeBlocked, noName), with(dns.ExtendedErrorCodeCensored, noName), noName},
		0, unknown(dnscheck.ReasonRefused)},
	{"two have an old no", []zone{with(dns.ExtendedErrorCodeStaleAnswer, noName), noName,
		with(dns.ExtendedErrorCodeStaleNXDOMAINAnswer, noName)}, 0, unknown(dnscheck.ReasonServFail)},
	{"one fails and one is silent", []zone{noName, servfail, never}, 0, unknown(dnscheck.ReasonServFail)},
	{"two of four", []zone{noName, noName, servfail, servfail}, 0, unknown(dnscheck.ReasonServFail)},
	{"three of four", []zone{noName, noName, noName, servfail}, 0, absent(dnscheck.ReasonNoName)},
	{"one of one", []zone{noName}, 0, absent(dnscheck.ReasonNoName)},
	{"one of two", []zone{noName, never}, 0, unknown(dnscheck.ReasonTimeout)},
	{"a majority that is no quorum", []zone{noName, noName, noName, servfail, servfail}, 0,
		unknown(dnscheck.ReasonServFail)},
	{"four of five", []zone{noName, noName, noName, noName, servfail}, 0, absent(dnscheck.ReasonNoName)},
	{"a high quorum that is not reached", []zone{noName, noName, servfail}, 3, unknown(dnscheck.ReasonServFail)},
	{"a high quorum", []zone{noName, noName, noName}, 3, absent(dnscheck.ReasonNoName)},

	{"an old yes shows nothing, and is not nothing", []zone{noName, noName, with(dns.ExtendedErrorCodeStaleAnswer, yes)},
		0, unknown(dnscheck.ReasonMalformed)},
	{"the token at another name together with a denial", []zone{noName, beside, noName}, 0,
		unknown(dnscheck.ReasonMalformed)},
	{"one speaks against itself", []zone{noName, against, noName}, 0, unknown(dnscheck.ReasonMalformed)},
	{"one has an alias together with records", []zone{noName, ambiguous, noName}, 0, unknown(dnscheck.ReasonAlias)},
	{"one finds it bogus", []zone{noName, noName, bogus}, 0, unknown(dnscheck.ReasonDNSSEC)},
	{"one finds it bogus and gives it", []zone{with(dns.ExtendedErrorCodeDNSBogus, yes), noName, noName}, 0,
		unknown(dnscheck.ReasonDNSSEC)},

	{"one says no without a zone", []zone{noName, noName, saidBy()}, 0, absent(dnscheck.ReasonNoName)},
	{"two say no without a zone", []zone{saidBy(), noName, saidBy()}, 0, unknown(dnscheck.ReasonRefused)},
	{"all say so without a zone", []zone{empty, empty, empty}, 0, unknown(dnscheck.ReasonRefused)},
	{"all say so for the root", []zone{saidBy("."), saidBy("."), saidBy(".")}, 0, unknown(dnscheck.ReasonRefused)},
	{"all say so for another zone", []zone{saidBy("rpz.local"), saidBy("org-2.example.com"), saidBy("com.evil.net")}, 0,
		unknown(dnscheck.ReasonRefused)},
	{"by the domain, the top-level domain and the host", []zone{saidBy("example.com"), saidBy("com"), saidBy("org", host)},
		0, absent(dnscheck.ReasonNoName)},
}

// TestDisproofByResolvers checks ModeResolvers: the verdict must not depend on the order of
// answers.
func TestDisproofByResolvers(t *testing.T) {
	for _, test := range resolverDisproofs {
		t.Run(test.name, func(t *testing.T) {
			for _, zones := range [][]zone{test.zones, backwards(test.zones)} {
				synctest.Test(t, func(t *testing.T) {
					c := inMemory(t, dnscheck.Config{Quorum: test.quorum}, zones...)
					v := disprove(t, c)
					want(t, v, test.want.state, test.want.reason)
					if v.Basis != dnscheck.ByResolvers || len(v.Observations) != len(zones) {
						t.Errorf("basis %s, %d observations", v.Basis, len(v.Observations))
					}
				})
			}
		})
	}
}

// empty answers without records and without an SOA.
var empty = zone(func(q *dns.Msg) *dns.Msg { return answer(q) })

func backwards(zones []zone) []zone {
	zones = slices.Clone(zones)
	slices.Reverse(zones)
	return zones
}

// threeServers returns an internet with three servers of example.com.
func threeServers(t *testing.T, zones ...zone) *internet {
	n := overTLD(t, append(twoServers(), ns("example.com", "ns3.example.com"), address("ns3.example.com", nsThree))...)
	for i, address := range []string{nsOne, nsTwo, nsThree} {
		n.at(address, zones[i])
	}
	return n
}

const nsThree = "5.1.0.3"

// resolved makes the i-th resolver answer for the host as the i-th zone, and truthfully for
// all other names.
func (n *internet) resolved(zones ...zone) {
	for i, address := range resolverAddrs {
		n.at(address, func(q *dns.Msg) *dns.Msg {
			if asksFor(q, host) {
				return zones[i](q)
			}
			return n.resolver(q)
		})
	}
}

// authoritatively makes the answers of z authoritative.
func authoritatively(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := straight(z(q))
		m.Authoritative = true
		return m
	}
}

// disproofScene is the answers of the name servers and the resolvers to a disproof.
type disproofScene struct {
	name               string
	servers, resolvers []zone
	want               expected
	basis              dnscheck.Basis
}

func disproofScenes() []disproofScene {
	has, lacks, another := zoneOf(start("example.com"), txt(host, token)), zoneOf(start("example.com")),
		zoneOf(start("example.com"), txt(host, other))
	aliased := func(target string) zone { return zoneOf(start("example.com"), cname(host, target)) }
	lameAtHost := zone(func(q *dns.Msg) *dns.Msg {
		if asksFor(q, host) {
			return yes(q)
		}
		return lacks(q)
	})
	no := []zone{noName, noName, noName}
	return []disproofScene{
		{"none has it", []zone{lacks, lacks, lacks}, no, absent(dnscheck.ReasonNoName), dnscheck.ByBoth},
		{"no in several ways", []zone{another, lacks, lacks}, []zone{noValue, noRecord, noName},
			absent(dnscheck.ReasonOtherValue), dnscheck.ByBoth},
		{"everybody has it", []zone{has, has, has}, []zone{yes, yes, yes}, found, dnscheck.ByBoth},
		{"one name server has it", []zone{lacks, lacks, has}, no, found, dnscheck.ByAuthority},
		{"one name server has it, the others are silent", []zone{nil, has, nil}, no, found, dnscheck.ByAuthority},
		{"one name server has it, another an alias", []zone{aliased("a.example.com"), has, lacks}, no,
			found, dnscheck.ByAuthority},
		{"the resolvers still have it", []zone{lacks, lacks, lacks}, []zone{yes, yes, yes}, found, dnscheck.ByResolvers},
		{"one resolver still has it", []zone{lacks, lacks, lacks}, []zone{noName, yes, noName}, found, dnscheck.ByResolvers},
		{"one resolver still has it, the name servers are silent", []zone{nil, nil, nil}, []zone{noName, yes, noName},
			found, dnscheck.ByResolvers},

		{"all name servers are silent", []zone{nil, nil, nil}, no, unknown(dnscheck.ReasonTimeout), dnscheck.ByAuthority},
		{"all name servers fail", []zone{servfail, servfail, servfail}, no,
			unknown(dnscheck.ReasonServFail), dnscheck.ByAuthority},
		{"all name servers refuse", []zone{refused, refused, refused}, no,
			unknown(dnscheck.ReasonRefused), dnscheck.ByAuthority},
		{"all name servers are lame", []zone{noName, noName, noName}, no, unknown(dnscheck.ReasonLame), dnscheck.ByAuthority},
		{"all name servers refer upward", []zone{upward, upward, upward}, no,
			unknown(dnscheck.ReasonLame), dnscheck.ByAuthority},
		{"all name servers have an old no", []zone{with(dns.ExtendedErrorCodeStaleAnswer, lacks),
			with(dns.ExtendedErrorCodeStaleAnswer, lacks), servfail}, no,
			unknown(dnscheck.ReasonServFail), dnscheck.ByAuthority},
		{"one name server fails", []zone{lacks, lacks, servfail}, no, absent(dnscheck.ReasonNoName), dnscheck.ByBoth},
		{"one name server is silent", []zone{nil, lacks, lacks}, no, absent(dnscheck.ReasonNoName), dnscheck.ByBoth},
		{"one name server is lame", []zone{lacks, noName, lacks}, no, absent(dnscheck.ReasonNoName), dnscheck.ByBoth},
		{"two name servers fail", []zone{lacks, servfail, servfail}, no,
			unknown(dnscheck.ReasonServFail), dnscheck.ByAuthority},
		{"two name servers are lame", []zone{refused, lacks, noName}, no, unknown(dnscheck.ReasonLame), dnscheck.ByAuthority},

		{"a lame name server has it", []zone{lacks, yes, lacks}, no, unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"a name server has it of before", []zone{lacks, with(dns.ExtendedErrorCodeStaleAnswer, has), lacks}, no,
			unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"a name server speaks against itself", []zone{authoritatively(against), lacks, lacks}, no,
			unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"a name server has an alias together with records", []zone{authoritatively(ambiguous), lacks, lacks}, no,
			unknown(dnscheck.ReasonAlias), dnscheck.ByAuthority},
		{"a name server answers for another name", []zone{says(txt("_v.org-2.example.com", other)), lacks, lacks}, no,
			unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"a lame name server has it, the others an alias of nothing",
			[]zone{aliased("a.example.com"), lameAtHost, aliased("a.example.com")}, no,
			unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"one name server has an alias", []zone{lacks, aliased("a.example.com"), lacks}, no,
			unknown(dnscheck.ReasonServersDisagree), dnscheck.ByAuthority},
		{"two aliases", []zone{aliased("a.example.com"), aliased("b.example.com"), aliased("a.example.com")}, no,
			unknown(dnscheck.ReasonServersDisagree), dnscheck.ByAuthority},
		{"aliases in a circle", []zone{aliased(host), aliased(host), aliased(host)}, no,
			unknown(dnscheck.ReasonAlias), dnscheck.ByAuthority},
		{"an alias of nothing", []zone{aliased("a.example.com"), aliased("a.example.com"), aliased("a.example.com")}, no,
			absent(dnscheck.ReasonNoName), dnscheck.ByBoth},

		{"a resolver fails", []zone{lacks, lacks, lacks}, []zone{servfail, noName, noName},
			absent(dnscheck.ReasonNoName), dnscheck.ByBoth},
		{"two resolvers fail", []zone{lacks, lacks, lacks}, []zone{servfail, noName, never},
			unknown(dnscheck.ReasonServFail), dnscheck.ByBoth},
		{"all resolvers are silent", []zone{lacks, lacks, lacks}, []zone{never, never, never},
			unknown(dnscheck.ReasonTimeout), dnscheck.ByBoth},
		{"a resolver finds it bogus", []zone{lacks, lacks, lacks}, []zone{noName, bogus, noName},
			unknown(dnscheck.ReasonDNSSEC), dnscheck.ByBoth},
		{"the domain's own fault is reported first", []zone{nil, nil, nil}, []zone{bogus, bogus, bogus},
			unknown(dnscheck.ReasonDNSSEC), dnscheck.ByBoth},

		{"a parked zone", []zone{says(txt(host, "for sale")), says(txt(host, "for sale")), says(txt(host, "for sale"))},
			[]zone{holding("for sale"), holding("for sale"), holding("for sale")},
			absent(dnscheck.ReasonOtherValue), dnscheck.ByBoth},
		{"a parked zone with one address for each name", []zone{says(address(host, "5.5.5.5")),
			says(address(host, "5.5.5.5")), says(address(host, "5.5.5.5"))},
			no, unknown(dnscheck.ReasonMalformed), dnscheck.ByAuthority},
		{"a wildcard with another value", []zone{withWildcard(txt("*.example.com", other), start("example.com")),
			withWildcard(txt("*.example.com", other), start("example.com")), lacks},
			[]zone{noValue, noValue, noName}, absent(dnscheck.ReasonOtherValue), dnscheck.ByBoth},
		{
			"a wildcard with the token at one name server", []zone{lacks, lacks,
				withWildcard(txt("*.example.com", token), start("example.com"))}, no, found, dnscheck.ByAuthority,
		},
	}
}

// TestDisproofByBoth checks how name servers and resolvers disprove together.
func TestDisproofByBoth(t *testing.T) {
	for _, test := range disproofScenes() {
		bubble(t, test.name, func(t *testing.T) {
			n := threeServers(t, test.servers...)
			n.resolved(test.resolvers...)
			v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, test.want.state, test.want.reason)
			if v.Basis != test.basis {
				t.Errorf("basis %s, want %s", v.Basis, test.basis)
			}
			if v.Operator != "example" || v.Quorum != 2 || v.Resolvers != 3 || v.Host != host {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// TestDisproofOfManyServers checks that no token is absent while a server is not queried: of 24,
// those that are may all deny it while eight others have it.
func TestDisproofOfManyServers(t *testing.T) {
	for _, test := range []struct {
		servers int
		want    expected
	}{
		{9, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{dnscheck.MaxServers, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{dnscheck.MaxServers + 1, expected{dnscheck.Unknown, dnscheck.ReasonTooFew}},
		{24, expected{dnscheck.Unknown, dnscheck.ReasonTooFew}},
		{2 * dnscheck.MaxServers, expected{dnscheck.Unknown, dnscheck.ReasonTooFew}},
	} {
		bubble(t, fmt.Sprint(test.servers), func(t *testing.T) {
			n := overTLD(t, delegatedTo("example.com", test.servers)...)
			for i := range test.servers {
				n.at(serverAddr(i), denies)
			}
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			disprove(t, c)
			for i := range test.servers {
				if n.dials(serverAddr(i)) == 0 {
					n.at(serverAddr(i), publishes)
				}
			}
			v := disprove(t, c)
			want(t, v, test.want.state, test.want.reason)
			const says = "Only 16 of the 24 name servers of example.com answered for the TXT record at " + host +
				": each of them has to."
			if test.servers == 24 && v.Sentence() != says {
				t.Errorf("sentence %q, want %q", v.Sentence(), says)
			}
		})
	}
}

// TestDisproofUsesNoCache checks that a disproof resolves the delegation from the top-level
// domain down, without cached data.
func TestDisproofUsesNoCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := delegated(t)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		n.at(tldAddr, zoneOf(start("com"), ns("example.com", "ns.moved.com"), ns("moved.com", "ns.moved.com"),
			address("ns.moved.com", "5.7.0.1")))
		n.at("5.7.0.1", zoneOf(start("example.com"), txt(host, token)))
		want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		v := disprove(t, c)
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		if v.Basis != dnscheck.ByAuthority || v.Operator != "moved" {
			t.Errorf("basis %s, operator %q", v.Basis, v.Operator)
		}
	})
}

// TestDisproofWaitsForAll checks that a disproof waits for every server and resolver, up to
// the timeout of each.
func TestDisproofWaitsForAll(t *testing.T) {
	late := func(by time.Duration, z zone) zone {
		return func(q *dns.Msg) *dns.Msg {
			time.Sleep(by)
			return z(q)
		}
	}
	lacks, has := zoneOf(start("example.com")), zoneOf(start("example.com"), txt(host, token))
	tests := []struct {
		name               string
		servers, resolvers []zone
		want               dnscheck.State
		took               time.Duration
	}{
		{"nobody is slow", []zone{lacks, lacks, lacks}, []zone{noName, noName, noName}, dnscheck.Absent, 0},
		{"a resolver sees it late", []zone{lacks, lacks, lacks},
			[]zone{noName, noName, late(dnscheck.DefaultTimeout-time.Millisecond, yes)}, dnscheck.Present,
			dnscheck.DefaultTimeout - time.Millisecond},
		{"a name server has it late", []zone{lacks, lacks, late(990*time.Millisecond, has)}, []zone{noName, noName, noName},
			dnscheck.Present, 990 * time.Millisecond},
		{"a name server has it late, after a contradiction",
			[]zone{lacks, zoneOf(start("example.com"), cname(host, "a.example.com")), late(990*time.Millisecond, has)},
			[]zone{noName, noName, noName}, dnscheck.Present, 990 * time.Millisecond},
		{"a name server is silent, over UDP and TCP", []zone{lacks, lacks, nil}, []zone{noName, noName, noName},
			dnscheck.Absent, 2 * time.Second},
		{"a resolver is silent, over UDP and TCP", []zone{lacks, lacks, lacks}, []zone{noName, noName, never},
			dnscheck.Absent, 2 * dnscheck.DefaultTimeout},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := threeServers(t, test.servers...)
			n.resolved(test.resolvers...)
			var mu sync.Mutex
			told := 0
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority, Observe: func(dnscheck.Observation) {
				mu.Lock()
				defer mu.Unlock()
				told++
			}})
			began := time.Now()
			v := disprove(t, c)
			if v.State != test.want || time.Since(began) != test.took {
				t.Errorf("%s after %s, want %s after %s", v.State, time.Since(began), test.want, test.took)
			}
			var asked []string
			for _, o := range v.Observations {
				asked = append(asked, o.Resolver)
			}
			slices.Sort(asked)
			everybody := []string{"10.9.0.1:53", "10.9.1.1:53", "10.9.2.1:53", "ns1.example.com",
				"ns2.example.com", "ns3.example.com"}
			if diff := cmp.Diff(everybody, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if told != len(everybody) {
				t.Errorf("told of %d observations", told)
			}
		})
	}
}

// TestDisproofCountsServersAboveAReferral checks that an answer of one of a zone's servers
// counts even if the other servers refer to a child zone.
func TestDisproofCountsServersAboveAReferral(t *testing.T) {
	refers := []dns.RR{start("example.com"), ns(host, "ns.child.net")}
	holds := func(record dns.RR) zone {
		return zoneOf(append(slices.Clone(refers), start(host), ns(host, "ns.child.net"), record)...)
	}
	for name, test := range map[string]struct {
		beside   zone
		want     dnscheck.State
		operator string
	}{
		"with the token": {holds(txt(host, token)), dnscheck.Present, "child"},
		// contradicts the referrals
		"with another value":                {holds(txt(host, other)), dnscheck.Unknown, "example"},
		"with the token, without authority": {yes, dnscheck.Unknown, "child"},
	} {
		for others, count := range map[string]int{"one other": 1, "two others": 2} {
			bubble(t, name+", "+others, func(t *testing.T) {
				n := overTLD(t, delegatedTo("example.com", count+1)...)
				n.at(serverAddr(0), test.beside)
				for i := range count {
					n.at(serverAddr(i+1), zoneOf(refers...))
				}
				n.hosts(address("ns.child.net", "5.2.0.1"))
				n.at("5.2.0.1", zoneOf(start(host)))
				v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
				operator := test.operator
				if count == 1 && test.want != dnscheck.Present { // the referral has no majority
					operator = "example"
				}
				if v.State != test.want || v.Operator != operator {
					t.Errorf("%s, operator %q: %+v", v.State, v.Operator, v.Observations)
				}
				if seen := v.Observations[0]; test.want == dnscheck.Present && (seen.State != dnscheck.Present ||
					seen.Resolver != "ns1.example.com") {
					t.Errorf("first observation %+v", seen)
				}
			})
		}
	}
}

// TestDisproofDoesNotFollowTheReferralOfOne has one server refer to an attacker's server while
// the others are silent.
func TestDisproofDoesNotFollowTheReferralOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := threeServers(t, leads, nil, nil)
		n.at(evilAddr, zoneOf(start(host)))
		n.resolved(noName, noName, noName)
		v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTooFew)
	})
}

// TestDisproofThatWasCutShort checks that a disproof is unknown if it exceeds its limit on
// queries or time.
func TestDisproofThatWasCutShort(t *testing.T) {
	bubble(t, "by its queries", func(t *testing.T) {
		big := func(n *internet, zone, net string, records ...dns.RR) (delegation []dns.RR) {
			for i := range dnscheck.MaxServers {
				name := fmt.Sprintf("ns%d.%s", i, zone)
				delegation = append(delegation, ns(zone, name))
				for j := range 4 {
					addr := fmt.Sprintf("%s.%d.%d", net, i, j)
					if j > 1 {
						addr = fmt.Sprintf("2a00:%s::%d:%d", strings.ReplaceAll(net, ".", ":"), i, j)
					}
					delegation = append(delegation, address(name, addr))
					n.at(addr, zoneOf(append([]dns.RR{start(zone)}, records...)...))
				}
			}
			return delegation
		}
		n := newInternet(t)
		n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
		records := append([]dns.RR{start("com")}, big(n, "example.com", "5.1", cname(host, "_v.a.com"))...)
		// Each zone takes 65 queries, including one for its delegation. Most servers of
		// the last zone answer, at some addresses, each twice.
		for i, zone := range []string{"a.com", "b.com", "c.com", "d.com", "e.com"} {
			records = append(records, big(n, zone, fmt.Sprintf("5.%d", i+2),
				cname("_v."+zone, fmt.Sprintf("_v.%c.com", zone[0]+1)))...)
		}
		records = append(records, big(n, "f.com", "5.9")...)
		n.at(tldAddr, zoneOf(records...))
		v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonDelegation)
		if got := n.straight(); got > dnscheck.MaxQueries {
			t.Errorf("%d queries", got)
		}
	})
	bubble(t, "by its time", func(t *testing.T) {
		const hops = 4
		lacks := zoneOf(append([]dns.RR{start("example.com")}, aliases(hops)[:hops]...)...)
		n := threeServers(t, lacks, lacks, nil) // two seconds per alias
		com := n.servers[tldAddr]
		n.at(tldAddr, func(q *dns.Msg) *dns.Msg {
			time.Sleep(100 * time.Millisecond)
			return com(q)
		})
		began := time.Now()
		v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := time.Since(began); took != dnscheck.ProofTime {
			t.Errorf("took %s", took)
		}
	})
}

// TestDisproofKeepsObservationsOfTheToken checks that the limit on evidence does not drop an
// observation of the token.
func TestDisproofKeepsObservationsOfTheToken(t *testing.T) {
	for range 5 { // servers are queried in random order
		synctest.Test(t, func(t *testing.T) {
			n := newInternet(t)
			n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
			records := []dns.RR{start("com")}
			for i := range dnscheck.MaxServers {
				name := fmt.Sprintf("ns%d.example.com", i)
				records = append(records, ns("example.com", name))
				for j := range 4 {
					addr := fmt.Sprintf("5.1.%d.%d", i, j)
					if j > 1 {
						addr = fmt.Sprintf("2a00::%d:%d", i, j)
					}
					records = append(records, address(name, addr))
					n.at(addr, zoneOf(start("example.com")))
				}
			}
			n.at("5.1.5.1", zoneOf(start("example.com"), txt(host, token)))
			n.at(tldAddr, zoneOf(records...))
			v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			if got := len(v.Observations); got != dnscheck.MaxShown+3 {
				t.Errorf("%d observations", got)
			}
			if o := v.Observations[0]; o.State != dnscheck.Present || o.Address != "5.1.5.1:53" {
				t.Errorf("first %+v", o)
			}
		})
	}
}

// TestDisproofWherePort53IsClosed checks that the resolvers do not disprove alone, for however long
// no name server has answered.
func TestDisproofWherePort53IsClosed(t *testing.T) {
	unknown := func(t *testing.T, v dnscheck.Verdict) {
		t.Helper()
		if v.State != dnscheck.Unknown || v.Basis != dnscheck.ByAuthority || v.Note == "" {
			t.Errorf("%s (%s) by %s, note %q", v.State, v.Reason, v.Basis, v.Note)
		}
	}
	bubble(t, "for days", func(t *testing.T) {
		n := delegated(t)
		n.at(tldAddr, nil)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		for range 4 {
			look(t, c)
			unknown(t, disprove(t, c))
			time.Sleep(13 * time.Hour)
		}
	})
	bubble(t, "open again", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		com := n.servers[tldAddr]
		n.at(tldAddr, nil)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		look(t, c)
		n.at(tldAddr, com)
		want(t, disprove(t, c), dnscheck.Present, dnscheck.ReasonFound) // at once
	})
	bubble(t, "a top-level domain that does not exist", func(t *testing.T) {
		v := disprove(t, newInternet(t).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTopLevel)
	})
}

// TestSentencesOfADisproof checks that the sentence describes the answers that decide.
func TestSentencesOfADisproof(t *testing.T) {
	lacks := zoneOf(start("example.com"))
	for name, test := range map[string]struct {
		servers, resolvers []zone
		want               string
	}{
		"gone": {[]zone{lacks, lacks, lacks}, []zone{noName, noName, noName},
			"There is no TXT record at " + host + ": the name does not exist."},
		"another value": {[]zone{lacks, lacks, lacks}, []zone{noName, noName, noValue},
			"The TXT record at " + host + ` holds another value than the expected one: "another-value".`},
		"name servers are silent": {[]zone{nil, nil, nil}, []zone{noName, noName, noName},
			"The TXT record at " + host + " could not be checked: the domain's name servers did not answer in time."},
		"a name server has it": {[]zone{lacks, lacks, zoneOf(start("example.com"), txt(host, token))},
			[]zone{noName, noName, noName}, "The TXT record at " + host + " holds the expected value."},
		"name servers do not agree": {[]zone{lacks, lacks, zoneOf(start("example.com"), cname(host, "a.example.com"))},
			[]zone{noName, noName, noName},
			"The domain's name servers disagree about the TXT record at " + host +
				": they name different aliases (CNAME), or only some have one."},
		"the resolvers do not know": {[]zone{lacks, lacks, lacks}, []zone{servfail, noName, servfail},
			"The TXT record at " + host +
				" could not be checked: the domain's name servers do not answer as they should (SERVFAIL)."},
		"the resolvers cannot check": {[]zone{lacks, lacks, lacks}, []zone{bogus, noName, noName},
			"The TXT record at " + host +
				" could not be checked: the domain's DNSSEC signatures do not validate. The resolver says: DNSSEC Bogus (6)."},
	} {
		bubble(t, name, func(t *testing.T) {
			n := threeServers(t, test.servers...)
			n.resolved(test.resolvers...)
			v := disprove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if diff := cmp.Diff(test.want, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDisproofOfNoQuestion(t *testing.T) {
	c := checker(t, anyResolver(1)...)
	for _, bad := range [][2]string{{"localhost", token}, {host, ""}} {
		if _, err := c.Disprove(t.Context(), bad[0], bad[1]); !asQuestionError(err) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Disprove(ended, host, token); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
		synctest.Test(t, func(t *testing.T) {
			n := threeServers(t, nil, nil, nil)
			n.resolved(never, never, never)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			v, err := n.checker(dnscheck.Config{Mode: mode}).Disprove(ctx, host, token)
			if !errors.Is(err, context.DeadlineExceeded) || len(v.Observations) > 0 || time.Since(began) != time.Second {
				t.Errorf("%s: %+v, error %v after %s", mode, v, err, time.Since(began))
			}
		})
	}
}

// voice is a behavior of a resolver or a name server, and its effect on a disproof.
type voice struct {
	name     string
	resolver zone // as a resolver
	server   zone // as one of the zone's servers
	sees     bool
	denies   bool
	blocks   bool // prevents Absent
}

func voicesOfAll() []voice {
	lacks := zoneOf(start("example.com"))
	return []voice{
		{"has it", yes, zoneOf(start("example.com"), txt(host, token)), true, false, false},
		{"has it among others", holding(other, token), zoneOf(start("example.com"), txt(host, other), txt(host, token)), true,
			false, false},
		{"no name", noName, lacks, false, true, false},
		{"no record", noRecord, zoneOf(start("example.com"), address(host, "5.5.5.5")), false, true, false},
		{"another value", noValue, zoneOf(start("example.com"), txt(host, other)), false, true, false},
		{"half of it", holding(token[:16], token[16:]), zoneOf(start("example.com"), txt(host, token[:16]),
			txt(host, token[16:])), false, true, false},
		{"fails", servfail, servfail, false, false, false},
		{"refuses", refused, refused, false, false, false},
		{"is silent", never, never, false, false, false},
		{"refers upward", upward, upward, false, false, false},
		{"has no zone", saidBy(), noName, false, false, false},
		{"filters", with(dns.ExtendedErrorCodeFiltered, noName),
			with(dns.ExtendedErrorCodeFiltered, lacks), false, false, false},
		{"has an old no", with(dns.ExtendedErrorCodeStaleAnswer, noName),
			with(dns.ExtendedErrorCodeStaleAnswer, lacks), false, false, false},
		{"has an old yes", with(dns.ExtendedErrorCodeStaleAnswer, yes),
			with(dns.ExtendedErrorCodeStaleAnswer, zoneOf(start("example.com"), txt(host, token))), false, false, true},
		{"speaks against itself", against, authoritatively(against), false, false, true},
		{"is ambiguous", ambiguous, authoritatively(ambiguous), false, false, true},
	}
}

// TestDisproofInWorldsOfChance compares the verdict in random worlds with the rules in ruled.
func TestDisproofInWorldsOfChance(t *testing.T) {
	t.Parallel()
	voices := voicesOfAll()
	usual := slices.DeleteFunc(voicesOfAll(), func(v voice) bool {
		return v.sees || v.blocks || !v.denies && v.name != "fails"
	})
	chance := rand.New(rand.NewPCG(20261122, 1))
	states := make(map[dnscheck.State]int)
	for i := range 600 {
		from := voices
		if i%2 == 0 { // otherwise hardly any verdict is Absent
			from = usual
		}
		var world [6]voice
		for i := range world {
			world[i] = from[chance.IntN(len(from))]
		}
		mode := []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority}[chance.IntN(2)]
		servers, resolvers := world[:3], world[3:]
		if mode == dnscheck.ModeResolvers {
			servers = nil
		}
		wanted := ruled(servers, resolvers)
		states[wanted]++
		synctest.Test(t, func(t *testing.T) {
			n := threeServers(t, world[0].server, world[1].server, world[2].server)
			n.resolved(world[3].resolver, world[4].resolver, world[5].resolver)
			if v := disprove(t, n.checker(dnscheck.Config{Mode: mode})); v.State != wanted {
				t.Errorf("%s, %q: %s (%s), want %s; %+v", mode, names(world[:]), v.State, v.Reason, wanted, v.Observations)
			}
		})
	}
	for _, state := range []dnscheck.State{dnscheck.Present, dnscheck.Absent, dnscheck.Unknown} {
		if states[state] < 20 {
			t.Errorf("only %d worlds are %s", states[state], state)
		}
	}
}

func ruled(servers, resolvers []voice) dnscheck.State {
	count := func(voices []voice, is func(voice) bool) (n int) {
		for _, v := range voices {
			if is(v) {
				n++
			}
		}
		return n
	}
	all := slices.Concat(servers, resolvers)
	denies := func(v voice) bool { return v.denies }
	switch {
	case count(all, func(v voice) bool { return v.sees }) > 0:
		return dnscheck.Present
	case count(all, func(v voice) bool { return v.blocks }) > 0:
		return dnscheck.Unknown
	case 2*count(resolvers, denies) <= len(resolvers) || len(servers) > 0 && 2*count(servers, denies) <= len(servers):
		return dnscheck.Unknown
	}
	return dnscheck.Absent
}

func names(voices []voice) []string {
	var names []string
	for _, v := range voices {
		names = append(names, v.name)
	}
	return names
}
