package dnscheck_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

var (
	strictAliases   = dnscheck.Config{RefuseAliases: true}
	isAliasOut      = expected{dnscheck.Unknown, dnscheck.ReasonAliasOut}
	isWildcardAlias = expected{dnscheck.Unknown, dnscheck.ReasonWildcardAlias}
)

// provenInEachMode expects the verdict of a proof in each mode.
func provenInEachMode(t *testing.T, c dnscheck.Config, z zone, wanted expected) {
	t.Helper()
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
		bubble(t, mode.String(), func(t *testing.T) {
			c.Mode = mode
			want(t, prove(t, everywhere(t, z).checker(c)), wanted.state, wanted.reason)
		})
	}
}

func TestAliasesOutOfTheDomain(t *testing.T) {
	const inside, outside, wild = "_v.other.example.com", "_v.parking.com", "*.example.com"
	in := func(records ...dns.RR) []dns.RR { return append([]dns.RR{start("example.com")}, records...) }
	out := []dns.RR{start("parking.com"), txt(outside, token), cname("_back.parking.com", inside),
		txt("_Verify.parking.com", token)}
	tests := []struct {
		name string
		zone zone
		want expected
	}{
		{"no alias", zoneOf(in(txt(host, token))...), found},
		{"within the domain", zoneOf(in(cname(host, inside), txt(inside, token))...), found},
		{
			"within the domain, in other letters", zoneOf(in(cname(host, "_V.Other.EXAMPLE.com"), txt(inside, token))...), found,
		},
		{"out of the domain", zoneOf(append(in(cname(host, outside)), out...)...), isAliasOut},
		{"out at the second step", zoneOf(append(in(cname(host, inside), cname(inside, outside)), out...)...), isAliasOut},
		{"out and back again", zoneOf(append(in(cname(host, "_back.parking.com"), txt(inside, token)), out...)...),
			isAliasOut},
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
		bubble(t, name, func(t *testing.T) {
			v := prove(t, inMemory(t, strictAliases, zones...))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonAliasOut)
			sentence := "The TXT record at " + host + " was found through an alias (CNAME or DNAME) from " + host +
				" to thing.hosting.net, out of the domain, " +
				"where others may be able to publish it: publish the record at " + host + " itself, instead of an alias."
			if diff := cmp.Diff(sentence, v.Sentence()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
			if plain := v.Plain(); strings.Contains(plain, "hosting") {
				t.Errorf("plain %q", plain)
			}
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
		{"another domain", "_v.example.com", "x.example.com", "x.example.net",
			[]string{"x.example.com", "x.example.net", "y.example.com"}},
		{"another domain beneath the same suffix", "_v.example.co.uk", "_v.example.co.uk", "x.other.co.uk",
			[]string{"x.other.co.uk"}},
		{"another one's name at the same host of many", "_v.me.github.io", "_v.me.github.io", "_v.you.github.io",
			[]string{"_v.you.github.io"}},
		{"where strangers have names beneath the domain", "_v.amazonaws.com", "_v.amazonaws.com", "you.s3.amazonaws.com",
			[]string{"you.s3.amazonaws.com"}},
		{"an escaped dot", "_v.example.com", "_v.example.com", `x\.example.com`, []string{`x\.example.com`}},
		{"an escaped digit", "_v.example.com", "_v.example.com", `\120.example.com`, []string{`\120.example.com`}},
		{"a suffix", "_v.example.com", "_v.example.com", "com", []string{"com"}},
		{"at a suffix", "_v.co.uk", "", "", nil},
		{"from a suffix", "co.uk", "co.uk", "co.uk", []string{"co.uk"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := dnscheck.Verdict{Host: test.host, Observations: []dnscheck.Observation{
				{State: dnscheck.Present}, {State: dnscheck.Unknown, Aliases: []string{"not.counted.net"}},
				{State: dnscheck.Present, Aliases: test.aliases},
			}}
			from, to, out := v.AliasOut()
			if from != test.from || to != test.to || out != (test.to != "") {
				t.Errorf("from %q to %q, %t; want %q to %q", from, to, out, test.from, test.to)
			}
		})
	}
}
