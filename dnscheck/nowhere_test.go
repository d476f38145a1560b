package dnscheck_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
)

// toTheRoot answers for names of com by z, and denies all others with the SOA record of the root.
// Where the host has an alias, it follows it.
func toTheRoot(z zone, target string) zone {
	return func(q *dns.Msg) *dns.Msg {
		switch {
		case target != "" && asksFor(q, host):
			m := saidBy(".")(q)
			m.Answer = []dns.RR{cname(host, target)}
			return m
		case dns.IsSubDomain("com.", dns.CanonicalName(q.Question[0].Name)) || asksFor(q, "a.registry.net"):
			return z(q)
		}
		return saidBy(".")(q)
	}
}

// TestAliasIntoATopLevelDomainThatDoesNotExist has customers enter the token as an alias, or
// mistype the alias's target: they would wait for servers that are only silent.
func TestAliasIntoATopLevelDomainThatDoesNotExist(t *testing.T) {
	noName := absent(dnscheck.ReasonNoName)
	unnamed := unknown(dnscheck.ReasonTopLevel)
	filtered := with(dns.ExtendedErrorCodeFiltered, saidBy("."))
	tests := []struct {
		name      string
		target    string
		resolvers func(z zone, target string) zone // all of them
		other     zone                             // the first resolver, for the top-level domain; nil: as the others
		silent    bool                             // the second name server
		want      expected                         // of a check and a proof
		disproof  expected
	}{
		{"the token", token, toTheRoot, nil, false, noName, noName},
		{"a slip of the pen", "verify.acme.con", toTheRoot, nil, false, noName, noName},
		{"one resolver fails", token, toTheRoot, servfail, false, noName, noName},
		{"one resolver finds it", token, toTheRoot, func(q *dns.Msg) *dns.Msg {
			return answer(q, ns(q.Question[0].Name, "a.registry.net"))
		}, false, unnamed, unnamed},
		{"not denied for the root", token, func(z zone, target string) zone {
			return func(q *dns.Msg) *dns.Msg {
				m := toTheRoot(z, target)(q)
				if m.Rcode == dns.RcodeNameError {
					m.Ns = []dns.RR{start(q.Question[0].Name)}
				}
				return m
			}
		}, nil, false, unnamed, unknown(dnscheck.ReasonRefused)},
		{"it exists without name servers", token, func(z zone, target string) zone {
			return func(q *dns.Msg) *dns.Msg {
				m := toTheRoot(z, target)(q)
				m.Rcode = dns.RcodeSuccess
				return m
			}
		}, nil, false, unnamed, unknown(dnscheck.ReasonRefused)},
		{"the resolvers' policy denies it", token, func(z zone, target string) zone {
			return func(q *dns.Msg) *dns.Msg {
				if m := toTheRoot(z, target)(q); m.Rcode != dns.RcodeNameError {
					return m
				}
				return filtered(q)
			}
		}, nil, false, unnamed, unknown(dnscheck.ReasonRefused)},
		{"only one of two name servers gives the alias", token, toTheRoot, nil, true, unknown(dnscheck.ReasonTooFew),
			unknown(dnscheck.ReasonTooFew)},
	}
	for _, test := range tests {
		ways := map[string]func(*testing.T, *dnscheck.Checker) dnscheck.Verdict{
			"look": look, "prove": prove, "disprove": disprove,
		}
		for way, ask := range ways {
			bubble(t, test.name+", "+way, func(t *testing.T) {
				n := delegated(t, cname(host, test.target))
				if test.silent {
					n.at(nsTwo, nil)
				}
				for i, address := range resolverAddrs {
					z := test.resolvers(n.resolver, test.target)
					n.at(address, func(q *dns.Msg) *dns.Msg {
						if i == 0 && test.other != nil && q.Question[0].Qtype == dns.TypeNS && !asksFor(q, "com") {
							return test.other(q)
						}
						return z(q)
					})
				}
				v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
				wanted := test.want
				if way == "disprove" {
					wanted = test.disproof
				}
				want(t, v, wanted.state, wanted.reason)
				if way != "disprove" {
					n.quietAbout(host)
				}
				if v.State != dnscheck.Absent {
					return
				}
				if got, want := v.Sentence(), host+" is an alias (CNAME) of "+test.target+", which does not exist."; got != want {
					t.Errorf("sentence %q, want %q", got, want)
				}
				d, err := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}).Diagnose(t.Context(), host, domain, token, v)
				if err != nil {
					t.Fatal(err)
				}
				mistake := report.MistakeAlias
				if test.target == token {
					mistake = report.MistakeAsAlias
				}
				if diff := cmp.Diff([]report.Mistake{mistake}, mistakes(d)); diff != "" {
					t.Errorf("mistakes (-want +got):\n%s", diff)
				}
			})
		}
	}
	bubble(t, "the domain's own, which a disproof does not believe", func(t *testing.T) {
		n := newInternet(t)
		for _, address := range resolverAddrs {
			n.at(address, saidBy("."))
		}
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		want(t, prove(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		n.quietAbout(host)
		want(t, disprove(t, c), dnscheck.Unknown, dnscheck.ReasonNoServers)
		for _, address := range resolverAddrs { // for the host by its zone, which contradicts the root
			n.at(address, func(q *dns.Msg) *dns.Msg {
				if asksFor(q, host) {
					return saidBy("example.com")(q)
				}
				return saidBy(".")(q)
			})
		}
		want(t, disprove(t, c), dnscheck.Unknown, dnscheck.ReasonNoServers)
	})
}

// TestZoneWithoutNameServers has a registry, a zone above, and the one above an alias's target
// name the root as the only name server, as for a domain that is not in use.
func TestZoneWithoutNameServers(t *testing.T) {
	none := unknown(dnscheck.ReasonNoServers)
	sentence := "The TXT record at " + host + " could not be checked: the zone above names no name servers " +
		"of the domain, or of a name on the way there (of an alias, or of a name server)."
	for name, world := range map[string]func(t *testing.T) *internet{
		"by the registry": func(t *testing.T) *internet { return overTLD(t, ns("example.com", ".")) },
		"by the zone above": func(t *testing.T) *internet {
			return delegated(t, ns(host, "."))
		},
		"of an alias": func(t *testing.T) *internet {
			n := delegated(t, cname(host, "elsewhere.net"))
			n.hosts(address("x.elsewhere.net", "5.5.5.5")) // so that net is there
			n.at(hostAddr("net"), zoneOf(start("net"), ns("elsewhere.net", ".")))
			return n
		},
	} {
		for way, ask := range ways {
			bubble(t, name+", "+way, func(t *testing.T) {
				v := ask(t, world(t).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
				want(t, v, none.state, none.reason)
				if got := v.Sentence(); got != sentence {
					t.Errorf("sentence %q, want %q", got, sentence)
				}
			})
		}
	}
}
