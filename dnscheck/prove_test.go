package dnscheck_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

var (
	strictAliases   = dnscheck.Config{RefuseAliases: true}
	strictWildcards = dnscheck.Config{RefuseWildcards: true}
	isAliasOut      = expected{dnscheck.Unknown, dnscheck.ReasonAliasOut}
	isWildcard      = expected{dnscheck.Unknown, dnscheck.ReasonWildcard}
	isUnsure        = expected{dnscheck.Unknown, dnscheck.ReasonWildcardUnsure}
)

// provenInEachMode expects a proof without the strict setting, and the wanted verdict with it,
// in each mode.
func provenInEachMode(t *testing.T, strict dnscheck.Config, z zone, wanted expected) {
	t.Helper()
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuto, dnscheck.ModeAuthority} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := everywhere(t, z)
				want(t, prove(t, n.checker(dnscheck.Config{Mode: mode})), dnscheck.Present, dnscheck.ReasonFound)
				strict.Mode = mode
				want(t, prove(t, n.checker(strict)), wanted.state, wanted.reason)
			})
		})
	}
}

func TestAliasesOutOfTheDomain(t *testing.T) {
	const inside, outside, wild = "_v.other.example.com", "_v.parking.com", "*.example.com"
	in := func(records ...dns.RR) []dns.RR { return append([]dns.RR{start("example.com")}, records...) }
	out := []dns.RR{start("parking.com"), txt(outside, token), cname("_back.parking.com", inside), txt("_Verify.parking.com", token)}
	tests := []struct {
		name string
		zone zone
		want expected
	}{
		{"no alias", zoneOf(in(txt(host, token))...), isFound},
		{"within the domain", zoneOf(in(cname(host, inside), txt(inside, token))...), isFound},
		{"within the domain, in other letters", zoneOf(in(cname(host, "_V.Other.EXAMPLE.com"), txt(inside, token))...), isFound},
		{"out of the domain", zoneOf(append(in(cname(host, outside)), out...)...), isAliasOut},
		{"out at the second step", zoneOf(append(in(cname(host, inside), cname(inside, outside)), out...)...), isAliasOut},
		{"out and back again", zoneOf(append(in(cname(host, "_back.parking.com"), txt(inside, token)), out...)...), isAliasOut},
		{"by a DNAME", zoneOf(append(in(dname("Org-1.Example.com", "parking.com")), out...)...), isAliasOut},
		{"by a wildcard", withWildcard(cname(wild, outside), append(in(), out...)...), isAliasOut},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { provenInEachMode(t, strictAliases, test.zone, test.want) })
	}
}

// TestAliasOutOfTheDomainAtOneResolver checks that an alias out of the domain at one resolver
// is enough, because others may have cached the earlier record.
func TestAliasOutOfTheDomainAtOneResolver(t *testing.T) {
	led := zone(func(q *dns.Msg) *dns.Msg {
		return answer(q, cname(host, "thing.hosting.net"), txt("thing.hosting.net", token))
	})
	for name, zones := range map[string][]zone{"the first": {led, yes, yes}, "the last": {yes, yes, led}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := prove(t, inMemory(t, strictAliases, zones...))
				want(t, v, dnscheck.Unknown, dnscheck.ReasonAliasOut)
				sentence := "The TXT record at " + host + " was found through an alias (CNAME or DNAME) from " + host + " to thing.hosting.net, out of the domain, " +
					"where others may be able to publish it: publish the record at " + host + " itself, instead of an alias."
				if diff := cmp.Diff(sentence, v.Sentence()); diff != "" {
					t.Errorf("sentence (-want +got):\n%s", diff)
				}
				if plain := v.Plain(); strings.Contains(plain, "hosting") {
					t.Errorf("plain %q", plain)
				}
			})
		})
	}
}

func TestAliasOut(t *testing.T) {
	tests := []struct {
		name, host, from, to string // empty to: none
		aliases              []string
	}{
		{"none", "_v.example.com", "", "", nil},
		{"within", "_v.example.com.", "", "", []string{"x.example.com", "EXAMPLE.com"}},
		{"another domain", "_v.example.com", "x.example.com", "x.example.net", []string{"x.example.com", "x.example.net", "y.example.com"}},
		{"another domain beneath the same suffix", "_v.example.co.uk", "_v.example.co.uk", "x.other.co.uk", []string{"x.other.co.uk"}},
		{"another one's name at the same host of many", "_v.me.github.io", "_v.me.github.io", "_v.you.github.io", []string{"_v.you.github.io"}},
		{"where strangers have names beneath the domain", "_v.amazonaws.com", "_v.amazonaws.com", "you.s3.amazonaws.com", []string{"you.s3.amazonaws.com"}},
		{"an escaped dot", "_v.example.com", "_v.example.com", `x\.example.com`, []string{`x\.example.com`}},
		{"an escaped digit", "_v.example.com", "_v.example.com", `\120.example.com`, []string{`\120.example.com`}},
		{"a suffix", "_v.example.com", "_v.example.com", "com", []string{"com"}},
		{"at a suffix", "_v.co.uk", "", "", nil},
		{"from a suffix", "co.uk", "co.uk", "co.uk", []string{"co.uk"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := dnscheck.Verdict{Host: test.host, Observations: []dnscheck.Observation{
				{State: dnscheck.Present}, {State: dnscheck.Unknown, Aliases: []string{"not.counted.net"}}, {State: dnscheck.Present, Aliases: test.aliases},
			}}
			from, to, out := v.AliasOut()
			if from != test.from || to != test.to || out != (test.to != "") {
				t.Errorf("from %q to %q, %t; want %q to %q", from, to, out, test.from, test.to)
			}
		})
	}
}

func TestWildcardsAreRefused(t *testing.T) {
	const inside, outside, wild = "_v.other.example.com", "_v.parking.com", "*.example.com"
	zones := func(records ...dns.RR) []dns.RR {
		return append(append([]dns.RR{start("example.com")}, records...), start("parking.com"), txt(outside, token))
	}
	tests := []struct {
		name string
		zone zone
		want expected
	}{
		{"no wildcard", zoneOf(zones(txt(host, token))...), isFound},
		{"the token everywhere", withWildcard(txt(wild, token), zones()...), isWildcard},
		{"the token everywhere, and at the host", withWildcard(txt(wild, token), zones(txt(host, token))...), isWildcard},
		{"another value everywhere else", withWildcard(txt(wild, other), zones(txt(host, token))...), isFound},
		{"an address everywhere else", withWildcard(address(wild, "5.5.5.5"), zones(txt(host, token))...), isFound},
		{"an alias everywhere, out of the domain", withWildcard(cname(wild, outside), zones()...), isWildcard},
		{"an alias everywhere, within the domain", withWildcard(cname(wild, inside), zones(txt(inside, token))...), isWildcard},
		{"an alias everywhere else", withWildcard(cname(wild, "_v.none.parking.com"), zones(txt(host, token))...), isFound},
		{"an alias everywhere else, to the token", withWildcard(cname(wild, outside), zones(txt(host, token))...), isWildcard},
		{"an alias of the host alone", zoneOf(zones(cname(host, outside))...), isFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { provenInEachMode(t, strictWildcards, test.zone, test.want) })
	}
}

// besides answers with itself for the host, and with rest for all other names.
func besides(itself, rest zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if sameName(q.Question[0].Name, host) {
			return itself(q)
		}
		return rest(q)
	}
}

// TestWildcardByResolvers checks how many resolvers must deny the sibling, and which answers
// contradict them.
func TestWildcardByResolvers(t *testing.T) {
	// Behind the alias, the attacker has the token for the host, but not for later names.
	aliased := func(to zone) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := to(q)
			for _, record := range m.Answer {
				record.Header().Name = "thing.hosting.net."
			}
			m.Answer = append([]dns.RR{cname(q.Question[0].Name, "thing.hosting.net")}, m.Answer...)
			return m
		}
	}
	circle := zone(func(q *dns.Msg) *dns.Msg { return answer(q, cname(q.Question[0].Name, q.Question[0].Name)) })
	three := func(z zone) []zone { return []zone{z, z, z} }
	tests := []struct {
		name          string
		host, sibling []zone
		want          expected
	}{
		{"nobody has it", three(yes), []zone{noName, noRecord, noValue}, isFound},
		{"a quorum does not have it", three(yes), []zone{noName, noName, servfail}, isFound},
		{"too few say that they do not have it", three(yes), []zone{noName, servfail, refused}, isUnsure},
		{"nobody could say", three(yes), three(servfail), isUnsure},
		{"one finds the signatures bogus", three(yes), []zone{noName, noName, bogus}, isUnsure},
		{"one has it", three(yes), []zone{noName, noName, yes}, isWildcard},
		{"one has it, and the others could not say", three(yes), []zone{servfail, servfail, yes}, isWildcard},
		{"all have it", three(yes), three(yes), isWildcard},
		{"an alias at both, to nothing for the sibling", three(aliased(yes)), three(aliased(noName)), isWildcard},
		{"an alias at both, that one resolver sees", []zone{yes, aliased(yes), yes}, []zone{noName, noName, aliased(noName)}, isWildcard},
		{"an alias at both, which one resolver cannot follow", three(aliased(yes)), []zone{noName, noName, circle}, isWildcard},
		{"an alias of the sibling alone", three(yes), three(aliased(noName)), isFound},
		{"an alias of the host alone", three(aliased(yes)), three(noName), isFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, siblings := range [][]zone{test.sibling, backwards(test.sibling)} {
				synctest.Test(t, func(t *testing.T) {
					var zones []zone
					for i, z := range test.host {
						zones = append(zones, besides(z, siblings[i]))
					}
					v := prove(t, inMemory(t, strictWildcards, zones...))
					want(t, v, test.want.state, test.want.reason)
					if len(v.Observations) != len(zones) || v.Observations[0].State != dnscheck.Present {
						t.Errorf("observations %+v: want those of the host", v.Observations)
					}
					if unsure := v.Reason == dnscheck.ReasonWildcardUnsure; unsure != strings.HasPrefix(v.Note, "wildcard check: ") {
						t.Errorf("note %q", v.Note)
					}
				})
			}
		})
	}
}

// TestWildcardByAResolverWithoutAVote checks that a resolver that invents answers does not
// count for the sibling.
func TestWildcardByAResolverWithoutAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		honest := withCanary(noName, besides(yes, noName))
		strict := dnscheck.Config{RefuseWildcards: true, CanaryZone: canaryZone}
		want(t, prove(t, inMemory(t, strict, honest, honest, yes)), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// siblings returns the queried names other than the host.
func siblings(queries []asked) (names []string) {
	for _, a := range queries {
		if a.kind == dns.TypeTXT && !sameName(a.name, host) && !slices.Contains(names, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}

// TestResolversQueriedForTheSibling checks that only a proof that would otherwise succeed
// queries the sibling, with a new name each time, and only at the resolvers.
func TestResolversQueriedForTheSibling(t *testing.T) {
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuto, dnscheck.ModeAuthority} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := delegated(t, txt(host, token))
				n.know(txt(host, token))
				var mu sync.Mutex
				told := make(map[dnscheck.State]int)
				observe := func(o dnscheck.Observation) { // a disproof calls it concurrently
					mu.Lock()
					defer mu.Unlock()
					told[o.State]++
				}
				plain := n.checker(dnscheck.Config{Mode: mode})
				c := n.checker(dnscheck.Config{Mode: mode, RefuseWildcards: true, Observe: observe})
				want(t, prove(t, plain), dnscheck.Present, dnscheck.ReasonFound)
				for _, ask := range []func(context.Context, string, string) (dnscheck.Verdict, error){c.Check, c.Disprove} {
					if v, err := ask(t.Context(), host, token); err != nil || v.State != dnscheck.Present {
						t.Fatal(v, err)
					}
				}
				if v, err := c.Prove(t.Context(), host, other); err != nil || v.State != dnscheck.Absent {
					t.Fatal(v, err)
				}
				if names := siblings(n.askedOf(resolverAddrs...)); len(names) > 0 {
					t.Errorf("asked for %q before a proof", names)
				}
				clear(told)
				for range 2 {
					want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
				}
				names := siblings(n.askedOf(resolverAddrs...))
				if len(names) != 2 {
					t.Fatalf("asked for %q, want two names", names)
				}
				for _, name := range names {
					label, parent, _ := strings.Cut(name, ".")
					if len(label) != 20 || label[0] != '_' || parent != "org-1.example.com." {
						t.Errorf("asked for %s", name)
					}
				}
				if told[dnscheck.Absent]+told[dnscheck.Unknown] > 0 {
					t.Errorf("told of %v", told)
				}
				if n := len(siblings(n.askedOf(nsOne, nsTwo))); n > 0 {
					t.Errorf("name servers were asked for %d names", n)
				}
			})
		})
	}
}

// TestSiblingWherePort53IsClosed checks that only resolvers over TLS are queried for the
// sibling, because others may have forged answers.
func TestSiblingWherePort53IsClosed(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	n := servedBy(t, denies, denies)
	n.mu.Lock()
	delete(n.servers, tldAddr)
	n.mu.Unlock()
	sibling := noName
	config := dnscheck.Config{Mode: dnscheck.ModeAuto, Quorum: 2, RootCAs: a.roots, RefuseWildcards: true}
	for range 2 {
		r, _ := streams(t, &cert, answering(func(q *dns.Msg) *dns.Msg {
			if q.Question[0].Qtype != dns.TypeTXT {
				return n.resolver(q)
			}
			return besides(yes, sibling)(q)
		}))
		config.Resolvers = append(config.Resolvers, r)
	}
	config.Resolvers = append(config.Resolvers, dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr(resolverAddrs[0]), 53)})
	c, err := dnscheck.NewOver(config, func(ctx context.Context, network, address string) (net.Conn, error) {
		if netip.MustParseAddrPort(address).Addr().IsLoopback() {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return n.dial(ctx, network, address)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
	sibling = servfail
	v := prove(t, c)
	want(t, v, dnscheck.Unknown, dnscheck.ReasonWildcardUnsure)
	if !strings.Contains(v.Note, "port 53") || !strings.Contains(v.Note, "wildcard check: ") {
		t.Errorf("note %q", v.Note)
	}
	sibling = yes
	want(t, prove(t, c), dnscheck.Unknown, dnscheck.ReasonWildcard)
	if names := siblings(n.askedOf(resolverAddrs...)); len(names) > 0 {
		t.Errorf("the resolver in the clear was asked for %q", names)
	}
}

// TestSiblingOfALongHost has a host whose parent has no room for a random label.
func TestSiblingOfALongHost(t *testing.T) {
	name := "a" + strings.Repeat(".abcdefghijk", 20) + ".example.com"
	synctest.Test(t, func(t *testing.T) {
		config := strictWildcards
		config.Resolvers = anyResolver(3)
		c, err := dnscheck.NewOver(config, memory{udp: memoryUDP(func(query []byte, send func([]byte)) {
			if err := new(dns.Msg).Unpack(query); err != nil {
				t.Errorf("a query that cannot be read: %v", err)
				return
			}
			yes.udp(query, send)
		})}.dial(t))
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Prove(t.Context(), name, token)
		if err != nil {
			t.Fatal(err)
		}
		want(t, v, dnscheck.Unknown, dnscheck.ReasonWildcardUnsure)
	})
}

// TestSiblingIsNotAwaitedForEver checks that the end of the caller's context is an error, not
// a verdict.
func TestSiblingIsNotAwaitedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), dnscheck.DefaultTimeout/2)
		defer cancel()
		z := besides(yes, never)
		if v, err := inMemory(t, strictWildcards, z, z, z).Prove(ctx, host, token); err == nil {
			t.Errorf("verdict %s (%s)", v.State, v.Reason)
		}
	})
}
