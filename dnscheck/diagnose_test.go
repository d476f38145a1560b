package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
)

const domain = "example.com"

// recursor is a resolver of a zone with these records. It follows aliases and wildcards, and
// answers NXDOMAIN for names without records at or below them.
func recursor(records ...dns.RR) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		name := q.Question[0].Name
		for range 5 {
			found, exists := covering(records, name)
			if !exists {
				m.Rcode = dns.RcodeNameError
				return m
			}
			next := ""
			for _, record := range found {
				record = dns.Copy(record)
				record.Header().Name = name
				if alias, ok := record.(*dns.CNAME); ok {
					next = alias.Target
				}
				if kind := record.Header().Rrtype; kind == dns.TypeTXT || kind == dns.TypeCNAME {
					m.Answer = append(m.Answer, record)
				}
			}
			if next == "" {
				return m
			}
			name = next
		}
		return m
	}
}

// covering returns the records of a name, or of the wildcard that matches it.
func covering(records []dns.RR, name string) (found []dns.RR, exists bool) {
	for at := name; ; {
		for _, record := range records {
			if dnsname.Same(record.Header().Name, at) {
				found = append(found, record)
			}
			exists = exists || dns.IsSubDomain(dns.CanonicalName(at), dns.CanonicalName(record.Header().Name)) && at == name
		}
		_, above, more := strings.Cut(strings.TrimPrefix(at, "*."), ".")
		if exists || len(found) > 0 || !more || above == "" {
			return found, exists || len(found) > 0
		}
		at = "*." + above
	}
}

// diagnose returns the diagnosis of an absent record.
func diagnose(t *testing.T, c *dnscheck.Checker, token string) report.Diagnosis {
	t.Helper()
	v := look(t, c)
	if v.State != dnscheck.Absent {
		t.Fatalf("verdict %s (%s), want absent", v.State, v.Reason)
	}
	d, err := c.Diagnose(t.Context(), host, domain, token, v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// manyTexts returns TXT records of the host with other values.
func manyTexts(count int) (records []dns.RR) {
	for i := range count {
		records = append(records, txt(host, fmt.Sprint(i)))
	}
	return records
}

func mistakes(d report.Diagnosis) []report.Mistake {
	var all []report.Mistake
	for _, f := range d.Findings {
		all = append(all, f.Mistake)
	}
	return all
}

func TestDiagnosis(t *testing.T) {
	tests := []struct {
		name    string
		records []dns.RR
		want    []report.Mistake
		says    string // part of the first sentence
	}{
		{"nothing anywhere", []dns.RR{address(domain, "5.5.5.5")}, nil, ""},
		{"another value", []dns.RR{txt(host, other)}, nil, ""},
		{"no value", []dns.RR{txt(host, "")}, []report.Mistake{report.MistakeEmpty},
			"The TXT record at _Verify.Org-1.Example.com is empty: enter the expected value."},
		{"a blank", []dns.RR{txt(host, " \u200b")}, []report.Mistake{report.MistakeEmpty}, ""},
		{"a letter for a digit", []dns.RR{txt(host, "O"+token[1:])}, []report.Mistake{report.MistakeTyped},
			`differs from the expected one in a few characters ("O123456789abcdef0123456789abcdef"): copy it again.`},
		{"two characters swapped", []dns.RR{txt(host, token[:8]+"98"+token[10:])},
			[]report.Mistake{report.MistakeTyped}, ""},
		{"a character missing", []dns.RR{txt(host, token[:8]+token[9:])}, []report.Mistake{report.MistakeTyped}, ""},
		{"a character twice", []dns.RR{txt(host, token[:9]+token[8:])}, []report.Mistake{report.MistakeTyped}, ""},
		{"five differ", []dns.RR{txt(host, token[:8]+"00000"+token[13:])}, []report.Mistake{report.MistakeOther}, ""},
		{"an older token behind others", []dns.RR{txt(host, "v=spf1 -all"), txt(host, older), txt(host, "x")},
			[]report.Mistake{report.MistakeOther}, "The value at _Verify.Org-1.Example.com looks like one that was given before, " +
				`or to another organization ("` + older + `"): add a TXT record with the expected value there.`},
		{"an older token, and the token at the domain", []dns.RR{txt(host, older), txt(domain, token)},
			[]report.Mistake{report.MistakeApex, report.MistakeOther}, "The record is at example.com; it must be at"},
		{"a value of that form at the domain", []dns.RR{txt(domain, older)}, nil, ""},
		{"empty values elsewhere", []dns.RR{txt(domain, ""), txt("www.example.com", "")}, nil, ""},
		{"at the domain", []dns.RR{txt(domain, "v=spf1 -all"), txt(domain, token)}, []report.Mistake{report.MistakeApex},
			"The record is at example.com; it must be at _Verify.Org-1.Example.com."},
		{"domain appended", []dns.RR{txt(host+"."+domain, token)}, []report.Mistake{report.MistakeDoubled},
			"The record is at _Verify.Org-1.Example.com.example.com; it must be at _Verify.Org-1.Example.com. " +
				"The DNS provider appends the domain itself: enter _Verify.Org-1 as the record's name there, or the full name with a final dot."},
		{"organization left out", []dns.RR{txt("_verify.example.com", token)}, []report.Mistake{report.MistakeLeftOut},
			"The record is at _Verify.Example.com; it must be at _Verify.Org-1.Example.com."},
		{"quoted", []dns.RR{txt(host, `"`+token+`"`)}, []report.Mistake{report.MistakeQuoted},
			`has quotation marks or backslashes in it ("\"0123456789abcdef0123456789abcdef\""): enter it without.`},
		{"quoted by a word processor", []dns.RR{txt(host, "“"+token+"”")}, []report.Mistake{report.MistakeQuoted}, ""},
		{"quoted and escaped", []dns.RR{txt(host, `\"`+token+`\"`)}, []report.Mistake{report.MistakeQuoted}, ""},
		{"quoted and padded", []dns.RR{txt(host, ` "`+token+" \"\n")}, []report.Mistake{report.MistakeQuoted}, ""},
		{"two strings in one value", []dns.RR{txt(host, `"`+token[:16]+`" "`+token[16:]+`"`)},
			[]report.Mistake{report.MistakeQuoted}, ""},
		{"escaped for a zone file", []dns.RR{txt(host, token[:16]+`\;`[:1]+token[16:])},
			[]report.Mistake{report.MistakeQuoted}, ""},
		{"quoted at a wildcard, which covers another name, too", []dns.RR{txt("*.org-1.example.com", `"`+token+`"`)},
			[]report.Mistake{report.MistakeQuoted, report.MistakeWildcard}, ""},
		{"blank inside", []dns.RR{txt(host, token[:16]+" "+token[16:])}, []report.Mistake{report.MistakePadded}, ""},
		{"line break inside", []dns.RR{txt(host, token[:16]+"\n"+token[16:])},
			[]report.Mistake{report.MistakePadded}, ""},
		{"other case, quoted", []dns.RR{txt(host, `"`+strings.ToUpper(token)+`"`)},
			[]report.Mistake{report.MistakeQuoted}, ""},
		{"with the name of the value", []dns.RR{txt(host, "token="+token)}, []report.Mistake{report.MistakeAlong},
			"has the expected one and more in it"},
		{"with its name, quoted and in other case", []dns.RR{txt(host, `token="`+strings.ToUpper(token)+`"`)},
			[]report.Mistake{report.MistakeAlong}, ""},
		{"with a full stop", []dns.RR{txt(host, token+".")}, []report.Mistake{report.MistakeAlong}, ""},
		{"cut, in other case", []dns.RR{txt(host, strings.ToUpper(token[:20]))}, []report.Mistake{report.MistakeCut}, ""},
		{"two records, quoted", []dns.RR{txt(host, `"`+token[20:]+`"`), txt(host, `"`+token[:20]+`"`)},
			[]report.Mistake{report.MistakeSplit}, ""},
		{"behind many others", append(manyTexts(30), txt(host, `"`+token+`"`)),
			[]report.Mistake{report.MistakeQuoted}, ""},
		{"at the name above", []dns.RR{txt("org-1.example.com", token)}, []report.Mistake{report.MistakeAbove},
			"The record is at Org-1.Example.com; it must be at _Verify.Org-1.Example.com."},
		{"without the underscore", []dns.RR{txt("verify.org-1.example.com", token)},
			[]report.Mistake{report.MistakeUnderscore}, "The record is at Verify.Org-1.Example.com; it must be at"},
		{"at www", []dns.RR{txt("www.example.com", token)}, []report.Mistake{report.MistakeWWW},
			"The record is at www.example.com; it must be at"},
		{"below www", []dns.RR{txt("_verify.org-1.www.example.com", token)}, []report.Mistake{report.MistakeWWW}, ""},
		{"at the domain and quoted", []dns.RR{txt(domain, "v=spf1 -all"), txt(domain, `"`+token+`"`)},
			[]report.Mistake{report.MistakeApex}, `There is a record at example.com with a value like the expected one ` +
				`("\"0123456789abcdef0123456789abcdef\""): it must be at _Verify.Org-1.Example.com`},
		{"other values at the domain", []dns.RR{txt(domain, "v=spf1 -all"), txt(domain, other)}, nil, ""},
		{"blank", []dns.RR{txt(host, token+" ")}, []report.Mistake{report.MistakePadded},
			`has blanks or invisible characters in it ("0123456789abcdef0123456789abcdef "): enter it without.`},
		{"tab", []dns.RR{txt(host, "\t"+token)}, []report.Mistake{report.MistakePadded}, ""},
		{"no-break space", []dns.RR{txt(host, token+"\u00a0")}, []report.Mistake{report.MistakePadded}, ""},
		{"line's end", []dns.RR{txt(host, token+"\r\n")}, []report.Mistake{report.MistakePadded}, ""},
		{"zero-width space, byte order mark", []dns.RR{txt(host, "\ufeff"+token+"\u200b")},
			[]report.Mistake{report.MistakePadded}, ""},
		{"cut short with dots", []dns.RR{txt(host, token[:8]+"…")}, []report.Mistake{report.MistakeCut},
			`("01234567\u2026"): enter all of it.`},
		{"cut in the middle", []dns.RR{txt(host, token[:4]+"..."+token[28:])}, []report.Mistake{report.MistakeCut}, ""},
		{"end missing", []dns.RR{txt(host, token[:31])}, []report.Mistake{report.MistakeCut}, ""},
		{"beginning missing", []dns.RR{txt(host, token[1:])}, []report.Mistake{report.MistakeCut}, ""},
		{"a letter of it is no part", []dns.RR{txt(host, token[:2])}, nil, ""},
		{"two records", []dns.RR{txt(host, token[20:]), txt(host, token[:20])}, []report.Mistake{report.MistakeSplit},
			`a part in each of two TXT records ("0123456789abcdef0123" "456789abcdef"): put it into one record, as one value.`},
		{"other case", []dns.RR{txt(host, strings.ToUpper(token))}, []report.Mistake{report.MistakeLetters}, ""},
		{"the whole line", []dns.RR{txt(host, "_verify IN TXT "+token)}, []report.Mistake{report.MistakeAlong}, ""},
		{"as a CNAME", []dns.RR{cname(host, token)}, []report.Mistake{report.MistakeAsAlias},
			"The expected value is in a CNAME record at _Verify.Org-1.Example.com"},
		{"as a CNAME, domain appended", []dns.RR{cname(host, strings.ToUpper(token)+"."+domain)},
			[]report.Mistake{report.MistakeAsAlias}, ""},
		{"alias to nothing", []dns.RR{cname(host, "gone.example.net")}, []report.Mistake{report.MistakeAlias},
			`There is a CNAME record at _Verify.Org-1.Example.com, which leads to "gone.example.net", and`},
		{"alias to another value", []dns.RR{cname(host, "there.example.net"), txt("there.example.net", other)},
			[]report.Mistake{report.MistakeAlias}, ""},
		{"wildcard with another value", []dns.RR{txt("*.org-1.example.com", other)},
			[]report.Mistake{report.MistakeWildcard},
			"The value at _Verify.Org-1.Example.com comes from a wildcard record (*)"},
		{"wildcard alias", []dns.RR{cname("*.example.com", "parking.example.net"), address("parking.example.net", "5.5.5.5")},
			[]report.Mistake{report.MistakeWildcard}, ""},
		{"token at a wildcard beside the host", []dns.RR{address(host, "5.5.5.5"), txt("*.org-1.example.com", token)},
			[]report.Mistake{report.MistakeAtWildcard}, ""},
		{"two mistakes", []dns.RR{txt(host, "'"+token+"'"), txt(domain, token)},
			[]report.Mistake{report.MistakeQuoted, report.MistakeApex}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			z := recursor(test.records...)
			d := diagnose(t, checker(t, both(t, z), both(t, z), both(t, z)), token)
			if diff := cmp.Diff(test.want, mistakes(d)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s\n%+v", diff, d)
			}
			if len(d.Findings) > 0 && !strings.Contains(d.Findings[0].Sentence, test.says) {
				t.Errorf("sentence %q, want %q in it", d.Findings[0].Sentence, test.says)
			}
			if len(d.Unanswered) > 0 {
				t.Errorf("unanswered: %q", d.Unanswered)
			}
		})
	}
}

// TestDiagnosisAtTheNameServers checks that no resolver is queried for the host or a name
// above it, because it would cache the absence.
func TestDiagnosisAtTheNameServers(t *testing.T) {
	for name, test := range map[string]struct {
		records []dns.RR
		want    []report.Mistake
	}{
		"nothing":         {nil, nil},
		"domain appended": {[]dns.RR{txt(host+"."+domain, token)}, []report.Mistake{report.MistakeDoubled}},
		"at the domain":   {[]dns.RR{txt(domain, token)}, []report.Mistake{report.MistakeApex}},
		"quoted":          {[]dns.RR{txt(host, `"`+token+`"`)}, []report.Mistake{report.MistakeQuoted}},
	} {
		t.Run(name, func(t *testing.T) {
			n := delegated(t, test.records...)
			d := diagnose(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}), token)
			if diff := cmp.Diff(test.want, mistakes(d)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
			n.quietAbout(host)
		})
	}
}

// TestDiagnosisOfAZoneThatMoved has a zone list name servers that differ from its delegation
// to ns1 and ns2.
func TestDiagnosisOfAZoneThatMoved(t *testing.T) {
	const newAddr = "5.7.0.1"
	own := func(names ...string) []dns.RR {
		records := []dns.RR{start(domain), address("ns1.example.com", nsOne), address("ns2.example.com", nsTwo)}
		for _, name := range names {
			records = append(records, ns(domain, name))
		}
		return records
	}
	many := func(count int) []string {
		var names []string
		for i := range count {
			names = append(names, fmt.Sprintf("ns%d.hoster.net", i))
		}
		return names
	}
	has := zoneOf(start(domain), txt(host, token))
	tests := []struct {
		name  string
		zone  zone
		moved zone // the server at newAddr; nil: silent
		want  []report.Mistake
		says  string
		asked bool // whether the server at newAddr is queried
	}{
		{"the same servers", zoneOf(own("NS2.example.com", "ns1.example.com")...), has, nil, "", false},
		{"the record is at another one", zoneOf(own("ns1.example.com", "new.hoster.net")...), has,
			[]report.Mistake{report.MistakeOtherServers},
			`The record was found at name servers ("new.hoster.net") to which example.com is not delegated: add it at those`, true},
		{"at another one in the zone", zoneOf(append(own("ns9.example.com"), address("ns9.example.com", newAddr))...), has,
			[]report.Mistake{report.MistakeOtherServers},
			`The record was found at name servers ("ns9.example.com")`, true},
		{"it is not there either", zoneOf(own("new.hoster.net")...), zoneOf(start(domain)),
			[]report.Mistake{report.MistakeServersDiffer},
			`The zone example.com names other name servers ("new.hoster.net") than its delegation: make sure`, true},
		{"fewer servers", zoneOf(own("ns2.example.com")...), has,
			[]report.Mistake{report.MistakeServersDiffer}, "", false},
		{"the other one keeps silent", zoneOf(own("new.hoster.net")...), nil,
			[]report.Mistake{report.MistakeServersDiffer}, "", true},
		{"the other one does not hold the zone", zoneOf(own("new.hoster.net")...), holding(token),
			[]report.Mistake{report.MistakeServersDiffer}, "", true},
		{"at an address that is not public", zoneOf(own("inside.hoster.net")...), has,
			[]report.Mistake{report.MistakeServersDiffer}, "", false},
		{"in the zone, and without an address", zoneOf(own("ns9.example.com")...), has,
			[]report.Mistake{report.MistakeServersDiffer}, "", false},
		{"as many as are taken", zoneOf(own(many(dnscheck.MaxServers)...)...), has,
			[]report.Mistake{report.MistakeServersDiffer}, `ns11.hoster.net"...) than`, false},
		{"more than are taken", zoneOf(own(many(dnscheck.MaxServers + 1)...)...), has, nil, "", false},
		{"nothing is said of them", zoneOf(start(domain)), has, nil, "", false},
		{"without authority", func(q *dns.Msg) *dns.Msg {
			m := zoneOf(own("new.hoster.net")...)(q)
			m.Authoritative = q.Question[0].Qtype != dns.TypeNS
			return m
		}, has, nil, "", false},
		{"of another zone", func(q *dns.Msg) *dns.Msg {
			m := zoneOf(start(domain))(q)
			if q.Question[0].Qtype == dns.TypeNS {
				m.Answer = []dns.RR{ns("com", "new.hoster.net")}
			}
			return m
		}, has, nil, "", false},
		{"another mistake says more", zoneOf(append(own("new.hoster.net"), txt(host, "'"+token+"'"))...),
			zoneOf(start(domain)), []report.Mistake{report.MistakeQuoted}, "", true},
		{"another mistake, and the record there", zoneOf(append(own("new.hoster.net"), txt(host, "'"+token+"'"))...), has,
			[]report.Mistake{report.MistakeQuoted, report.MistakeOtherServers}, "", true},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := overTLD(t, twoServers()...)
			n.hosts(address("new.hoster.net", newAddr), address("inside.hoster.net", "10.0.0.1"))
			n.at(nsOne, test.zone)
			n.at(nsTwo, test.zone)
			n.at(newAddr, test.moved)
			n.at("10.0.0.1", has)
			began := time.Now()
			d := diagnose(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}), token)
			if diff := cmp.Diff(test.want, mistakes(d)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s\n%+v", diff, d)
			}
			if len(d.Findings) > 0 && !strings.Contains(d.Findings[0].Sentence, test.says) {
				t.Errorf("sentence %q, want %q in it", d.Findings[0].Sentence, test.says)
			}
			if asked := n.dials(newAddr) > 0; asked != test.asked || n.dials("10.0.0.1") > 0 {
				t.Errorf("dialled %q", n.dialled)
			}
			if took := time.Since(began); took > dnscheck.DiagnosisTime {
				t.Errorf("took %s", took)
			}
			n.quietAbout(host)
		})
	}
	bubble(t, "more in the delegation than are taken", func(t *testing.T) {
		var servers []dns.RR
		n := overTLD(t)
		for i := range dnscheck.MaxServers + 1 {
			name, addr := fmt.Sprintf("ns%d.example.com", i), fmt.Sprintf("5.1.0.%d", i+1)
			servers = append(servers, ns(domain, name), address(name, addr))
			n.at(addr, zoneOf(own("new.hoster.net")...))
		}
		n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, servers...)...))
		n.hosts(address("new.hoster.net", newAddr))
		n.at(newAddr, has)
		if d := diagnose(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}), token); len(d.Findings) > 0 ||
			n.dials(newAddr) > 0 {
			t.Errorf("findings %+v, dialled %q", d.Findings, n.dialled)
		}
	})
	bubble(t, "by the resolvers' word", func(t *testing.T) {
		n := overTLD(t, twoServers()...)
		n.at(nsOne, zoneOf(own("new.hoster.net")...))
		n.at(nsTwo, zoneOf(own("new.hoster.net")...))
		if d := diagnose(t, n.checker(dnscheck.Config{}), token); len(d.Findings) > 0 || n.straight() > 0 {
			t.Errorf("findings %+v, dialled %q", d.Findings, n.dialled)
		}
	})
}

func TestDiagnosisQueriesFewNames(t *testing.T) {
	sibling := "/* random */.Org-1.Example.com."
	always := []string{"_verify.example.com.", "_verify.org-1.example.com.example.com.", "_verify.org-1.www.example.com.",
		"example.com.", "org-1.example.com.", "verify.org-1.example.com.", "www.example.com."}
	for name, test := range map[string]struct {
		records []dns.RR
		want    []string
	}{
		"another value": {[]dns.RR{txt(host, other)}, append([]string{sibling}, always...)},
		"no name, no wildcard": {
			nil, always,
		},
		"no name, but an alias": {[]dns.RR{cname(host, "gone.example.net")}, append([]string{sibling}, always...)},
	} {
		t.Run(name, func(t *testing.T) {
			var queries counter
			z := recursor(test.records...)
			observed := make(chan dnscheck.Observation, 10)
			c := build(t, dnscheck.Config{Timeout: long, Observe: func(o dnscheck.Observation) { observed <- o },
				Resolvers: []dnscheck.Resolver{both(t, func(q *dns.Msg) *dns.Msg {
					queries.add(q)
					return z(q)
				})}})
			v := look(t, c)
			before := len(queries.seen())
			if _, err := c.Diagnose(t.Context(), host, domain, token, v); err != nil {
				t.Fatal(err)
			}
			var asked []string
			for _, q := range queries.seen()[before:] {
				name := dns.CanonicalName(q.Question[0].Name)
				if random, found := strings.CutSuffix(name, ".org-1.example.com."); found && len(random) == 26 {
					name = sibling
				}
				asked = append(asked, strings.ToLower(name))
			}
			test.want = strings.Split(strings.ToLower(strings.Join(test.want, "\n")), "\n")
			slices.Sort(asked)
			if diff := cmp.Diff(test.want, asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
			if len(observed) != 1 {
				t.Errorf("told of %d observations, want that of the look alone", len(observed))
			}
		})
	}
}

// TestDiagnosisTakesAQuorum checks that a finding needs a quorum of the resolvers.
func TestDiagnosisTakesAQuorum(t *testing.T) {
	misled := recursor(txt(domain, token))
	for lies, want := range map[int][]report.Mistake{1: nil, 2: {report.MistakeApex}} {
		zones := []zone{nothing, nothing, nothing}
		for i := range lies {
			zones[i] = misled
		}
		if diff := cmp.Diff(want, mistakes(diagnose(t, quorumOf(t, 0, zones...), token))); diff != "" {
			t.Errorf("%d of 3: mistakes (-want +got):\n%s", lies, diff)
		}
	}
}

// TestDiagnosisOfALongToken checks that a token beyond the limit of evidence has no finding: a
// truncated record is indistinguishable from a truncated observation.
func TestDiagnosisOfALongToken(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	for _, parts := range [][]string{{long[:255], long[255:], "x"}, {long[:255]}} {
		d := diagnose(t, checker(t, both(t, recursor(txt(host, parts...)))), long)
		if len(d.Findings) > 0 {
			t.Errorf("findings %+v", d.Findings)
		}
	}
}

// TestDiagnosisDomain checks that an empty domain means the registered domain, and that a host
// outside the domain has no finding.
func TestDiagnosisDomain(t *testing.T) {
	at := both(t, recursor(txt(domain, token), txt("example.org", token)))
	c := checker(t, at)
	v := look(t, c)
	for given, want := range map[string][]report.Mistake{
		"": {report.MistakeApex}, "Example.COM.": {report.MistakeApex}, "example.org": nil, "bücher.example": nil,
	} {
		d, err := c.Diagnose(t.Context(), host, given, token, v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, mistakes(d)); diff != "" {
			t.Errorf("domain %q: mistakes (-want +got):\n%s", given, diff)
		}
	}
}

// TestDiagnosisOfADomainBelowTheRegisteredOne checks that the provider's zone may begin above
// the organization's domain.
func TestDiagnosisOfADomainBelowTheRegisteredOne(t *testing.T) {
	const host = "_verify.mail.example.com"
	c := checker(t, both(t, recursor(txt(host+".example.com", token))))
	v := look(t, c)
	d, err := c.Diagnose(t.Context(), host, "mail.example.com", token, v)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Findings) != 1 || d.Findings[0].Mistake != report.MistakeDoubled ||
		!strings.Contains(d.Findings[0].Sentence, "enter _verify.mail as") {
		t.Errorf("findings %+v", d.Findings)
	}
}

func TestDiagnosisNeedsAnAbsentRecord(t *testing.T) {
	var queries counter
	c := checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		queries.add(q)
		return answer(q)
	}))
	for _, state := range []dnscheck.State{dnscheck.Present, dnscheck.Unknown} {
		d, err := c.Diagnose(t.Context(), host, domain, token,
			dnscheck.Verdict{State: state, Observations: []dnscheck.Observation{{State: state, Values: []string{token}}}})
		if err != nil || len(d.Findings) > 0 || len(queries.seen()) > 0 {
			t.Errorf("%s: %+v, %v, %d queries", state, d, err, len(queries.seen()))
		}
	}
}

// TestDiagnosisDoesNotBlameWhatIsRight checks that a token seen by one of three resolvers has
// no finding.
func TestDiagnosisDoesNotBlameWhatIsRight(t *testing.T) {
	c := quorumOf(t, 0, recursor(txt(host, token)), nothing, nothing)
	v := dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName, Host: host, Basis: dnscheck.ByResolvers,
		Observations: []dnscheck.Observation{
			{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Values: []string{token}},
			{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName}, {State: dnscheck.Absent, Reason: dnscheck.ReasonNoName},
		}}
	d, err := c.Diagnose(t.Context(), host, domain, token, v)
	if err != nil || len(d.Findings) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestDiagnosisQuotesStrangers checks that found text is short printable ASCII without links.
func TestDiagnosisQuotesStrangers(t *testing.T) {
	hostile := "\x1b[2J\u202e<a href=https://evil.example>`x`</a>"
	for name, records := range map[string][]dns.RR{
		"value":           {txt(host, hostile+strings.Repeat("x", 100), token)},
		"bytes":           {txt(host, strings.Repeat("\xff", 100)+token)},
		"value elsewhere": {txt(domain, hostile+token)},
		"alias":           {cname(host, `\027[2J.`+strings.Repeat("www.", 50)+"example.net")},
	} {
		d := diagnose(t, checker(t, both(t, recursor(records...))), token)
		if len(d.Findings) == 0 {
			t.Errorf("%s: no finding", name)
			continue
		}
		f := d.Findings[0]
		if len(f.Found) > dnscheck.MaxFound+len(`""...`) || f.Found == "" || !strings.Contains(f.Sentence, f.Found) ||
			strings.ContainsFunc(f.Found, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("<>`", r) }) ||
			strings.Contains(f.Found, "://") || strings.Contains(f.Found, "www.") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestAdvice checks the sentences of findings that were stored, by any version.
func TestAdvice(t *testing.T) {
	for want, f := range map[string]report.Finding{
		"The record is at example.com; it must be at _v.o.example.com.": {Mistake: "newer", Host: "example.com"},
		"The record is at _v.o.example.com.example.com; it must be at _v.o.example.com. The DNS provider appends the domain itself: " +
			"enter _v.o as the record's name there, or the full name with a final dot.": {
			Mistake: report.MistakeDoubled, Host: "_v.o.example.com.example.com"},
		"There is a record at _v.o.example.com.example.com with a value like the expected one (\"x\"): it must be at _v.o.example.com, " +
			"with the value exactly as it was given.": {
			Mistake: report.MistakeDoubled, Host: "_v.o.example.com.example.com", Found: `"x"`},
	} {
		if got := f.Advice("_v.o.example.com."); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDiagnosisEndsInTime checks that a diagnosis without answers ends in time and names the
// failed queries.
func TestDiagnosisEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: anyResolver(3), Timeout: long}, memory{udp: unanswered}.dial(t))
		if err != nil {
			t.Fatal(err)
		}
		v := dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName, Host: host, Basis: dnscheck.ByResolvers}
		began := time.Now()
		d, err := c.Diagnose(t.Context(), host, domain, token, v)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != dnscheck.DiagnosisTime {
			t.Errorf("took %s, want %s", took, dnscheck.DiagnosisTime)
		}
		want := []string{domain, host + "." + domain, "www." + domain, "_Verify.Org-1.www." + domain, "_Verify.Example.com",
			"Org-1.Example.com", "Verify.Org-1.Example.com"}
		if diff := cmp.Diff(want, d.Unanswered); diff != "" || len(d.Findings) > 0 {
			t.Errorf("unanswered (-want +got):\n%s%v", diff, d.Findings)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Diagnose(ctx, host, domain, token, v); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestDiagnosisOfNoQuestion(t *testing.T) {
	c := checker(t, both(t, nothing))
	for _, q := range [][2]string{{"", token}, {"localhost", token}, {host, ""}} {
		if _, err := c.Diagnose(t.Context(), q[0], domain, q[1],
			dnscheck.Verdict{State: dnscheck.Absent}); !asQuestionError(err) {
			t.Errorf("%q: error %v", q, err)
		}
	}
}

func FuzzDiagnosis(f *testing.F) {
	f.Add("\"token-1234\"", "tok\\.en", "token-1234")
	f.Add("token-…", `\`, "x")
	f.Fuzz(func(t *testing.T, value, alias, token string) {
		c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: anyResolver(1)}, memory{}.dial(t))
		if err != nil {
			t.Fatal(err)
		}
		v := dnscheck.Verdict{State: dnscheck.Absent, Basis: dnscheck.ByAuthority, Observations: []dnscheck.Observation{
			{State: dnscheck.Absent, Values: []string{value, value}, Aliases: []string{alias}},
		}}
		d, err := c.Diagnose(t.Context(), host, domain, token, v)
		if err != nil {
			return
		}
		for _, finding := range d.Findings { // two names of 253 bytes, in the worst case escaped as \x00
			if slices.ContainsFunc([]byte(finding.Sentence), func(b byte) bool { return b < 0x20 }) ||
				len(finding.Sentence) > 3000 {
				t.Errorf("sentence %q", finding.Sentence)
			}
		}
	})
}
