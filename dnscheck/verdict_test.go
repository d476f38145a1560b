package dnscheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

func TestSentences(t *testing.T) {
	const h = "_Verify.Org-1.Example.com"
	found := func(values ...string) dnscheck.Observation { return dnscheck.Observation{Values: values} }
	tests := []struct {
		name            string
		state           dnscheck.State
		reason          dnscheck.Reason
		observation     dnscheck.Observation
		sentence, plain string // empty plain: same as sentence
	}{
		{"found", dnscheck.Present, dnscheck.ReasonFound, found("secret-looking"),
			"The TXT record at " + h + " holds the expected value.", ""},
		{"no record", dnscheck.Absent, dnscheck.ReasonNoRecord, found(), "There is no TXT record at " + h + ".", ""},
		{"no record behind an alias", dnscheck.Absent, dnscheck.ReasonNoRecord,
			dnscheck.Observation{Aliases: []string{"a.example", "B.example"}},
			h + " is an alias (CNAME) of B.example, which has no TXT record.", "There is no TXT record at " + h + "."},
		{"no name", dnscheck.Absent, dnscheck.ReasonNoName, found(),
			"There is no TXT record at " + h + ": the name does not exist.", ""},
		{"no name behind an alias", dnscheck.Absent, dnscheck.ReasonNoName,
			dnscheck.Observation{Aliases: []string{"B.example"}},
			h + " is an alias (CNAME) of B.example, which does not exist.", "There is no TXT record at " + h + "."},
		{"other value", dnscheck.Absent, dnscheck.ReasonOtherValue, found("v=spf1 -all"),
			`The TXT record at ` + h + ` holds another value than the expected one: "v=spf1 -all".`,
			"The TXT record at " + h + " holds another value than the expected one."},
		{"other values", dnscheck.Absent, dnscheck.ReasonOtherValue,
			dnscheck.Observation{Values: []string{"a", "b", "c"}, MoreValues: 4},
			`The TXT record at ` + h + ` holds another value than the expected one: "a" (and 6 more).`,
			"The TXT record at " + h + " holds another value than the expected one."},
		{"control characters", dnscheck.Absent, dnscheck.ReasonOtherValue, found("\"x\"\r\n\x1b[31m\u202e\xff"),
			`The TXT record at ` + h + ` holds another value than the expected one: "\"x\"\r\n\x1b[31m\u202e\xff".`,
			"The TXT record at " + h + " holds another value than the expected one."},
		{"long value", dnscheck.Absent, dnscheck.ReasonOtherValue, found(strings.Repeat("x", 101)),
			`The TXT record at ` + h + ` holds another value than the expected one: "` + strings.Repeat("x", 100) + `"….`,
			"The TXT record at " + h + " holds another value than the expected one."},
		{"servfail", dnscheck.Unknown, dnscheck.ReasonServFail,
			dnscheck.Observation{EDE: `No Reachable Authority (22) "ns1"`},
			"The TXT record at " + h +
				" could not be checked: the domain's name servers do not answer as they should (SERVFAIL). The resolver says: No Reachable Authority (22) \"ns1\".",
			"The TXT record at " + h +
				" could not be checked: the domain's name servers do not answer as they should (SERVFAIL)."},
		{"refused", dnscheck.Unknown, dnscheck.ReasonRefused, found(),
			"The TXT record at " + h + " could not be checked: the resolver declined to answer for this name.", ""},
		{"timeout", dnscheck.Unknown, dnscheck.ReasonTimeout, found(),
			"The TXT record at " + h + " could not be checked: no answer came in time.", ""},
		{"unreachable", dnscheck.Unknown, dnscheck.ReasonUnreachable, found(),
			"The TXT record at " + h + " could not be checked: the resolver cannot be reached.", ""},
		{"malformed", dnscheck.Unknown, dnscheck.ReasonMalformed, found(),
			"The TXT record at " + h + " could not be checked: the answer could not be understood.", ""},
		{"aliases", dnscheck.Unknown, dnscheck.ReasonAlias, found(),
			"The TXT record at " + h +
				" could not be checked: the aliases (CNAME) there are too many, run in a circle, or contradict other records.", ""},
		{"disagree", dnscheck.Unknown, dnscheck.ReasonDisagree, found(),
			"Resolvers disagree about the TXT record at " + h + ": some see the expected value and others do not (yet).", ""},
		{"bogus", dnscheck.Unknown, dnscheck.ReasonDNSSEC, found(),
			"The TXT record at " + h + " could not be checked: the domain's DNSSEC signatures do not validate.", ""},
		{"odd code", dnscheck.Unknown, dnscheck.ReasonRCode, found(),
			"The TXT record at " + h + " could not be checked: the answer was an unexpected error.", ""},
		{"unconfirmed", dnscheck.Unknown, dnscheck.ReasonUnconfirmed, found(),
			"Only some resolvers confirm by DNSSEC what they found at " + h +
				", and too few of those see the expected value: check again later; if that lasts, one of the resolvers does not validate DNSSEC, and has to be replaced by one that does.", ""},
		{"unsigned", dnscheck.Unknown, dnscheck.ReasonUnsigned, found(),
			"The TXT record at " + h +
				" holds the expected value, but is not secured by DNSSEC, which is required: sign the domain's zone, and have its DS record published by the registrar.", ""},
		{"too few resolvers", dnscheck.Unknown, dnscheck.ReasonTooFewResolvers, found(),
			"The TXT record at " + h +
				" holds the expected value as far as one resolver sees it, which proves nothing: at least two resolvers of different operators have to be asked.", ""},
		{"one perspective", dnscheck.Unknown, dnscheck.ReasonOnePerspective, found(),
			"The TXT record at " + h +
				" holds the expected value as seen from some networks, but not from enough of them. Check again later; if that lasts, have the operators of the resolvers in the other networks repair them.", ""},
		{"one perspective, and another denies it", dnscheck.Unknown, dnscheck.ReasonOnePerspective,
			dnscheck.Observation{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName},
			"The TXT record at " + h +
				" holds the expected value as seen from some networks, but not from enough of them. Check again later; if that lasts, have the domain's name servers give the same answer to every network.", ""},
		{"alias out of the domain", dnscheck.Unknown, dnscheck.ReasonAliasOut,
			dnscheck.Observation{State: dnscheck.Present, Aliases: []string{"b.example.com", "C.example"}},
			"The TXT record at " + h +
				" was found through an alias (CNAME or DNAME) from b.example.com to C.example, out of the domain, where others may be able to publish it: publish the record at " + h + " itself, instead of an alias.",
			"The TXT record at " + h +
				" was found through an alias (CNAME or DNAME) that leads out of the domain, where others may be able to publish it: publish the record at " + h + " itself, instead of an alias."},
		{"nothing yet", dnscheck.Unknown, "", found(), "Nothing is known yet of the TXT record at " + h + ".", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.observation.Reason = test.reason
			v := dnscheck.Verdict{State: test.state, Reason: test.reason, Host: h, Observations: []dnscheck.Observation{
				{Reason: "another", Values: []string{"not to be told"}, EDE: "not to be told"}, test.observation,
			}}
			if test.plain == "" {
				test.plain = test.sentence
			}
			if diff := cmp.Diff(test.sentence, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.plain, v.Plain()); diff != "" {
				t.Errorf("plain (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSentencesOfSilentNameServers checks that the sentence blames the domain's name servers,
// not the resolvers, if only name servers were queried.
func TestSentencesOfSilentNameServers(t *testing.T) {
	const begin = "The TXT record at " + host + " could not be checked: the domain's name servers "
	tests := []struct {
		name     string
		zone     zone
		closed   bool
		sentence string
	}{
		{"silent", nil, false, begin + "did not answer in time."},
		{"closed ports", nil, true, begin + "cannot be reached."},
		{"refusing", refused, false, begin + "declined to answer for this name."},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := overTLD(t, twoServers()...)
			if !test.closed {
				n.at(nsOne, test.zone)
				n.at(nsTwo, test.zone)
			}
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			for what, got := range map[string]string{"sentence": v.Sentence(), "plain": v.Plain()} {
				if diff := cmp.Diff(test.sentence, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestSentencesNameThePartyThatFailed checks that each sentence says whose servers failed, and who
// has to do what.
func TestSentencesNameThePartyThatFailed(t *testing.T) {
	const tooFew = " name servers of example.com answered for the TXT record at " + host + ": more than half of them have to. "
	fresh := zoneOf(append([]dns.RR{start("com")}, delegatedTo("example.com", 2)...)...)
	for name, test := range map[string]struct {
		build func(t *testing.T) *internet
		want  string
	}{
		"the domain's": {func(t *testing.T) *internet { return servedBy(t, publishes, nil) },
			"Only 1 of the 2" + tooFew +
				"No usable answer: ns2.example.com (5.1.0.2:53). Repair it, or take it out at the registrar."},
		"a provider's": {func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns.example.com"), address("ns.example.com", nsOne),
				ns("example.com", "ns.provider.net"))
			n.at(nsOne, publishes)
			n.know(ns("net", "a.nic.net"), address("a.nic.net", "5.0.1.1"))
			n.at("5.0.1.1", zoneOf(start("net"), ns("provider.net", "a.provider.net"), address("a.provider.net", "5.0.1.2")))
			n.at("5.0.1.2", nil)
			return n
		}, "Only 1 of the 2" + tooFew + "No address can be found: ns.provider.net. The operator of the zone with that name " +
			"has to repair its name servers, or the name has to be taken out at the registrar."},
		"a registry's": {func(t *testing.T) *internet {
			n := newInternet(t)
			n.registryOf("com", fresh, nil, nil)
			return n
		}, "Only 1 of the 3 name servers of com answered for the TXT record at " + host +
			": more than half of them have to. They are the registry's: that is no fault of the domain's, and is tried again."},
		"a registry's, all silent": {func(t *testing.T) *internet {
			n := newInternet(t)
			n.registryOf("com", nil, nil)
			return n
		}, "The TXT record at " + host + " could not be checked: the name servers of the domain's registry did not answer in time."},
	} {
		bubble(t, name, func(t *testing.T) {
			v := prove(t, test.build(t).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			if diff := cmp.Diff(test.want, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentenceQuotesAHostThatIsNone(t *testing.T) {
	v := dnscheck.Verdict{Reason: dnscheck.ReasonTimeout, Host: "a\x1b[31m"}
	if got := v.Sentence(); !strings.Contains(got, `"a\x1b[31m"`) {
		t.Errorf("sentence %q", got)
	}
}

func TestStateString(t *testing.T) {
	got := fmt.Sprint(dnscheck.Unknown, dnscheck.Absent, dnscheck.Present, dnscheck.State(7))
	if got != "unknown absent present unknown" {
		t.Error(got)
	}
}

func ExampleVerdict_Sentence() {
	v := dnscheck.Verdict{
		State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, Host: "_verify.example.com",
		Observations: []dnscheck.Observation{
			{Reason: dnscheck.ReasonOtherValue, Values: []string{"google-site-verification=abc", "v=spf1 -all"}},
		},
	}
	fmt.Println(v.Sentence())
	fmt.Println(v.Plain())
	//nolint:lll // the output is compared line by line
	// Output:
	// The TXT record at _verify.example.com holds another value than the expected one: "google-site-verification=abc" (and 1 more).
	// The TXT record at _verify.example.com holds another value than the expected one.
}
