package dnscheck_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// aliasScene is a zone with an alias out of the domain, whose target has the token, and the verdict
// of a proof.
type aliasScene struct {
	name string
	zone zone
	want expected
}

// aliasScenes has a stranger own the target of an alias out of the domain. Each alias within the
// domain on the way there must be its own: of a wildcard nobody has published it at the host.
func aliasScenes() []aliasScene {
	const inside, outside, wild = "thing.example.com", "_v.parking.com", "*.example.com"
	in := func(records ...dns.RR) []dns.RR { return append([]dns.RR{start("example.com")}, records...) }
	out := func(records ...dns.RR) []dns.RR {
		return append(records, start("parking.com"), txt(outside, token), txt("_Verify.parking.com", token))
	}
	wildcard := unknown(dnscheck.ReasonWildcardAlias)
	return []aliasScene{
		{"a wildcard alias out of the domain", withWildcard(cname(wild, outside), out(in()...)...), wildcard},
		{"a wildcard alias within the domain, and from there out",
			withWildcard(cname(wild, inside), out(in(cname(inside, outside))...)...), wildcard},
		{"an alias of its own, to a name that a wildcard leads out",
			withWildcard(cname(wild, outside), out(in(cname(host, "other.example.com"))...)...), wildcard},
		{"a DNAME out of the domain", zoneOf(out(in(dname("Org-1.Example.com", "parking.com"))...)...), wildcard},
		{"a wildcard alias within the domain, where the token is",
			withWildcard(cname(wild, inside), in(txt(inside, token))...), found},
		{"an alias of its own out of the domain", zoneOf(out(in(cname(host, outside))...)...), found},
		{"an alias of its own out of the domain, by another", zoneOf(out(in(cname(host, inside), cname(inside, outside))...)...),
			found},
		{"an alias of its own out of the domain, beside a wildcard with another",
			withWildcard(cname(wild, "www.parking.com"), out(in(cname(host, outside))...)...), found},
		{"an alias of its own out of the domain, beside a wildcard with the same",
			withWildcard(cname(wild, outside), out(in(cname(host, outside))...)...), wildcard},
	}
}

func TestWildcardAliases(t *testing.T) {
	for _, test := range aliasScenes() {
		t.Run(test.name, func(t *testing.T) { provenInEachMode(t, dnscheck.Config{}, test.zone, test.want) })
	}
}

// TestWildcardAliasThatTooFewAnswerFor has servers that are silent about any other name than those
// with aliases: it is not known then whether these are a wildcard's.
func TestWildcardAliasThatTooFewAnswerFor(t *testing.T) {
	aliased := zoneOf(start("example.com"), cname(host, "_v.parking.com"),
		start("parking.com"), txt("_v.parking.com", token))
	onlyKnown := func(q *dns.Msg) *dns.Msg {
		name := dns.CanonicalName(q.Question[0].Name)
		if dns.IsSubDomain("example.com.", name) && !dnsname.Same(name, host) {
			return servfail(q)
		}
		return aliased(q)
	}
	provenInEachMode(t, dnscheck.Config{}, onlyKnown, unknown(dnscheck.ReasonWildcardAlias))
	synctest.Test(t, func(t *testing.T) {
		v := prove(t, everywhere(t, onlyKnown).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		const says = "Publish the record at " + host + " itself, or an alias for that name instead of the wildcard."
		if !strings.HasSuffix(v.Sentence(), says) {
			t.Errorf("sentence %q, want %q at its end", v.Sentence(), says)
		}
	})
}
