package dnscheck_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
)

// fullVerdict returns a verdict without empty fields.
func fullVerdict() dnscheck.Verdict {
	return dnscheck.Verdict{
		State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, Host: "_v.example.com", Basis: dnscheck.ByBoth,
		Note:        "ns2.example.com: refused",
		NegativeTTL: 90 * time.Second, Quorum: 2, Resolvers: 3,
		Observations: []dnscheck.Observation{
			{
				Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "tcp", State: dnscheck.Absent,
				Reason: dnscheck.ReasonOtherValue,
				Values: []string{"a\x1b[2J\xff", strings.Repeat("x", 255), "c", "d"}, MoreValues: 5,
				Aliases: []string{"one.example", "two\n.example"}, RCode: "NOERROR", Took: 1500 * time.Microsecond,
			},
			{
				Resolver: "9.9.9.9:53", Operator: "Quad9", Perspective: "default", Transport: "udp", State: dnscheck.Unknown,
				Reason: dnscheck.ReasonServFail, RCode: "SERVFAIL", EDE: "network error (22)",
				Authenticated: true, NegativeTTL: 90 * time.Second, Took: 20 * time.Millisecond, Err: "server failure",
			},
		},
	}
}

func TestEvidence(t *testing.T) {
	want := report.Evidence{
		State: "absent", Reason: "other_value", Basis: "authority_and_resolvers", Note: "ns2.example.com: refused",
		Sentence: `The TXT record at _v.example.com holds another value than the expected one.`,
		Quorum:   2, Resolvers: 3, NegativeTTL: 90,
		Said: []report.Observation{
			{
				Asked: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "tcp",
				State: "absent", Reason: "other_value",
				Values: []string{`"a\x1b[2J\xff"`, `"` + strings.Repeat("x", 100) + `"…`, `"c"`, `"d"`}, MoreValues: 5,
				Aliases: []string{"one.example", `"two\n.example"`}, RCode: "NOERROR", Milliseconds: 1.5,
			},
			{
				Asked: "9.9.9.9:53", Operator: "Quad9", Perspective: "default", Transport: "udp", State: "unknown",
				Reason: "servfail", RCode: "SERVFAIL", EDE: "network error (22)",
				Authenticated: true, NegativeTTL: 90, Milliseconds: 20, Err: "server failure",
			},
		},
	}
	if diff := cmp.Diff(want, fullVerdict().Evidence()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
