package dnscheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
)

// fullVerdict returns a verdict without empty fields.
func fullVerdict() dnscheck.Verdict {
	return dnscheck.Verdict{
		State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, Host: "_v.example.com", Basis: dnscheck.ByBoth, Note: "ns2.example.com: refused",
		NegativeTTL: 90 * time.Second, Quorum: 2, Resolvers: 3,
		Observations: []dnscheck.Observation{
			{
				Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "tcp", State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue,
				Values: []string{"a\x1b[2J\xff", strings.Repeat("x", 255), "c", "d"}, MoreValues: 5, Aliases: []string{"one.example", "two\n.example"}, RCode: "NOERROR", Took: 1500 * time.Microsecond,
			},
			{
				Resolver: "9.9.9.9:53", Operator: "Quad9", Perspective: "default", Transport: "udp", State: dnscheck.Unknown, Reason: dnscheck.ReasonServFail, RCode: "SERVFAIL", EDE: "network error (22)",
				Authenticated: true, NegativeTTL: 90 * time.Second, Took: 20 * time.Millisecond, Err: "server failure",
			},
		},
	}
}

func TestEvidence(t *testing.T) {
	want := dnscheck.Evidence{
		State: "absent", Reason: "other_value", Basis: "authority_and_resolvers", Note: "ns2.example.com: refused",
		Sentence: `The TXT record at _v.example.com holds another value than the expected one.`,
		Quorum:   2, Resolvers: 3, NegativeTTL: 90,
		Said: []dnscheck.ObservationRecord{
			{
				Asked: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "tcp", State: "absent", Reason: "other_value",
				Values: []string{`"a\x1b[2J\xff"`, `"` + strings.Repeat("x", 100) + `"…`, `"c"`, `"d"`}, MoreValues: 5,
				Aliases: []string{"one.example", `"two\n.example"`}, RCode: "NOERROR", Milliseconds: 1.5,
			},
			{
				Asked: "9.9.9.9:53", Operator: "Quad9", Perspective: "default", Transport: "udp", State: "unknown", Reason: "servfail", RCode: "SERVFAIL", EDE: "network error (22)",
				Authenticated: true, NegativeTTL: 90, Milliseconds: 20, Err: "server failure",
			},
		},
	}
	if diff := cmp.Diff(want, fullVerdict().Evidence()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCut checks that each level is shorter than the previous one and counts its omissions. An
// observation with a result of its own is omitted last.
func TestCut(t *testing.T) {
	v := fullVerdict()
	v.Note = strings.Repeat("é", 100)
	for i := range 14 {
		v.Observations = append(v.Observations, dnscheck.Observation{
			Resolver: fmt.Sprintf("ns%d.%s", i, strings.Repeat("n", 150)), Operator: strings.Repeat("o", 150), State: dnscheck.Unknown, Reason: dnscheck.ReasonServFail,
		})
	}
	v.Observations = append(v.Observations, dnscheck.Observation{Resolver: "last", State: dnscheck.Present, Reason: dnscheck.ReasonFound})
	whole := v.Evidence()
	type counts struct{ Values, MoreValues, Aliases, Note, Asked, Said, More int }
	for i, want := range []counts{
		{3, 6, 1, 120, 120, 16, 1}, {1, 8, 1, 120, 120, 16, 1}, {1, 8, 1, 60, 60, 16, 1}, {0, 9, 1, 60, 60, 8, 9}, {0, 9, 1, 30, 15, 1, 16},
	} {
		e := whole.Cut(i + 1)
		first, longest := e.Said[0], 0
		for _, o := range e.Said {
			longest = max(longest, len(strings.TrimSuffix(o.Asked, "…")), len(strings.TrimSuffix(o.Operator, "…")))
		}
		got := counts{len(first.Values), first.MoreValues, len(first.Aliases), len(strings.TrimSuffix(e.Note, "…")), longest, len(e.Said), e.More}
		if got != want {
			t.Errorf("level %d: %+v, want %+v", i+1, got, want)
		}
		if last := e.Said[len(e.Said)-1].Asked; i < 4 && last != "last" {
			t.Errorf("level %d leaves out who alone sees the token, and has %s last", i+1, last)
		}
	}
	if diff := cmp.Diff(v.Evidence(), whole); diff != "" {
		t.Errorf("the uncut evidence has changed (-want +got):\n%s", diff)
	}
}

// TestCutKeepsTheResolvers checks that a zone with many name servers does not displace the
// resolvers' observations.
func TestCutKeepsTheResolvers(t *testing.T) {
	var v dnscheck.Verdict
	for i := range 16 {
		v.Observations = append(v.Observations, dnscheck.Observation{Resolver: fmt.Sprintf("ns%d.example.com", i), Authority: true, State: dnscheck.Present, Reason: dnscheck.ReasonFound})
	}
	for _, operator := range []string{"Cloudflare", "Google", "Quad9"} {
		v.Observations = append(v.Observations, dnscheck.Observation{Resolver: "r", Operator: operator, Perspective: "default", State: dnscheck.Present, Reason: dnscheck.ReasonFound})
	}
	e := v.Evidence().Cut(1)
	var operators []string
	for _, o := range e.Said {
		if !o.Authority {
			operators = append(operators, o.Operator)
		}
	}
	if len(e.Said) != 16 || e.More != 3 || !slices.Equal(operators, []string{"Cloudflare", "Google", "Quad9"}) {
		t.Errorf("%d observations with those of %q, and %d more", len(e.Said), operators, e.More)
	}
}
