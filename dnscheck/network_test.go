package dnscheck_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// rootAndTwo adds a server of the root, of com and of org, with an IPv4 and an IPv6 address each,
// and returns the addresses of both families.
func (n *internet) rootAndTwo() (four, six []string) {
	for origin, at := range map[string][2]string{
		".": {"5.0.0.1", "2a00::1"}, "com.": {"5.0.1.1", "2a00::2"}, "org.": {"5.0.2.1", "2a00::3"},
	} {
		server := "ns." + origin
		if origin == "." {
			server = "a.root-servers.net."
		}
		n.know(ns(origin, server), address(server, at[0]), address(server, at[1]))
		z := zoneOf(start(origin), ns(origin, server))
		n.at(at[0], z)
		n.at(at[1], z)
		four, six = append(four, at[0]), append(six, at[1])
	}
	return four, six
}

// box answers every question itself, as a resolver does to which port 53 is redirected.
func box(q *dns.Msg) *dns.Msg {
	m := answer(q)
	m.Authoritative, m.RecursionAvailable = false, true
	return m
}

func TestProbeNetwork(t *testing.T) {
	gone := func(n *internet, addrs []string) {
		for _, addr := range addrs {
			delete(n.servers, addr)
		}
	}
	all := func(n *internet, z zone, addrs ...[]string) {
		for _, family := range addrs {
			for _, addr := range family {
				n.at(addr, z)
			}
		}
	}
	tests := []struct {
		name    string
		change  func(n *internet, four, six []string)
		port    dnscheck.Port53
		ipv6    dnscheck.IPv6
		problem string // a part of it
		why     string // likewise
		noIPv6  string // likewise
	}{
		{name: "open", port: dnscheck.Port53Open, ipv6: dnscheck.IPv6Open},
		{
			name:   "packets are dropped",
			change: func(n *internet, four, six []string) { all(n, nil, four, six) },
			port:   dnscheck.Port53Closed, problem: "port 53 is closed",
			why: "a.root-servers.net (5.0.0.1:53) over TCP: no answer within 1s; a.root-servers.net (5.0.0.1:53) over UDP: no answer",
		},
		{
			name: "packets are rejected, and there is no IPv6",
			change: func(n *internet, four, six []string) {
				gone(n, append(four, six...))
				n.noIPv6 = true
			},
			port: dnscheck.Port53Closed, problem: "port 53 is closed", why: "connection refused",
		},
		{
			name:   "a box answers in the place of all",
			change: func(n *internet, four, six []string) { all(n, box, four, six) },
			port:   dnscheck.Port53Redirected, problem: "port 53 is redirected",
			why: "another server answers in its place (NOERROR, AA false, RA true)",
		},
		{
			name: "a box claims authority",
			change: func(n *internet, four, six []string) {
				all(n, func(q *dns.Msg) *dns.Msg {
					m := box(q)
					m.Authoritative = true
					return m
				}, four, six)
			},
			port: dnscheck.Port53Redirected, problem: "port 53 is redirected", why: "AA true, RA true",
		},
		{
			name:   "a box refuses",
			change: func(n *internet, four, six []string) { all(n, refused, four, six) },
			port:   dnscheck.Port53Redirected, problem: "port 53 is redirected", why: "REFUSED",
		},
		{
			name: "only UDP is redirected",
			change: func(n *internet, four, six []string) {
				for _, addr := range append(four, six...) {
					n.overTCP(addr, n.servers[addr])
					n.at(addr, box)
				}
			},
			port: dnscheck.Port53Redirected, ipv6: dnscheck.IPv6Open, problem: "port 53 is redirected",
			why: "over UDP: another server",
		},
		{
			name:   "no TCP",
			change: func(n *internet, _, _ []string) { n.noTCP = true },
			port:   dnscheck.Port53NoTCP, ipv6: dnscheck.IPv6Open, problem: "TCP to port 53 is closed", why: "over TCP",
		},
		{
			name: "no UDP",
			change: func(n *internet, four, six []string) {
				for _, addr := range append(four, six...) {
					n.overTCP(addr, n.servers[addr])
					n.at(addr, nil)
				}
			},
			port: dnscheck.Port53NoUDP, ipv6: dnscheck.IPv6Open, problem: "UDP to port 53 is closed", why: "over UDP: no answer",
		},
		{
			name:   "one of three zones answers itself",
			change: func(n *internet, four, six []string) { all(n, nil, four[:2], six[:2]) },
			port:   dnscheck.Port53Open, ipv6: dnscheck.IPv6Open,
		},
		{
			name:   "no route over IPv6",
			change: func(n *internet, _, _ []string) { n.noIPv6 = true },
			port:   dnscheck.Port53Open, ipv6: dnscheck.IPv6None, noIPv6: "no way out over IPv6",
		},
		{
			name:   "IPv6 packets are dropped",
			change: func(n *internet, _, six []string) { all(n, nil, six) },
			port:   dnscheck.Port53Open, ipv6: dnscheck.IPv6Silent, noIPv6: "no answer within 1s",
		},
		{
			name:   "a machine with IPv6 only",
			change: func(n *internet, four, _ []string) { gone(n, four) },
			port:   dnscheck.Port53Open, ipv6: dnscheck.IPv6Open,
		},
		{
			name: "the resolvers know no name server",
			change: func(n *internet, _, _ []string) {
				n.known = nil
			},
		},
		{
			name: "the resolvers have private addresses only",
			change: func(n *internet, _, _ []string) {
				n.known = []dns.RR{ns(".", "a.root-servers.net"), address("a.root-servers.net", "10.0.0.1")}
			},
		},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			n := newInternet(t)
			four, six := n.rootAndTwo()
			if tc.change != nil {
				tc.change(n, four, six)
			}
			got := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}).ProbeNetwork(t.Context())
			if got.Port53 != tc.port || got.IPv6 != tc.ipv6 {
				t.Errorf("port 53 %q, IPv6 %q, want %q and %q", got.Port53, got.IPv6, tc.port, tc.ipv6)
			}
			for _, text := range []struct{ what, got, want string }{
				{"problem", got.Problem(), tc.problem}, {"why", got.Why, tc.why}, {"IPv6", got.NoIPv6, tc.noIPv6},
			} {
				if !strings.Contains(text.got, text.want) || (text.want == "") != (text.got == "") {
					t.Errorf("%s: %q, want a text with %q", text.what, text.got, text.want)
				}
			}
		})
	}
	bubble(t, "mode resolvers", func(t *testing.T) {
		n := newInternet(t)
		n.rootAndTwo()
		got := n.checker(dnscheck.Config{Mode: dnscheck.ModeResolvers}).ProbeNetwork(t.Context())
		if got != (dnscheck.Network{}) {
			t.Errorf("got %+v, want no probe", got)
		}
		if asked := n.everythingAsked(); len(asked) > 0 {
			t.Errorf("queries were sent: %v", asked)
		}
	})
}

// TestNetworkExplains has verdicts of name servers that did not answer, and others, which stay as
// they are.
func TestNetworkExplains(t *testing.T) {
	silent := dnscheck.Observation{Authority: true, Reason: dnscheck.ReasonTimeout}
	lame := dnscheck.Observation{Authority: true, Reason: dnscheck.ReasonLame, RCode: "NOERROR"}
	byResolver := dnscheck.Observation{Reason: dnscheck.ReasonTimeout}
	closed := dnscheck.Network{Port53: dnscheck.Port53Closed, Why: "no answer"}
	redirected := dnscheck.Network{Port53: dnscheck.Port53Redirected, Why: "another"}
	tests := []struct {
		name    string
		network dnscheck.Network
		state   dnscheck.State
		seen    []dnscheck.Observation
		want    dnscheck.Reason // "": the verdict's own
	}{
		{"closed", closed, dnscheck.Unknown, []dnscheck.Observation{silent, silent}, dnscheck.ReasonPortClosed},
		{"redirected", redirected, dnscheck.Unknown, []dnscheck.Observation{lame, silent}, dnscheck.ReasonPortRedirected},
		{"open", dnscheck.Network{Port53: dnscheck.Port53Open}, dnscheck.Unknown, []dnscheck.Observation{silent}, ""},
		{"not known", dnscheck.Network{}, dnscheck.Unknown, []dnscheck.Observation{silent}, ""},
		{"no TCP", dnscheck.Network{Port53: dnscheck.Port53NoTCP}, dnscheck.Unknown, []dnscheck.Observation{silent}, ""},
		{"one server denies", closed, dnscheck.Unknown,
			[]dnscheck.Observation{silent, {Authority: true, State: dnscheck.Absent}}, ""},
		{"one server refers", closed, dnscheck.Unknown,
			[]dnscheck.Observation{silent, {Authority: true, Reason: dnscheck.ReasonReferral}}, ""},
		{"one server has an alias", closed, dnscheck.Unknown,
			[]dnscheck.Observation{{Authority: true, Reason: dnscheck.ReasonAlias}, silent}, ""},
		{"present", closed, dnscheck.Present, []dnscheck.Observation{silent}, ""},
		{"absent", closed, dnscheck.Absent, []dnscheck.Observation{silent}, ""},
		{"only resolvers were asked", closed, dnscheck.Unknown, []dnscheck.Observation{byResolver}, ""},
		{"resolvers were asked too", closed, dnscheck.Unknown, []dnscheck.Observation{silent, {State: dnscheck.Present}},
			dnscheck.ReasonPortClosed},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			v := dnscheck.Verdict{State: tc.state, Reason: dnscheck.ReasonTimeout, Host: "_v.example.com", Observations: tc.seen}
			got := tc.network.Explain(v)
			if got.State != tc.state {
				t.Errorf("state %v, want %v: a probe chooses no verdict", got.State, tc.state)
			}
			if tc.want == "" {
				if got.Reason != v.Reason || got.Note != "" {
					t.Errorf("got %s, %q, want the verdict as it was", got.Reason, got.Note)
				}
				return
			}
			if got.Reason != tc.want || !strings.Contains(got.Note, tc.network.Why) {
				t.Errorf("got %s, %q, want %s", got.Reason, got.Note, tc.want)
			}
			if s := got.Sentence(); !strings.Contains(s, "port 53 is") || !strings.Contains(s, "no fault of the domain's") {
				t.Errorf("sentence %q", s)
			}
		})
	}
}

// TestResolversSee has what is told of the resolvers if the name servers gave no verdict. They are
// not asked after a denial, which they would cache.
func TestResolversSee(t *testing.T) {
	tests := []struct {
		name     string
		one, two zone // the name servers
		known    bool // the resolvers have the token
		want     string
	}{
		{
			name: "the name servers are silent, and the resolvers have the token", known: true,
			want: "of 3 resolvers 3 see the expected value, 0 see that it is not there, and 0 have no answer; that proves nothing",
		},
		{
			name: "the name servers are silent, and the resolvers have none",
			want: "of 3 resolvers 0 see the expected value, 3 see that it is not there, and 0 have no answer; that proves nothing",
		},
		{name: "both deny", one: zoneOf(start("example.com")), two: zoneOf(start("example.com"))},
		{name: "one denies, and one is silent", one: zoneOf(start("example.com"))},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			n := overTLD(t, twoServers()...)
			n.at(nsOne, tc.one)
			n.at(nsTwo, tc.two)
			if tc.known {
				n.know(txt(host, token))
			}
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			v, err := c.Prove(t.Context(), host, token)
			if err != nil || v.State == dnscheck.Present {
				t.Fatalf("%v, %v", v, err)
			}
			d, err := c.Diagnose(t.Context(), host, "example.com", token, v)
			if err != nil || d.ResolversSee != tc.want {
				t.Errorf("%q, %v; want %q", d.ResolversSee, err, tc.want)
			}
			if tc.want == "" {
				n.quietAbout(host)
			}
		})
	}
}
