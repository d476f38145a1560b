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
		got := c.Examine(t.Context())
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
	})
}
