package dnscheck_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

func TestExamine(t *testing.T) {
	servers := zone(func(q *dns.Msg) *dns.Msg {
		m := answer(q, ns(".", "a.root.example."))
		m.AuthenticatedData = true
		return m.SetEdns0(1232, false)
	})
	forAddresses := zone(func(q *dns.Msg) *dns.Msg {
		if q.Question[0].Qtype == dns.TypeA {
			return answer(q, &dns.A{Hdr: header(q.Question[0].Name, dns.TypeA, 60), A: []byte{192, 0, 2, 1}})
		}
		return noName(q)
	})
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, dnscheck.Config{},
			root(servers, noName), root(refused, noName), root(servers, yes), root(servers, forAddresses))
		got, outward := c.Examine(t.Context())
		want := []dnscheck.Examination{
			{Name: "r0", Operator: "192.0.2.1", Perspective: "default", Transport: "udp", EDNS: true, Validates: true},
			{Name: "r1", Operator: "192.0.2.2", Perspective: "default", Transport: "udp"},
			{Name: "r2", Operator: "192.0.2.3", Perspective: "default", Transport: "udp", EDNS: true, Validates: true,
				Lies: "it has 1 records for a name that does not exist (TXT)"},
			{Name: "r3", Operator: "192.0.2.4", Perspective: "default", Transport: "udp", EDNS: true, Validates: true,
				Lies: "it has 1 records for a name that does not exist (A)"},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(dnscheck.Examination{}, "Err", "TCP")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, e := range got {
			if e.TCP == nil {
				t.Errorf("r%d: TCP is closed, and that is not told", i)
			}
			if (e.Err != nil) != (i == 1) {
				t.Errorf("r%d: err %v", i, e.Err)
			}
		}
		if outward != (dnscheck.Outward{}) {
			t.Errorf("name servers were asked: %+v", outward)
		}
	})
}

// TestExamineOutward queries one server that is both a resolver and a name server of the root.
func TestExamineOutward(t *testing.T) {
	world := func(authoritative bool) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := noName(q)
			switch asked := q.Question[0]; {
			case asked.Name == "." && asked.Qtype == dns.TypeNS:
				m = answer(q, ns(".", "a.root.example."))
			case asked.Qtype == dns.TypeA:
				m = answer(q, &dns.A{Hdr: header(asked.Name, dns.TypeA, 60), A: []byte{127, 0, 0, 1}})
			}
			m.Authoritative = authoritative
			return m
		}
	}
	examine := func(r dnscheck.Resolver, anyAddress bool) dnscheck.Outward {
		_, out := build(t, dnscheck.Config{
			Resolvers: []dnscheck.Resolver{r}, Mode: dnscheck.ModeAuthority, NameServerPort: r.Addr.Port(),
			AnyNameServer: anyAddress,
		}).Examine(t.Context())
		return out
	}
	good := both(t, world(true))
	if out := examine(good, true); out.Err != nil || out.UDP != nil || out.TCP != nil || out.Server == "" {
		t.Errorf("both transports are open: %+v", out)
	}
	if out := examine(good, false); out.Err == nil || out.Server != "" {
		t.Errorf("a root at a private address: %+v", out)
	}
	if out := examine(serve(t, world(true).udp, nil), true); out.Err != nil || out.UDP != nil || out.TCP == nil {
		t.Errorf("TCP is closed: %+v", out)
	}
	if out := examine(both(t, world(false)), true); out.Err == nil {
		t.Errorf("somebody answers in its place: %+v", out)
	}
}

// TestExamineIPv6 has a machine with and without IPv6, and a root whose servers have none.
func TestExamineIPv6(t *testing.T) {
	tests := []struct {
		name    string
		address string // of the root's server
		without bool   // the machine has no IPv6
		wrong   bool
	}{
		{"answers", "2a00::1", false, false},
		{"no way out", "2a00::1", true, true},
		{"no answer", "2a00::2", false, true},
		{"not known", "", true, false},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := newInternet(t)
			n.noIPv6 = test.without
			n.know(ns(".", "a.root.net"), address("a.root.net", "5.0.0.2"))
			z := zoneOf(start("."), ns(".", "a.root.net"))
			n.at("5.0.0.2", z)
			n.at("2a00::1", z)
			n.at("2a00::2", nil)
			if test.address != "" {
				n.know(address("a.root.net", test.address))
			}
			_, out := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}).Examine(t.Context())
			if out.Err != nil || out.UDP != nil || out.TCP != nil || (out.IPv6 != nil) != test.wrong {
				t.Errorf("%+v", out)
			}
		})
	}
}
