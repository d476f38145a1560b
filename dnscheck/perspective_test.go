package dnscheck_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// in returns resolvers of these perspectives, each of another operator. An empty name is the
// default perspective.
func in(names ...string) []dnscheck.Resolver {
	resolvers := anyResolver(len(names))
	for i, name := range names {
		resolvers[i].Perspective = name
	}
	return resolvers
}

// TestProofSpansPerspectives checks that each perspective has one vote, by more than half of its
// resolvers, in any order of answers: this machine's has to see the token, and so many of the
// others as of that many resolvers. One that denies it is a veto.
func TestProofSpansPerspectives(t *testing.T) {
	found := expected{dnscheck.Present, dnscheck.ReasonFound}
	one := expected{dnscheck.Unknown, dnscheck.ReasonOnePerspective}
	tests := []struct {
		name     string
		in       []string
		zones    []zone
		required bool
		want     expected
	}{
		{"all see it", []string{"eu", "us", "ap"}, []zone{yes, yes, yes}, false, found},
		{"two perspectives of three see it", []string{"eu", "us", "ap"}, []zone{yes, servfail, yes}, false, found},
		{"two perspectives of three see it, one denies it", []string{"eu", "us", "ap"}, []zone{yes, noName, yes}, false, one},
		{"the default one and another", []string{"", "", "", "eu"}, []zone{yes, servfail, yes, yes}, false, found},
		{"half of the default one and another", []string{"", "", "eu"}, []zone{yes, servfail, yes}, false, one},
		{"all but the default one", []string{"", "eu", "us", "ap"}, []zone{servfail, yes, yes, yes}, false, one},
		{"three of five others", []string{"", "a", "b", "c", "d", "e"},
			[]zone{yes, yes, yes, yes, servfail, servfail}, false, one},
		{"four of six others", []string{"", "a", "b", "c", "d", "e", "f"},
			[]zone{yes, yes, yes, yes, yes, servfail, servfail}, false, found},
		{"a quorum in one perspective, the other fails", []string{"eu", "eu", "us"}, []zone{yes, yes, servfail}, false, one},
		{"a quorum in one perspective, the other denies it", []string{"eu", "eu", "us"},
			[]zone{yes, yes, noName}, false, one},
		{"a quorum in one perspective, the other is silent", []string{"eu", "eu", "us"}, []zone{yes, yes, never}, false, one},
		{"a quorum in the default one, the other denies it", []string{"", "", "eu"}, []zone{yes, yes, noValue}, false, one},
		{"four in one perspective, the fifth fails", []string{"eu", "eu", "us", "eu", "eu"},
			[]zone{yes, yes, servfail, yes, yes}, false, one},
		{"none is named", []string{"", "", ""}, []zone{yes, yes, servfail}, false, found},
		{"too few see it", []string{"eu", "us", "ap"}, []zone{yes, noName, servfail}, false, one},
		{"all deny it", []string{"", "eu", "us"}, []zone{noName, noName, noName}, false,
			expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{"one finds it bogus", []string{"eu", "eu", "us"}, []zone{yes, yes, bogus}, false,
			expected{dnscheck.Unknown, dnscheck.ReasonDNSSEC}},

		{"authenticated, in both", []string{"eu", "eu", "us"}, []zone{signed(yes), signed(yes), signed(yes)}, false, found},
		{"authenticated in one, in the other not", []string{"eu", "eu", "us"},
			[]zone{signed(yes), signed(yes), yes}, false, unconfirmed},
		{"authenticated in one, in the other not, and required", []string{"eu", "eu", "us"},
			[]zone{signed(yes), signed(yes), yes}, true, unconfirmed},
		{"authenticated in both, and required", []string{"eu", "eu", "us"},
			[]zone{signed(yes), signed(yes), signed(yes)}, true, found},
		{"authenticated nowhere, and required", []string{"eu", "eu", "us"}, []zone{yes, yes, yes}, true,
			expected{dnscheck.Unknown, dnscheck.ReasonUnsigned}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				slices.Reverse(test.in)
				slices.Reverse(test.zones)
				synctest.Test(t, func(t *testing.T) {
					c := inMemory(t, dnscheck.Config{Resolvers: in(test.in...), RequireDNSSEC: test.required}, test.zones...)
					want(t, prove(t, c), test.want.state, test.want.reason)
					if test.want == one {
						want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
					}
				})
			}
		})
	}
	for name, third := range map[string]zone{"denies it": noName, "fails": servfail} {
		bubble(t, "the name servers have it, one perspective "+name, func(t *testing.T) {
			n := delegated(t, txt(host, token))
			n.know(txt(host, token))
			n.at(resolverAddrs[2], n.only(third))
			want(t, prove(t, n.checkerIn(dnscheck.ModeAuthority, "eu", "eu", "us")), one.state, one.reason)
			wanted := found
			if name == "denies it" {
				wanted = one
			}
			want(t, prove(t, n.checkerIn(dnscheck.ModeAuthority, "eu", "us", "ap")), wanted.state, wanted.reason)
		})
	}
}

// checkerIn returns a Checker with three resolvers of these perspectives in this network.
func (n *internet) checkerIn(mode dnscheck.Mode, names ...string) *dnscheck.Checker {
	n.t.Helper()
	c := dnscheck.Config{Mode: mode}
	for i, name := range names {
		c.Resolvers = append(c.Resolvers,
			dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr(resolverAddrs[i]), 53), Perspective: name})
	}
	checker, err := dnscheck.NewOver(c, n.dial)
	if err != nil {
		n.t.Fatal(err)
	}
	return checker
}

// TestNameServersByOnePerspective checks that one perspective cannot choose a zone's name
// servers.
func TestNameServersByOnePerspective(t *testing.T) {
	for name, test := range map[string]struct {
		in   []string
		want dnscheck.State
	}{
		"one perspective names others": {[]string{"eu", "eu", "us"}, dnscheck.Unknown},
		"two perspectives do":          {[]string{"eu", "us", "ap"}, dnscheck.Present},
	} {
		bubble(t, name, func(t *testing.T) {
			n := delegated(t)
			for _, address := range resolverAddrs[:2] {
				n.at(address, namesServersAt("6.6.6.6"))
			}
			n.at("6.6.6.6", zoneOf(start("com"), txt(host, token)))
			c := n.checkerIn(dnscheck.ModeAuthority, test.in...)
			if v := look(t, c); v.State != test.want {
				t.Errorf("state %s (%s), want %s", v.State, v.Reason, test.want)
			}
			if asked := n.dials("6.6.6.6") > 0; asked != (test.want == dnscheck.Present) {
				t.Errorf("their server was asked: %t", asked)
			}
		})
	}
}

// namesServersAt is a resolver that answers for each name with a name server at addr.
func namesServersAt(addr string) zone {
	return func(q *dns.Msg) *dns.Msg {
		switch q.Question[0].Qtype {
		case dns.TypeNS:
			return answer(q, ns(q.Question[0].Name, "evil.net"))
		case dns.TypeA:
			return answer(q, made(addr, q))
		}
		return holding(token)(q)
	}
}

// TestDisproofSpansPerspectives checks that an absence in one perspective does not disprove
// the token.
func TestDisproofSpansPerspectives(t *testing.T) {
	for name, test := range map[string]struct {
		in    []string
		zones []zone
		want  expected
	}{
		"one denies it, the other is silent": {[]string{"eu", "eu", "us"}, []zone{noName, noName, never},
			expected{dnscheck.Unknown, dnscheck.ReasonTimeout}},
		"one denies it, the other fails": {[]string{"", "", "us"}, []zone{noName, noName, servfail},
			expected{dnscheck.Unknown, dnscheck.ReasonServFail}},
		"both deny it": {[]string{"eu", "eu", "us"}, []zone{noName, noName, noName},
			expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		"one denies it, the other sees it": {[]string{"eu", "eu", "us"}, []zone{noName, noName, yes},
			expected{dnscheck.Present, dnscheck.ReasonFound}},
	} {
		bubble(t, name, func(t *testing.T) {
			want(t, disprove(t, inMemory(t, dnscheck.Config{Resolvers: in(test.in...)}, test.zones...)),
				test.want.state, test.want.reason)
		})
	}
}

func TestPerspectivesThatCannotBeSpanned(t *testing.T) {
	tests := []struct{ name, resolvers, want string }{
		{"two", "10.0.0.1@eu,10.0.0.2@us", ""},
		{
			"one's own, of one domain and network",
			"https://5.5.5.1#a.example.com@eu,https://5.5.5.2#b.example.com@us,https://5.5.5.3#c.example.com@ap", "",
		},
		{"one's own next to public ones here", "https://5.5.5.1#a.example.com@eu,1.1.1.1,8.8.8.8", ""},
		{"one alone, which proves nothing anyway", "10.0.0.1@eu", ""},
		{"one perspective", "10.0.0.1@eu,10.0.0.2@eu,10.0.0.3@eu",
			"resolvers are all in one perspective (eu), and a proof has to span two: add resolvers in another network, or leave out @eu"},
		{"a public one elsewhere", "https://1.1.1.1#one.one.one.one@eu,10.0.0.2@us",
			"resolver https://1.1.1.1:443/dns-query#one.one.one.one@eu is a public one (Cloudflare): it is anycast, so that the instance nearest to this machine answers, whatever perspective is named; " +
				"leave out @eu, and name a resolver of your own for that perspective"},
		{"a public one by its name", "https://10.0.0.1#dns.google@eu,10.0.0.2@us",
			"resolver https://10.0.0.1:443/dns-query#dns.google@eu is a public one (Google): it is anycast, so that the instance nearest to this machine answers, whatever perspective is named; " +
				"leave out @eu, and name a resolver of your own for that perspective"},
		{"public ones of one operator", "1.1.1.1,1.0.0.1,10.0.0.1@eu",
			"resolvers 1.1.1.1:53 and 1.0.0.1:53 are of one operator (Cloudflare), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"},
		{"one's own of one network, none named", "5.5.5.1,5.5.5.2,8.8.8.8",
			"resolvers 5.5.5.1:53 and 5.5.5.2:53 are of one operator (5.5.5.0/24), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"},
		{"the default one by its name is none", "10.0.0.1@default,10.0.0.2", ""},
		{"one server in two", "10.0.0.1@eu,10.0.0.1:54@us",
			"resolver 10.0.0.1:54@us is named twice: it would count twice for the quorum; name each once"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := dnscheck.New(dnscheck.Config{Resolvers: parsed(t, test.resolvers), Mode: dnscheck.ModeAuthority})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				c.Close()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObservationsNameOperatorAndPerspective checks that each observation has the resolver's
// operator and perspective.
func TestObservationsNameOperatorAndPerspective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, dnscheck.Config{Resolvers: parsed(t, "https://1.1.1.1#one.one.one.one,10.0.0.1@eu,10.0.0.2@us")},
			yes, yes, noName)
		var got []string
		for _, o := range prove(t, c).Evidence().Said {
			got = append(got, strings.Join([]string{o.Operator, o.Perspective, o.Reason}, " "))
		}
		wanted := []string{"Cloudflare default unreachable", "10.0.0.1 eu found", "10.0.0.2 us name_does_not_exist"}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, s := range c.Resolvers() {
			if !strings.HasPrefix(wanted[i], s.Operator+" "+s.Perspective+" ") {
				t.Errorf("state %+v, want %s", s, wanted[i])
			}
		}
	})
}

// TestOneDeceivedPerspectiveProvesNothing has one perspective of three lied to completely: its
// resolvers, and as seen from this machine's also the name servers, give the token, and the
// attacker's servers for a top-level domain's. Nothing is proven, whichever perspective it is;
// everything is proven if all three get the true answers.
func TestOneDeceivedPerspectiveProvesNothing(t *testing.T) {
	names := []string{"", "eu", "us"}
	for liar, name := range []string{"this machine's", "eu", "us", "none"} {
		for _, mode := range []dnscheck.Mode{dnscheck.ModeAuthority, dnscheck.ModeResolvers} {
			bubble(t, name+", "+mode.String(), func(t *testing.T) {
				n := delegated(t)
				if name == "none" {
					n = delegated(t, txt(host, token))
					n.know(txt(host, token))
				}
				if name == "this machine's" {
					for _, addr := range []string{tldAddr, nsOne, nsTwo} {
						n.at(addr, says(txt(host, token)))
					}
				}
				if liar < len(names) {
					n.at(resolverAddrs[liar], namesServersAt(evilAddr))
				}
				n.at(evilAddr, says(txt(host, token)))
				v := prove(t, n.checkerIn(mode, names...))
				if proven := v.State == dnscheck.Present; proven != (name == "none") {
					t.Errorf("%s (%s): %+v", v.State, v.Reason, v.Observations)
				}
				if mode == dnscheck.ModeResolvers && name == "eu" {
					wanted := map[string]string{"default": "absent", "eu": "present", "us": "absent"}
					if diff := cmp.Diff(wanted, v.Evidence().Perspectives); diff != "" {
						t.Errorf("perspectives (-want +got):\n%s", diff)
					}
					if says := "Seen from default: absent, eu: present, us: absent."; !strings.HasSuffix(v.Sentence(), says) {
						t.Errorf("sentence %q", v.Sentence())
					}
				}
			})
		}
	}
}
