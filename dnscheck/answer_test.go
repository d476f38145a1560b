package dnscheck_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// saying returns a zone whose reply depends on the queried name.
func saying(change func(m *dns.Msg, name string)) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		change(m, q.Question[0].Name)
		return m
	}
}

// referring returns a zone whose replies have only these records, in the authority section.
func referring(records ...dns.RR) zone {
	return saying(func(m *dns.Msg, _ string) { m.Ns = records })
}

// answerScene is the answer of a resolver to a check, and the verdict.
type answerScene struct {
	name string
	zone zone
	want expected
	ttl  time.Duration // of the verdict, negative
}

func answerScenes() []answerScene {
	unrelated := func(record dns.RR) zone {
		return saying(func(m *dns.Msg, _ string) { m.Answer = []dns.RR{record} })
	}
	chaos := txt(host, token)
	chaos.Hdr.Class = dns.ClassCHAOS
	spf := &dns.SPF{Hdr: header(host, dns.TypeSPF, 300), Txt: []string{token}}
	null := &dns.NULL{Hdr: header(host, dns.TypeNULL, 300), Data: token}
	dname := &dns.DNAME{Hdr: header("example.com", dns.TypeDNAME, 300), Target: "example.net."}
	return []answerScene{
		{"NXDOMAIN with SOA", saying(func(m *dns.Msg, _ string) {
			m.Rcode = dns.RcodeNameError
			m.Ns = []dns.RR{soa("example.com", 3600, 60)}
		}), absent(dnscheck.ReasonNoName), time.Minute},
		{"NXDOMAIN without SOA", nothing, absent(dnscheck.ReasonNoName), 0},
		{"NODATA with SOA", referring(soa("example.com", 30, 600)), absent(dnscheck.ReasonNoRecord), 30 * time.Second},
		{"NODATA without SOA", holding(), absent(dnscheck.ReasonNoRecord), 0},
		{"NODATA with the SOA of the root", referring(soa(".", 86400, 86400)),
			absent(dnscheck.ReasonNoRecord), 24 * time.Hour},
		{"NODATA with the SOA of another zone", referring(soa("example.net", 30, 600)), absent(dnscheck.ReasonNoRecord), 0},
		{"SOA with TTL 0", referring(soa("example.com", 0, 600)), absent(dnscheck.ReasonNoRecord), 0},
		{"SOA with TTL 2^31", referring(soa("example.com", 1<<31, 600)), absent(dnscheck.ReasonNoRecord), 0},
		{"other values, the lowest TTL", saying(func(m *dns.Msg, name string) {
			short := txt(name, other)
			short.Hdr.Ttl = 20
			m.Answer = []dns.RR{txt(name, other), short}
		}), absent(dnscheck.ReasonOtherValue), 20 * time.Second},
		{"other value with TTL 0", saying(func(m *dns.Msg, name string) {
			short := txt(name, other)
			short.Hdr.Ttl = 0
			m.Answer = []dns.RR{short}
		}), absent(dnscheck.ReasonOtherValue), 0},
		{"other value with TTL 2^31", saying(func(m *dns.Msg, name string) {
			long := txt(name, other)
			long.Hdr.Ttl = 1 << 31
			m.Answer = []dns.RR{long}
		}), absent(dnscheck.ReasonOtherValue), 0},
		{"other value with TTL 2^31 - 1", saying(func(m *dns.Msg, name string) {
			long := txt(name, other)
			long.Hdr.Ttl = 1<<31 - 1
			m.Answer = []dns.RR{long}
		}), absent(dnscheck.ReasonOtherValue), (1<<31 - 1) * time.Second},
		{"token in the authority section only", saying(func(m *dns.Msg, name string) {
			m.Ns = []dns.RR{txt(name, token)}
		}), absent(dnscheck.ReasonNoRecord), 0},
		{"token in the additional section only", saying(func(m *dns.Msg, name string) {
			m.Extra = []dns.RR{txt(name, token)}
		}), absent(dnscheck.ReasonNoRecord), 0},
		{"name servers from a resolver", referring(ns("example.com", "ns.example.com")), absent(dnscheck.ReasonNoRecord), 0},

		{"upward referral", saying(func(m *dns.Msg, _ string) {
			m.RecursionAvailable = false
			m.Ns = []dns.RR{ns(".", "a.root-servers.net")}
		}), unknown(dnscheck.ReasonRefused), 0},
		{"REFUSED", func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeRefused) }, unknown(dnscheck.ReasonRefused), 0},
		{"SERVFAIL", func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeServerFailure) },
			unknown(dnscheck.ReasonServFail), 0},
		{"NOTAUTH", func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeNotAuth) }, unknown(dnscheck.ReasonRCode), 0},
		{"YXDOMAIN", func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeYXDomain) }, unknown(dnscheck.ReasonRCode), 0},
		{"code without a name", func(q *dns.Msg) *dns.Msg { return rcode(q, 13) }, unknown(dnscheck.ReasonRCode), 0},
		{"extended code without a name", func(q *dns.Msg) *dns.Msg {
			m := rcode(q, 3841) // 0xF01: the four bits in the header are FORMERR
			m.SetEdns0(1232, false)
			return m
		}, unknown(dnscheck.ReasonRCode), 0},
		{"SERVFAIL with the token", func(q *dns.Msg) *dns.Msg {
			m := holding(token)(q)
			m.Rcode = dns.RcodeServerFailure
			return m
		}, unknown(dnscheck.ReasonServFail), 0},
		{"NXDOMAIN with the token", func(q *dns.Msg) *dns.Msg {
			m := holding(token)(q)
			m.Rcode = dns.RcodeNameError
			return m
		}, unknown(dnscheck.ReasonMalformed), 0},
		{"NXDOMAIN with an alias and the token at its target", saying(func(m *dns.Msg, name string) {
			m.Rcode = dns.RcodeNameError
			m.Answer = []dns.RR{cname(name, "a.example"), txt("a.example", token)}
		}), unknown(dnscheck.ReasonMalformed), 0},
		{"TXT of another name, no alias", unrelated(txt("_verify.org-2.example.com", token)),
			unknown(dnscheck.ReasonMalformed), 0},
		{"TXT of a name with an escaped dot", unrelated(txt(`_Verify\.Org-1.Example.com`, token)),
			unknown(dnscheck.ReasonMalformed), 0},
		{"TXT of the parent", unrelated(txt("org-1.example.com", token)), unknown(dnscheck.ReasonMalformed), 0},
		{"class CHAOS", unrelated(chaos), unknown(dnscheck.ReasonMalformed), 0},
		{"type SPF", unrelated(spf), unknown(dnscheck.ReasonMalformed), 0},
		{"type NULL", unrelated(null), unknown(dnscheck.ReasonMalformed), 0},

		{"NXDOMAIN together with the alias", chainOf(2, func(q *dns.Msg, _ string) *dns.Msg {
			m := rcode(q, dns.RcodeNameError)
			m.Ns = []dns.RR{soa("example.net", 50, 50)}
			return m
		}, false), absent(dnscheck.ReasonNoName), 50 * time.Second},
		{"NXDOMAIN with the SOA of the zone that was left", chainOf(2, func(q *dns.Msg, _ string) *dns.Msg {
			m := rcode(q, dns.RcodeNameError)
			m.Ns = []dns.RR{soa("example.com", 50, 50)}
			return m
		}, false), absent(dnscheck.ReasonNoName), 0},
		{"NODATA at the target", chainOf(2, func(q *dns.Msg, _ string) *dns.Msg { return answer(q) }, false),
			absent(dnscheck.ReasonNoRecord), 0},
		{"another value at the target", chainOf(2, func(q *dns.Msg, at string) *dns.Msg { return answer(q, txt(at, other)) },
			false), absent(dnscheck.ReasonOtherValue), 300 * time.Second},
		{"token at the first name of the chain, one case", chainOf(2, func(q *dns.Msg, at string) *dns.Msg {
			return answer(q, txt(at, other), txt("unrelated.example", token))
		}, false), absent(dnscheck.ReasonOtherValue), 300 * time.Second},

		{"alias of itself", saying(func(m *dns.Msg, name string) { m.Answer = []dns.RR{cname(name, name)} }),
			unknown(dnscheck.ReasonAlias), 0},
		{"alias of itself in other letters", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{cname(name, "_VERIFY.ORG-1.EXAMPLE.COM")}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"circle in one reply", saying(func(m *dns.Msg, _ string) {
			m.Answer = []dns.RR{cname(host, "a.example"), cname("a.example", "b.example"), cname("b.example", host)}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"circle over several replies", saying(func(m *dns.Msg, name string) {
			next := map[string]string{dns.CanonicalName(host): "a.example.", "a.example.": "b.example.", "b.example.": host}
			m.Answer = []dns.RR{cname(name, next[dns.CanonicalName(name)])}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"circle under NXDOMAIN", saying(func(m *dns.Msg, name string) {
			m.Rcode = dns.RcodeNameError
			m.Answer = []dns.RR{cname(name, name)}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"alias together with the token", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{cname(name, "a.example"), txt(name, token), txt("a.example", token)}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"two aliases", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{cname(name, "a.example"), cname(name, "b.example"), txt("a.example", token),
				txt("b.example", token)}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"the same alias twice", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{cname(name, "a.example"), cname(name, "A.example"), txt("a.example", token)}
		}), found, 0},
		{"DNAME with its synthesized alias", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{dname, cname(name, "_verify.org-1.example.net"), txt("_verify.org-1.example.net", token)}
		}), found, 0},
		{"DNAME without its synthesized alias", saying(func(m *dns.Msg, _ string) {
			m.Answer = []dns.RR{dname, txt("_verify.org-1.example.net", token)}
		}), found, 0},
		{"DNAME and another alias", saying(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{cname(name, "_verify.org-2.example.net"), dname, txt("_verify.org-2.example.net", token)}
		}), unknown(dnscheck.ReasonAlias), 0},
		{"DNAME above the token", saying(func(m *dns.Msg, name string) { m.Answer = []dns.RR{dname, txt(name, token)} }),
			unknown(dnscheck.ReasonAlias), 0},
		{"DNAME of another class", saying(func(m *dns.Msg, _ string) {
			renames := &dns.DNAME{Hdr: dname.Hdr, Target: dname.Target}
			renames.Hdr.Class = dns.ClassCHAOS
			m.Answer = []dns.RR{renames, txt("_verify.org-1.example.net", token)}
		}), unknown(dnscheck.ReasonMalformed), 0},
		{"alias of another class", saying(func(m *dns.Msg, name string) {
			alias := cname(name, "a.example")
			alias.Hdr.Class = dns.ClassCHAOS
			m.Answer = []dns.RR{alias, txt("a.example", token)}
		}), unknown(dnscheck.ReasonMalformed), 0},
	}
}

func TestAnswersOfAResolver(t *testing.T) {
	for _, test := range answerScenes() {
		t.Run(test.name, func(t *testing.T) {
			v := look(t, checker(t, both(t, test.zone)))
			want(t, v, test.want.state, test.want.reason)
			if v.NegativeTTL != test.ttl {
				t.Errorf("negative TTL %s, want %s", v.NegativeTTL, test.ttl)
			}
			if v.State == dnscheck.Unknown && v.Observations[0].Err == "" {
				t.Error("the observation does not say what is wrong")
			}
		})
	}
	t.Run("the target is refused", func(t *testing.T) {
		v := look(t,
			checker(t, both(t, chainOf(1, func(q *dns.Msg, _ string) *dns.Msg { return rcode(q, dns.RcodeRefused) }, true))))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonRefused)
		if diff := cmp.Diff([]string{"Hop-1.Example.net"}, v.Observations[0].Aliases); diff != "" {
			t.Errorf("aliases (-want +got):\n%s", diff)
		}
	})
}

func TestTokenCountsWhateverItsTTL(t *testing.T) {
	for _, ttl := range []uint32{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			v := look(t, checker(t, both(t, saying(func(m *dns.Msg, name string) {
				record := txt(name, token)
				record.Hdr.Ttl = ttl
				m.Answer = []dns.RR{record}
			}))))
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			if v.NegativeTTL != 0 {
				t.Errorf("negative TTL %s of a yes", v.NegativeTTL)
			}
		})
	}
}

func TestOwnerInAnyCase(t *testing.T) {
	v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		return answer(q, txt("_VERIFY.oRG-1.eXAMPLE.COM", token))
	})))
	want(t, v, dnscheck.Present, dnscheck.ReasonFound)
}

func TestExtendedErrors(t *testing.T) {
	extended := func(z zone, code uint16, text string) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := z(q)
			m.SetEdns0(1232, false)
			opt := m.IsEdns0()
			opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
			return m
		}
	}
	servfail := zone(func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeServerFailure) })
	bogus := []uint16{1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 25, 27}
	withheld := []uint16{4, 15, 16, 17, 18}
	stale := []uint16{3, 19}
	for code := range uint16(50) {
		reason := dnscheck.ReasonServFail
		if slices.Contains(bogus, code) {
			reason = dnscheck.ReasonDNSSEC
		}
		t.Run(fmt.Sprintf("SERVFAIL with %d", code), func(t *testing.T) {
			want(t, look(t, checker(t, both(t, extended(servfail, code, "")))), dnscheck.Unknown, reason)
		})
	}
	for name, z := range map[string]zone{"yes": holding(token), "NXDOMAIN": nothing, "NODATA": holding(),
		"another value": holding(other)} {
		for _, code := range withheld {
			t.Run(fmt.Sprintf("%s by policy, %d", name, code), func(t *testing.T) {
				want(t, look(t, checker(t, both(t, extended(z, code, "")))), dnscheck.Unknown, dnscheck.ReasonRefused)
			})
		}
		for _, code := range stale {
			t.Run(fmt.Sprintf("%s from an old answer, %d", name, code), func(t *testing.T) {
				want(t, look(t, checker(t, both(t, extended(z, code, "")))), dnscheck.Unknown, dnscheck.ReasonServFail)
			})
		}
	}
	for name, z := range map[string]zone{"yes": holding(token), "NXDOMAIN": nothing, "NODATA": holding(),
		"another value": holding(other)} {
		for _, code := range []uint16{6, 7, 8, 9, 10, 11, 12, 25} {
			t.Run(fmt.Sprintf("%s, found bogus, %d", name, code), func(t *testing.T) {
				want(t, look(t, checker(t, both(t, extended(z, code, "")))), dnscheck.Unknown, dnscheck.ReasonDNSSEC)
			})
		}
	}
	for _, code := range []uint16{1, 2, 5, 27} {
		t.Run(fmt.Sprintf("yes, not validated, %d", code), func(t *testing.T) {
			want(t, look(t, checker(t, both(t, extended(holding(token), code, "")))), dnscheck.Present, dnscheck.ReasonFound)
		})
	}
	t.Run("a remark does not change a yes", func(t *testing.T) {
		want(t, look(t, checker(t, both(t, extended(holding(token), dns.ExtendedErrorCodeSynthesized, "")))),
			dnscheck.Present, dnscheck.ReasonFound)
	})
	t.Run("its text is told, quoted", func(t *testing.T) {
		v := look(t, checker(t, both(t, extended(servfail, 22, "no answer\x1b[31m from ns1"))))
		const text = `No Reachable Authority (22) "no answer\x1b[31m from ns1"`
		if diff := cmp.Diff(text, v.Observations[0].EDE); diff != "" {
			t.Errorf("EDE (-want +got):\n%s", diff)
		}
		if got := v.Observations[0].RCode; got != "SERVFAIL" {
			t.Errorf("code %q, want SERVFAIL", got)
		}
	})
}

// hop returns the n-th name of a chain of aliases.
func hop(n int) string {
	if n == 0 {
		return host + "."
	}
	return fmt.Sprintf("Hop-%d.Example.net.", n)
}

// chainOf has aliases from hop 0 to hop n, for which last answers. If single is true, a reply
// holds only one alias.
func chainOf(n int, last func(q *dns.Msg, at string) *dns.Msg, single bool) zone {
	return func(q *dns.Msg) *dns.Msg {
		var aliases []dns.RR
		for i := range n {
			if len(aliases) == 0 && dns.CanonicalName(q.Question[0].Name) != dns.CanonicalName(hop(i)) {
				continue
			}
			aliases = append(aliases, cname(hop(i), hop(i+1)))
			if single {
				return answer(q, aliases...)
			}
		}
		m := last(q, hop(n))
		m.Answer = append(aliases, m.Answer...)
		return m
	}
}

func TestAliasChains(t *testing.T) {
	yes := func(q *dns.Msg, at string) *dns.Msg { return answer(q, txt(at, token)) }
	reversed := func(z zone) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := z(q)
			slices.Reverse(m.Answer)
			return m
		}
	}
	for _, length := range []int{1, 2, dnscheck.MaxAliases} {
		for name, z := range map[string]zone{
			"in order":         chainOf(length, yes, false),
			"reversed":         reversed(chainOf(length, yes, false)),
			"one by one reply": chainOf(length, yes, true),
		} {
			t.Run(fmt.Sprintf("%d hops, %s", length, name), func(t *testing.T) {
				v := look(t, checker(t, both(t, z)))
				want(t, v, dnscheck.Present, dnscheck.ReasonFound)
				if got := v.Observations[0].Aliases; len(got) != length || got[0] != "Hop-1.Example.net" {
					t.Errorf("aliases %q, want %d as they were given", got, length)
				}
			})
		}
	}
	for _, length := range []int{dnscheck.MaxAliases + 1, 50} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d hops, single %t", length, single), func(t *testing.T) {
				var queries counter
				z := chainOf(length, yes, single)
				v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
					queries.add(q)
					return z(q)
				})))
				want(t, v, dnscheck.Unknown, dnscheck.ReasonAlias)
				if n := len(queries.seen()); n > dnscheck.MaxAliases+1 {
					t.Errorf("%d queries", n)
				}
			})
		}
	}
}

// TestAliasCircleIsQueriedOnce checks that a circle of aliases ends at its first repetition,
// not at MaxAliases.
func TestAliasCircleIsQueriedOnce(t *testing.T) {
	var queries counter
	v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		queries.add(q)
		if name := q.Question[0].Name; !asksFor(q, "there.example") {
			return answer(q, cname(name, "There.example"))
		}
		return answer(q, cname("there.example", host))
	})))
	want(t, v, dnscheck.Unknown, dnscheck.ReasonAlias)
	if diff := cmp.Diff([]string{"There.example"}, v.Observations[0].Aliases); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
	if n := len(queries.seen()); n != 2 {
		t.Errorf("%d queries, want 2", n)
	}
}
