package dnscheck_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// thin returns a Config that reports thin proofs.
func thin(mode dnscheck.Mode) dnscheck.Config { return dnscheck.Config{Mode: mode, ThinProofs: true} }

// wantThin expects a proof with ReasonTooFew, thin or not, and resolvers queried or not.
func wantThin(t *testing.T, n *internet, v dnscheck.Verdict, isThin, asked bool) {
	t.Helper()
	want(t, v, dnscheck.Unknown, dnscheck.ReasonTooFew)
	if v.Thin != isThin {
		t.Errorf("thin %t, want %t: %+v", v.Thin, isThin, v.Observations)
	}
	basis := dnscheck.ByAuthority
	if asked {
		basis = dnscheck.ByBoth
	} else {
		n.quietAbout(host)
	}
	if v.Basis != basis {
		t.Errorf("basis %s, want %s", v.Basis, basis)
	}
}

// TestThinProofs checks which answers of less than a majority of the servers make a thin
// proof.
func TestThinProofs(t *testing.T) {
	below := func(addrs ...string) []dns.RR {
		var records []dns.RR
		for i, addr := range addrs {
			name := fmt.Sprintf("ns%d.%s", i+1, host)
			records = append(records, ns(host, name), address(name, addr))
		}
		return records
	}
	refers := zoneOf(append([]dns.RR{start("example.com")}, below("5.2.0.1", "5.2.0.2")...)...)
	tests := []struct {
		name    string
		servers []zone
		thin    bool
	}{
		{"one of two is silent", []zone{publishes, nil}, true},
		{"three of four are silent", []zone{nil, nil, publishes, nil}, true},
		{"two of four are silent", []zone{publishes, nil, nil, publishes}, true},
		{"the others fail", []zone{publishes, servfail, nil}, false},
		{"the other refuses", []zone{publishes, refused}, false},
		{"the other does not hold the zone", []zone{publishes, noName}, false},
		{"a referral next to it", []zone{publishes, leads, nil, nil}, false},
		{"a referral alone", []zone{leads, nil}, false},
		{"an alias alone", []zone{misleads, nil}, false},
		{"a zone at the host, of which one server is silent", []zone{refers, refers}, true},
		{"a zone at the host that one server refers to", []zone{refers, nil}, false},
	}
	for _, test := range tests {
		for _, mode := range []dnscheck.Mode{dnscheck.ModeAuto, dnscheck.ModeAuthority} {
			t.Run(test.name+", "+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := servedBy(t, test.servers...)
					n.at("5.2.0.1", zoneOf(start(host), txt(host, token)))
					n.at("5.2.0.2", nil)
					wantThin(t, n, prove(t, n.checker(dnscheck.Config{Mode: mode})), false, false) // the setting is off
					wantThin(t, n, prove(t, n.checker(thin(mode))), test.thin, test.thin)
				})
			})
		}
	}
}

// TestThinProofIsContested checks that one denial prevents a thin proof and is reported,
// unlike silence.
func TestThinProofIsContested(t *testing.T) {
	for name, servers := range map[string][]zone{
		"the others deny": {publishes, denies, nil, nil}, "an alias next to it": {publishes, misleads, nil, nil},
		"the other refuses": {publishes, refused}, "none has it": {denies, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, servers...)
				v := prove(t, n.checker(thin(dnscheck.ModeAuto)))
				if v.State == dnscheck.Present || v.Thin || !v.Contested() {
					t.Errorf("%s (%s), thin %t, contested %t", v.State, v.Reason, v.Thin, v.Contested())
				}
				n.quietAbout(host)
			})
		})
	}
	for name, servers := range map[string][]zone{"all are silent": {nil, nil}, "all fail": {servfail, servfail}, "all have it": {publishes, publishes}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if v := prove(t, servedBy(t, servers...).checker(thin(dnscheck.ModeAuto))); v.Thin || v.Contested() {
					t.Errorf("%s (%s), thin %t, contested %t", v.State, v.Reason, v.Thin, v.Contested())
				}
			})
		})
	}
}

// TestContestedByOneOfMany checks that a late denial is reported even if its observation is
// dropped.
func TestContestedByOneOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t)
		n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, many(n, 8, 2, publishes)...)...))
		n.at("5.1.0.1", func(q *dns.Msg) *dns.Msg {
			time.Sleep(dnscheck.Grace / 2)
			return denies(q)
		})
		n.know(txt(host, token))
		v := prove(t, n.checker(thin(dnscheck.ModeAuto)))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
		if slices.ContainsFunc(v.Observations, func(o dnscheck.Observation) bool { return o.State != dnscheck.Present }) || !v.Contested() {
			t.Errorf("contested %t: %+v", v.Contested(), v.Observations)
		}
	})
}

// TestThinProofTakesEveryResolver checks that a thin proof needs all resolvers, not only a
// quorum.
func TestThinProofTakesEveryResolver(t *testing.T) {
	tests := []struct {
		name            string
		resolvers       []zone
		required        bool
		thin, contested bool
	}{
		{name: "each has it", resolvers: []zone{yes, yes, yes}, thin: true},
		{name: "one denies it", resolvers: []zone{yes, yes, noName}, contested: true},
		{name: "one has another value", resolvers: []zone{yes, noValue, yes}, contested: true},
		{name: "one finds it bogus", resolvers: []zone{warned, yes, yes}, contested: true},
		{name: "one fails", resolvers: []zone{servfail, yes, yes}},
		{name: "one is silent", resolvers: []zone{yes, yes, nil}},
		{name: "one authenticates it", resolvers: []zone{signed(yes), yes, yes}},
		{name: "each authenticates it", resolvers: []zone{signed(yes), signed(yes), signed(yes)}, required: true, thin: true},
		{name: "none authenticates it, and it is required", resolvers: []zone{yes, yes, yes}, required: true},
		{name: "there is but one", resolvers: []zone{yes}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, publishes, nil)
				for i, z := range test.resolvers {
					n.at(resolverAddrs[i], nil)
					if z != nil {
						n.at(resolverAddrs[i], n.only(z))
					}
				}
				config := thin(dnscheck.ModeAuto)
				config.RequireDNSSEC = test.required
				v := prove(t, n.checkerBy(config, resolverAddrs[:len(test.resolvers)]...))
				wantThin(t, n, v, test.thin, true)
				if v.Contested() != test.contested {
					t.Errorf("contested %t, want %t", v.Contested(), test.contested)
				}
			})
		})
	}
}

// TestThinProofIsOfTheHostsOwnZone checks that an alias needs a majority, and that there is no
// thin proof in the zone of its target.
func TestThinProofIsOfTheHostsOwnZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alias := zoneOf(start("example.com"), cname(host, "_v.target.com"))
		n := overTLD(t, slices.Concat(delegatedTo("example.com", 2),
			[]dns.RR{ns("target.com", "ns1.target.com"), address("ns1.target.com", "5.3.0.1"), ns("target.com", "ns2.target.com"), address("ns2.target.com", "5.3.0.2")})...)
		n.know(txt(host, token))
		n.at(serverAddr(0), alias)
		n.at(serverAddr(1), alias)
		n.at("5.3.0.1", zoneOf(start("target.com"), txt("_v.target.com", token)))
		n.at("5.3.0.2", nil)
		wantThin(t, n, prove(t, n.checker(thin(dnscheck.ModeAuto))), false, false)
	})
}

// TestThinProofWaitsForAllServers checks that servers beyond MaxServers prevent a thin proof:
// one of them could deny the token.
func TestThinProofWaitsForAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const servers = 2 * dnscheck.MaxServers
		n := overTLD(t, delegatedTo("example.com", servers)...)
		for i := range servers {
			n.at(serverAddr(i), publishes)
		}
		n.know(txt(host, token))
		wantThin(t, n, prove(t, n.checker(thin(dnscheck.ModeAuto))), false, false)
	})
}

// TestThinProofThatWasCutShort checks that servers without time to answer prevent a thin
// proof.
func TestThinProofThatWasCutShort(t *testing.T) {
	const middle = "org-1.example.com"
	for name, test := range map[string]struct {
		slow time.Duration
		thin bool
	}{"in time": {0, true}, "cut short": {900 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slowly := func(z zone) zone {
					return func(q *dns.Msg) *dns.Msg {
						time.Sleep(test.slow)
						return z(q)
					}
				}
				n := newInternet(t)
				n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr), txt(host, token))
				above, at, referring := "com", []string{tldAddr}, []string(nil)
				for i, zone := range []string{"example.com", middle, host} { // two servers refer to the next zone, the third is silent
					records, addrs := []dns.RR{start(above)}, []string(nil)
					for j := range 3 {
						addr := fmt.Sprintf("5.%d.0.%d", i+1, j+1)
						name := fmt.Sprintf("ns%d.%s", j+1, zone)
						records, addrs = append(records, ns(zone, name), address(name, addr)), append(addrs, addr)
						n.at(addr, nil)
					}
					for _, addr := range at {
						n.at(addr, slowly(zoneOf(records...)))
					}
					above, at, referring = zone, addrs[:2], addrs
				}
				n.at(referring[0], zoneOf(start(host), txt(host, token)))
				wantThin(t, n, prove(t, n.checker(thin(dnscheck.ModeAuto))), test.thin, test.thin)
			})
		})
	}
}

func TestSentenceOfAThinProof(t *testing.T) {
	for answered, says := range map[int]string{
		1: "Only 1 of the 4 name servers of example.com answered for the TXT record at " + host + "; it has the expected value, and so have all resolvers.",
		2: "Only 2 of the 4 name servers of example.com answered for the TXT record at " + host + "; they have the expected value, and so have all resolvers.",
	} {
		synctest.Test(t, func(t *testing.T) {
			servers := make([]zone, 4)
			copy(servers, slices.Repeat([]zone{publishes}, answered))
			v := prove(t, servedBy(t, servers...).checker(thin(dnscheck.ModeAuto)))
			if diff := cmp.Diff(says, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThinProofOfServersWithoutAddresses has the second server of two named in another zone. One
// that has no address is as silent as a dead one. If the zone's servers contradict each other, an
// attacker may hold one of them: that is no silence.
func TestThinProofOfServersWithoutAddresses(t *testing.T) {
	right := zoneOf(start("other.net"), address("ns2.other.net", nsTwo))
	for name, test := range map[string]struct {
		first, then zone
		thin        bool
	}{
		"none has one":           {zoneOf(start("other.net")), zoneOf(start("other.net")), true},
		"all are silent":         {nil, nil, true},
		"one of two denies it":   {right, zoneOf(start("other.net")), false},
		"one of two has another": {right, zoneOf(start("other.net"), address("ns2.other.net", evilAddr)), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne), ns("example.com", "ns2.other.net"))
				n.at(nsOne, publishes)
				n.know(txt(host, token), ns("net", "a.nic.net"), address("a.nic.net", "5.0.1.1"))
				n.at("5.0.1.1", zoneOf(start("net"), ns("other.net", "a.other.net"), address("a.other.net", "5.4.0.1"), ns("other.net", "b.other.net"), address("b.other.net", "5.4.0.2")))
				n.at("5.4.0.1", test.first)
				n.at("5.4.0.2", test.then)
				wantThin(t, n, prove(t, n.checker(thin(dnscheck.ModeAuto))), test.thin, test.thin)
			})
		})
	}
}

// TestThinProofsInHostileWorlds checks that no thin proof is Present in the worlds of
// TestProofsInHostileWorlds.
func TestThinProofsInHostileWorlds(t *testing.T) {
	t.Parallel()
	seed, proofs := rand.Uint64(), 0
	t.Logf("seed %d", seed)
	for i := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			which := fmt.Sprintf("world %d of seed %d", i, seed)
			w := newHostileWorld(t, rand.New(rand.NewPCG(seed, i)))
			w.config.ThinProofs = true
			checker, err := dnscheck.NewOver(w.config, w.dial)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.change()
				v := w.judged(which, func() dnscheck.Verdict { return prove(t, checker) })
				if !v.Thin {
					continue
				}
				proofs++
				if v.State != dnscheck.Unknown || v.Reason != dnscheck.ReasonTooFew || v.Contested() || w.calm {
					t.Errorf("%s: thin, and %s (%s), contested %t, calm %t", which, v.State, v.Reason, v.Contested(), w.calm)
				}
			}
		})
	}
	t.Logf("%d thin proofs", proofs)
	if proofs == 0 {
		t.Error("no thin proof: this shows nothing")
	}
}
