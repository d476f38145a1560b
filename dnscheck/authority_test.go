package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// Most tests use these zones: com. at tldAddr delegates example.com. to nsOne and nsTwo, with
// glue.
const (
	tldAddr = "5.0.0.1"
	nsOne   = "5.1.0.1"
	nsTwo   = "5.1.0.2"
)

// overTLD returns an internet with a zone com. at tldAddr that holds the records.
func overTLD(t *testing.T, records ...dns.RR) *internet {
	n := newInternet(t)
	n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
	n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, records...)...))
	return n
}

// delegated returns an internet in which both servers of example.com. hold the records.
func delegated(t *testing.T, records ...dns.RR) *internet {
	n := overTLD(t, twoServers()...)
	z := zoneOf(append([]dns.RR{start("example.com")}, records...)...)
	n.at(nsOne, z)
	n.at(nsTwo, z)
	return n
}

func twoServers() []dns.RR {
	return []dns.RR{
		ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne),
		ns("example.com", "ns2.example.com"), address("ns2.example.com", nsTwo),
	}
}

// expected is the expected state and reason of a verdict.
type expected struct {
	state  dnscheck.State
	reason dnscheck.Reason
}

var found = expected{dnscheck.Present, dnscheck.ReasonFound}

func absent(r dnscheck.Reason) expected { return expected{dnscheck.Absent, r} }

func unknown(r dnscheck.Reason) expected { return expected{dnscheck.Unknown, r} }

// zoneScene is an internet in which a check has to find the zone that holds the host.
type zoneScene struct {
	name  string
	build func(t *testing.T) *internet
	want  expected
}

func zoneScenes() []zoneScene {
	noRecord := expected{dnscheck.Absent, dnscheck.ReasonNoRecord}
	noName := expected{dnscheck.Absent, dnscheck.ReasonNoName}
	has := func(owner string) []dns.RR { return []dns.RR{start(owner), txt(host, token)} }
	one := func(zone string) []dns.RR { return []dns.RR{ns(zone, "ns."+zone), address("ns."+zone, nsOne)} }
	return []zoneScene{
		{"the domain is delegated, the record is there", func(t *testing.T) *internet {
			return delegated(t, txt(host, token))
		}, found},
		{"another value", func(t *testing.T) *internet { return delegated(t, txt(host, other)) },
			expected{dnscheck.Absent, dnscheck.ReasonOtherValue}},
		{"no such name", func(t *testing.T) *internet { return delegated(t) }, noName},
		{"a name without TXT records", func(t *testing.T) *internet {
			return delegated(t, address(host, "5.5.5.5"))
		}, noRecord},
		{"a name that others lie below", func(t *testing.T) *internet {
			return delegated(t, txt("x."+host, token))
		}, noRecord},
		{"one of many, split", func(t *testing.T) *internet {
			return delegated(t, txt(host, other), txt(host, token[:5], "", token[5:]))
		}, found},
		{"the domain does not exist", func(t *testing.T) *internet { return overTLD(t) }, noName},
		{"the verification label itself is delegated", func(t *testing.T) *internet {
			n := delegated(t, one(host)...)
			n.at("5.2.0.1", zoneOf(has(host)...))
			z := zoneOf(append([]dns.RR{start("example.com")}, ns(host, "ns."+host), address("ns."+host, "5.2.0.1"))...)
			n.at(nsOne, z)
			n.at(nsTwo, z)
			return n
		}, found},
		{"every label is delegated", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns.example.com"), address("ns.example.com", "5.1.1.1"))
			n.at("5.1.1.1", zoneOf(start("example.com"), ns("org-1.example.com", "ns.org-1.example.com"),
				address("ns.org-1.example.com", "5.1.1.2")))
			n.at("5.1.1.2", zoneOf(start("org-1.example.com"), ns(host, "ns."+host), address("ns."+host, "5.1.1.3")))
			n.at("5.1.1.3", zoneOf(has(host)...))
			return n
		}, found},
		{"parent and child at the same server, which answers for the child at once", func(t *testing.T) *internet {
			n := overTLD(t, one("example.com")...)
			n.at(nsOne, zoneOf(start("example.com"), ns(host, "ns1.example.com"), start(host), txt(host, token)))
			return n
		}, found},
		{"the child at only one of the parent's servers", func(t *testing.T) *internet {
			n := overTLD(t, twoServers()...)
			parent := []dns.RR{start("example.com"), ns(host, "sub."+host), address("sub."+host, nsOne)}
			n.at(nsOne, zoneOf(append(parent, has(host)...)...))
			n.at(nsTwo, zoneOf(parent...))
			return n
		}, found},
		{"servers without glue, outside the zone", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.hoster.net"), ns("example.com", "ns2.hoster.org"))
			n.hosts(address("ns1.hoster.net", nsOne), address("ns2.hoster.org", nsTwo))
			z := zoneOf(start("example.com"), txt(host, token))
			n.at(nsOne, z)
			n.at(nsTwo, z)
			return n
		}, found},
		{"glue for a name outside the zone is not believed", func(t *testing.T) *internet {
			n := overTLD(t)
			n.at(tldAddr, func(q *dns.Msg) *dns.Msg {
				m := straight(answer(q))
				m.Ns = []dns.RR{ns("example.com", "ns1.hoster.net")}
				m.Extra = []dns.RR{address("ns1.hoster.net", "6.6.6.6")}
				return m
			})
			n.at("6.6.6.6", zoneOf(start("example.com"), txt(host, token)))
			n.hosts(address("ns1.hoster.net", nsOne))
			n.at(nsOne, zoneOf(start("example.com")))
			return n
		}, noName},
		{"servers with IPv6 addresses only", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", "2a00::1"))
			n.know(address("a.registry.net", "2a00::53"))
			n.at("2a00::1", zoneOf(start("example.com"), txt(host, token)))
			return n
		}, found},
		{"two names at one address", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne),
				ns("example.com", "ns2.example.com"), address("ns2.example.com", nsOne))
			n.at(nsOne, zoneOf(start("example.com"), txt(host, token)))
			return n
		}, found},
		{"an alias into another zone and top-level domain", func(t *testing.T) *internet {
			n := delegated(t, cname(host, "_v.target.org"))
			n.know(ns("org", "a.registry.org"), address("a.registry.org", "5.0.0.2"))
			n.at("5.0.0.2", zoneOf(start("org"), ns("target.org", "ns.target.org"), address("ns.target.org", "5.3.0.1")))
			n.at("5.3.0.1", zoneOf(start("target.org"), txt("_v.target.org", token)))
			return n
		}, found},
		{"an alias whose target does not exist", func(t *testing.T) *internet {
			n := delegated(t, cname(host, "_v.target.org"))
			n.know(ns("org", "a.registry.org"), address("a.registry.org", "5.0.0.2"))
			n.at("5.0.0.2", zoneOf(start("org")))
			return n
		}, noName},
		{"an alias within the zone, with the target's record next to it", func(t *testing.T) *internet {
			return delegated(t, cname(host, "_v.example.com"), txt("_v.example.com", token))
		}, found},
		{"what a zone says of another's names is not heard", func(t *testing.T) *internet {
			n := delegated(t)
			lies := func(q *dns.Msg) *dns.Msg {
				m := straight(answer(q, cname(q.Question[0].Name, "_v.target.org"), txt("_v.target.org", token)))
				m.Authoritative = true
				return m
			}
			n.at(nsOne, lies)
			n.at(nsTwo, lies)
			n.know(ns("org", "a.registry.org"), address("a.registry.org", "5.0.0.2"))
			n.at("5.0.0.2", zoneOf(start("org"), ns("target.org", "ns.target.org"), address("ns.target.org", "5.3.0.1")))
			n.at("5.3.0.1", zoneOf(start("target.org")))
			return n
		}, noName},
		{"a DNAME above the host", func(t *testing.T) *internet {
			n := delegated(t, dname("org-1.example.com", "elsewhere.com"))
			n.at(tldAddr, zoneOf(append(append([]dns.RR{start("com")}, twoServers()...), ns("elsewhere.com", "ns.elsewhere.com"),
				address("ns.elsewhere.com", "5.3.0.1"))...))
			n.at("5.3.0.1", zoneOf(start("elsewhere.com"), txt("_verify.elsewhere.com", token)))
			return n
		}, found},
		{"aliases in a circle", func(t *testing.T) *internet {
			return delegated(t, cname(host, "b.example.com"), cname("b.example.com", host))
		}, expected{dnscheck.Unknown, dnscheck.ReasonAlias}},
		{"an alias of itself", func(t *testing.T) *internet { return delegated(t, cname(host, host)) },
			expected{dnscheck.Unknown, dnscheck.ReasonAlias}},
		{"as many aliases as are followed", func(t *testing.T) *internet {
			return delegated(t, aliases(dnscheck.MaxAliases)...)
		}, found},
		{"an alias more", func(t *testing.T) *internet { return delegated(t, aliases(dnscheck.MaxAliases+1)...) },
			expected{dnscheck.Unknown, dnscheck.ReasonAlias}},
		{"an alias together with a TXT record", func(t *testing.T) *internet {
			return delegated(t, cname(host, "b.example.com"), txt(host, token))
		}, expected{dnscheck.Unknown, dnscheck.ReasonAlias}},
	}
}

// TestAuthorityFindsTheZone checks that ModeAuthority finds the zone that holds the host, for
// each kind of delegation and alias, and that the verdict follows the answers of its servers.
func TestAuthorityFindsTheZone(t *testing.T) {
	for _, test := range zoneScenes() {
		bubble(t, test.name, func(t *testing.T) {
			n := test.build(t)
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, test.want.state, test.want.reason)
			if v.NegativeTTL != 0 {
				t.Errorf("negative TTL %s: nobody keeps a no back", v.NegativeTTL)
			}
			n.quietAbout(host)
			for _, a := range n.everythingAsked() {
				if resolver := slices.Contains(resolverAddrs, a.address); resolver != a.recursion {
					t.Errorf("recursion desired of %s: %t", a.address, a.recursion)
				}
			}
		})
	}
}

// bare removes from a server's answers the CNAME records synthesized from DNAME records.
func bare(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := z(q)
		m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeCNAME })
		return m
	}
}

// TestDNAMEWithoutItsAlias has servers that answer with a DNAME but without the synthesized
// CNAME. The checker derives the new name itself.
func TestDNAMEWithoutItsAlias(t *testing.T) {
	renames := func(owner, target string) zone { return bare(zoneOf(start("example.com"), dname(owner, target))) }
	// A name has at most 255 bytes: 14 are the host's two labels, 186 are three labels, 5 are
	// com and the root. Each count includes the length bytes.
	fits := strings.Repeat(strings.Repeat("a", 61)+".", 3) + strings.Repeat("a", 255-14-186-5-1) + ".com"
	tests := []struct {
		name        string
		first, then zone
		want        expected
	}{
		{"followed to its own zone", renames("org-1.example.com", "elsewhere.com"),
			renames("org-1.example.com", "elsewhere.com"), expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"above all of the zone", renames("example.com", "deep.elsewhere.com"), renames("example.com", "deep.elsewhere.com"),
			expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"nothing there", renames("org-1.example.com", "gone.elsewhere.com"),
			renames("org-1.example.com", "gone.elsewhere.com"), expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{"beside a server that writes it", renames("org-1.example.com", "elsewhere.com"),
			zoneOf(start("example.com"), dname("org-1.example.com", "elsewhere.com")),
			expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"beside a server that has another", renames("org-1.example.com", "elsewhere.com"),
			renames("org-1.example.com", "gone.elsewhere.com"), expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}},
		{"of the host itself, which it does not rename", says(dname(host, "elsewhere.com")),
			says(dname(host, "elsewhere.com")), expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"above the zone, where it is not theirs", says(dname("com", "elsewhere.com")), says(dname("com", "elsewhere.com")),
			expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"of another name", says(dname("org-2.example.com", "elsewhere.com")),
			says(dname("org-2.example.com", "elsewhere.com")), expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"a name as long as can be", renames("example.com", fits), renames("example.com", fits),
			expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{"a name that is too long", renames("example.com", "a"+fits), renames("example.com", "a"+fits),
			expected{dnscheck.Unknown, dnscheck.ReasonRCode}},
		{"longer each time", renames("org-1.example.com", "x.org-1.example.com"),
			renames("org-1.example.com", "x.org-1.example.com"), expected{dnscheck.Unknown, dnscheck.ReasonAlias}},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := overTLD(t, append(twoServers(), ns("elsewhere.com", "ns.elsewhere.com"),
				address("ns.elsewhere.com", "5.3.0.1"))...)
			n.at(nsOne, test.first)
			n.at(nsTwo, test.then)
			n.at("5.3.0.1", zoneOf(start("elsewhere.com"), txt("_Verify.elsewhere.com", token),
				txt("_verify.org-1.deep.elsewhere.com", token)))
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, test.want.state, test.want.reason)
			n.quietAbout(host)
		})
	}
}

// says returns a server that answers every query with authority and these records.
func says(records ...dns.RR) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := straight(answer(q, records...))
		m.Authoritative = true
		return m
	}
}

// aliases returns a chain of count aliases that starts at the host and ends with the token.
func aliases(count int) []dns.RR {
	var records []dns.RR
	at := host
	for i := range count {
		next := fmt.Sprintf("a%d.example.com", i)
		records = append(records, cname(at, next))
		at = next
	}
	return append(records, txt(at, token))
}

func TestAuthorityOverTCPWhereUDPIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := delegated(t)
		whole := zoneOf(start("example.com"), txt(host, token))
		for _, address := range []string{nsOne, nsTwo} {
			n.at(address, func(q *dns.Msg) *dns.Msg {
				m, asked := whole(q), n.askedOf(address)
				m.Truncated = asked[len(asked)-1].network == "udp"
				return m
			})
		}
		v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		for _, o := range v.Observations {
			if o.Transport != "tcp" {
				t.Errorf("%s was heard over %s, want tcp", o.Resolver, o.Transport)
			}
		}
	})
}

// TestForgedLettersOfANameServer checks that a forged reply with the wrong letter case causes
// a retry over TCP, where the name server itself answers.
func TestForgedLettersOfANameServer(t *testing.T) {
	yes, no := zoneOf(start("example.com"), txt(host, token)), zoneOf(start("example.com"))
	for name, test := range map[string]struct {
		forged, right zone
		want          expected
	}{
		"a forged yes": {yes, no, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		"a forged no":  {no, yes, expected{dnscheck.Present, dnscheck.ReasonFound}},
	} {
		bubble(t, name, func(t *testing.T) {
			n := overTLD(t, twoServers()...)
			for _, address := range []string{nsOne, nsTwo} {
				n.at(address, func(q *dns.Msg) *dns.Msg {
					asked := n.askedOf(address)
					if asked[len(asked)-1].network == "udp" {
						return inLower(test.forged)(q)
					}
					return test.right(q)
				})
			}
			want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), test.want.state, test.want.reason)
		})
	}
}

// TestServersThatLeadNowhere checks that answers of servers that do not hold the zone, and
// referrals that do not lead toward the host, are ignored. The other servers decide.
func TestServersThatLeadNowhere(t *testing.T) {
	refer := func(owner string, aa bool) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q))
			m.Authoritative = aa
			m.Ns = []dns.RR{ns(owner, "ns.evil.net")}
			m.Extra = []dns.RR{address("ns.evil.net", "6.6.6.6")}
			return m
		}
	}
	servers := []struct {
		name   string
		zone   zone
		reason dnscheck.Reason
	}{
		{"refers to the root", refer(".", false), dnscheck.ReasonLame},
		{"refers upward", refer("com", false), dnscheck.ReasonLame},
		{"refers to itself", refer("example.com", false), dnscheck.ReasonLame},
		{"refers sideways", refer("example.net", false), dnscheck.ReasonLame},
		{"refers to a zone beside the name", refer("org-2.example.com", false), dnscheck.ReasonLame},
		{"refers below the name", refer("x."+host, false), dnscheck.ReasonLame},
		{"refers to several zones", func(q *dns.Msg) *dns.Msg {
			m := refer("org-1.example.com", false)(q)
			m.Ns = append(m.Ns, ns(host, "ns.evil.net"))
			return m
		}, dnscheck.ReasonLame},
		{"answers without authority", func(q *dns.Msg) *dns.Msg { return holding(token)(q) }, dnscheck.ReasonLame},
		{"says no without authority", func(q *dns.Msg) *dns.Msg { return nothing(q) }, dnscheck.ReasonLame},
		{"says that the name does not exist, and has its record", func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q, txt(host, token)))
			m.Authoritative, m.Rcode = true, dns.RcodeNameError
			return m
		}, dnscheck.ReasonMalformed},
		{"answers about another name", func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q, txt("_verify.org-2.example.com", token)))
			m.Authoritative = true
			return m
		}, dnscheck.ReasonMalformed},
		{"refuses", refused, dnscheck.ReasonRefused},
		{"fails", servfail, dnscheck.ReasonServFail},
		{"serves a stale answer", func(q *dns.Msg) *dns.Msg {
			m := zoneOf(start("example.com"), txt(host, token))(q)
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer})
			return m
		}, dnscheck.ReasonServFail},
		{"never answers", nil, dnscheck.ReasonTimeout},
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			for name, records := range map[string][]dns.RR{"beside two that say no": nil,
				"beside two that say yes": {txt(host, token)}} {
				bubble(t, name, func(t *testing.T) {
					n := overTLD(t, append(twoServers(), ns("example.com", "ns3.example.com"),
						address("ns3.example.com", "5.1.0.3"))...)
					z := zoneOf(append([]dns.RR{start("example.com")}, records...)...)
					n.at(nsOne, z)
					n.at(nsTwo, z)
					n.at("5.1.0.3", s.zone)
					n.at("6.6.6.6", holding(token))
					n.hosts(address("ns.evil.net", "6.6.6.6"))
					v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
					if len(records) == 0 {
						want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
					} else {
						want(t, v, dnscheck.Present, dnscheck.ReasonFound)
					}
					if n.dials("6.6.6.6") != 0 {
						t.Error("the referral was followed")
					}
				})
			}
			bubble(t, "alone", func(t *testing.T) {
				n := overTLD(t, twoServers()...)
				n.at(nsOne, s.zone)
				n.at(nsTwo, s.zone)
				n.at("6.6.6.6", holding(token))
				n.hosts(address("ns.evil.net", "6.6.6.6"))
				v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
				want(t, v, dnscheck.Unknown, s.reason)
				if n.dials("6.6.6.6") != 0 {
					t.Error("the referral was followed")
				}
				if v.Note == "" {
					t.Error("nothing is said of why")
				}
			})
		})
	}
}

// TestNoDataWithNameServersIsAbsent checks that an authoritative answer without records is no
// referral, even if it lists name servers.
func TestNoDataWithNameServersIsAbsent(t *testing.T) {
	for name, authority := range map[string][]dns.RR{
		"the root's":             {ns(".", "ns1.example.com")},
		"its own":                {ns("example.com", "ns1.example.com")},
		"another's, and its SOA": {ns("org-1.example.com", "ns1.example.com"), start("example.com")},
	} {
		bubble(t, name, func(t *testing.T) {
			n := delegated(t)
			z := func(q *dns.Msg) *dns.Msg {
				m := straight(answer(q))
				m.Authoritative = true
				m.Ns = authority
				return m
			}
			n.at(nsOne, z)
			n.at(nsTwo, z)
			want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Absent, dnscheck.ReasonNoRecord)
		})
	}
}

func TestServersThatDisagree(t *testing.T) {
	tests := []struct {
		name        string
		first, then zone
		sentence    string
	}{
		{"one has it, one does not know the name", zoneOf(start("example.com"), txt(host, token)),
			zoneOf(start("example.com")), "ns1.example.com has it, ns2.example.com does not."},
		{"one has it, one another value", zoneOf(start("example.com"), txt(host, token)),
			zoneOf(start("example.com"), txt(host, other)), "ns1.example.com has it, ns2.example.com does not."},
		{"one has it, one an alias", zoneOf(start("example.com"), txt(host, token)),
			zoneOf(start("example.com"), cname(host, "b.example.com")), "ns1.example.com has it, ns2.example.com does not."},
		{"two aliases", zoneOf(start("example.com"), cname(host, "a.example.com")),
			zoneOf(start("example.com"), cname(host, "b.example.com")),
			"they name different aliases (CNAME), or only some have one."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for way, ask := range ways {
				bubble(t, way, func(t *testing.T) {
					n := overTLD(t, twoServers()...)
					n.at(nsOne, test.first)
					n.at(nsTwo, test.then)
					n.know(txt(host, token)) // must not matter
					v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
					want(t, v, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
					want := "The domain's name servers disagree about the TXT record at " + host + ": " + test.sentence
					if diff := cmp.Diff(want, v.Sentence()); diff != "" {
						t.Errorf("sentence (-want +got):\n%s", diff)
					}
					n.quietAbout(host)
				})
			}
		})
	}
}

// ways holds a check and a proof.
var ways = map[string]func(*testing.T, *dnscheck.Checker) dnscheck.Verdict{"look": look, "prove": prove}

// TestAddressesOfOneServerThatDisagree checks that different answers from two addresses of one
// name server are a disagreement.
func TestAddressesOfOneServerThatDisagree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne),
			address("ns1.example.com", "2a00::1"))
		n.at(nsOne, zoneOf(start("example.com"), txt(host, token)))
		n.at("2a00::1", zoneOf(start("example.com")))
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonServersDisagree)
	})
}

// TestServersOutOfReach checks how many of four servers must answer: most of them for an
// absence, one for the presence in a check.
func TestServersOutOfReach(t *testing.T) {
	tests := []struct {
		name    string
		up      int
		records []dns.RR
		want    expected
	}{
		{"three of four say no", 3, nil, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		{"two of four say no", 2, nil, expected{dnscheck.Unknown, dnscheck.ReasonUnreachable}},
		{"one of four says no", 1, nil, expected{dnscheck.Unknown, dnscheck.ReasonUnreachable}},
		{"three of four say yes", 3, []dns.RR{txt(host, token)}, expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"one of four says yes", 1, []dns.RR{txt(host, token)}, expected{dnscheck.Present, dnscheck.ReasonFound}},
		{"none of four", 0, nil, expected{dnscheck.Unknown, dnscheck.ReasonUnreachable}},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			var servers []dns.RR
			for i := range 4 {
				name := fmt.Sprintf("ns%d.example.com", i)
				servers = append(servers, ns("example.com", name), address(name, fmt.Sprintf("5.1.0.%d", i+1)))
			}
			n := overTLD(t, servers...)
			for i := range test.up {
				n.at(fmt.Sprintf("5.1.0.%d", i+1), zoneOf(append([]dns.RR{start("example.com")}, test.records...)...))
			}
			want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), test.want.state, test.want.reason)
		})
	}
}

// TestSilentServerDoesNotDelayADecidedVerdict measures in the bubble's clock that a silent
// server delays the verdict by at most Grace.
func TestSilentServerDoesNotDelayADecidedVerdict(t *testing.T) {
	for name, records := range map[string][]dns.RR{"absent": nil, "present": {txt(host, token)}} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // servers are queried in random order
				synctest.Test(t, func(t *testing.T) {
					n := overTLD(t, append(twoServers(), ns("example.com", "ns3.example.com"),
						address("ns3.example.com", "5.1.0.3"))...)
					z := zoneOf(append([]dns.RR{start("example.com")}, records...)...)
					n.at(nsOne, z)
					n.at(nsTwo, z)
					n.at("5.1.0.3", nil)
					began := time.Now()
					v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
					if v.State.String() != name {
						t.Errorf("state %s", v.State)
					}
					if took := time.Since(began); took > dnscheck.Grace {
						t.Errorf("took %s", took)
					}
				})
			}
		})
	}
	bubble(t, "a disagreement is not waited out", func(t *testing.T) {
		n := overTLD(t, append(twoServers(), ns("example.com", "ns3.example.com"), address("ns3.example.com", "5.1.0.3"))...)
		n.at(nsOne, zoneOf(start("example.com")))
		n.at(nsTwo, zoneOf(start("example.com"), txt(host, token)))
		n.at("5.1.0.3", nil)
		began := time.Now()
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonServersDisagree)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
	bubble(t, "a late no is heard while there is time", func(t *testing.T) {
		n := overTLD(t, append(twoServers(), ns("example.com", "ns3.example.com"), address("ns3.example.com", "5.1.0.3"))...)
		z := zoneOf(start("example.com"), txt(host, token))
		n.at(nsOne, z)
		n.at(nsTwo, z)
		n.at("5.1.0.3", func(q *dns.Msg) *dns.Msg {
			time.Sleep(dnscheck.Grace - time.Millisecond)
			return zoneOf(start("example.com"))(q)
		})
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonServersDisagree)
	})
	bubble(t, "all silent: bounded", func(t *testing.T) {
		n := overTLD(t, twoServers()...)
		n.at(nsOne, nil)
		n.at(nsTwo, nil)
		began := time.Now()
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := time.Since(began); took > dnscheck.CheckTime {
			t.Errorf("took %s", took)
		}
	})
}

// TestAddressesThatAreNotQueried checks that no query is sent to special-purpose addresses.
func TestAddressesThatAreNotQueried(t *testing.T) {
	refused := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
		"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
		"2002:a00:1::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1",
	}
	for _, addr := range refused {
		bubble(t, addr, func(t *testing.T) {
			n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", addr),
				ns("example.com", "ns1.hoster.net"))
			n.hosts(address("ns1.hoster.net", addr))
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
			if got := n.straight(); got != 1 { // of the top-level domain
				t.Errorf("dialled %q", n.dialled)
			}
		})
	}
	for _, addr := range []string{"1.1.1.1", "9.9.9.9", "172.32.0.1", "192.0.1.1", "223.255.255.255", "2606:4700::1",
		"2a00::1", "64:ff9b::101:101", "2002:101:101::1"} {
		bubble(t, addr+" is", func(t *testing.T) {
			n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", addr))
			n.at(addr, zoneOf(start("example.com"), txt(host, token)))
			want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
		})
	}
	bubble(t, "a top-level domain's too", func(t *testing.T) {
		n := newInternet(t)
		n.know(ns("com", "a.registry.net"), address("a.registry.net", "10.0.0.1"))
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonUnreachable)
		if n.straight() != 0 {
			t.Errorf("dialled %q", n.dialled)
		}
	})
	bubble(t, "unless the settings allow it", func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", "10.0.0.1"))
		n.at("10.0.0.1", zoneOf(start("example.com"), txt(host, token)))
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority, AnyNameServer: true})),
			dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestHostileDelegationsAreBounded checks that no delegation exceeds the limits on queries and
// time.
func TestHostileDelegationsAreBounded(t *testing.T) {
	many := func(zone string, count int, name func(i int) string) []dns.RR {
		var records []dns.RR
		for i := range count {
			records = append(records, ns(zone, name(i)))
		}
		return records
	}
	deeper := func(fan int) zone { // refers one label further down at each query
		return func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q))
			name := dns.CanonicalName(q.Question[0].Name)
			offs := dns.Split(name)
			depth := max(len(offs)-3, 0) // a registry is asked for the registered domain
			if v, ok := level.Load(name); ok {
				depth = v.(int)
			}
			level.Store(name, max(depth-1, 0))
			cut := name[offs[depth]:]
			for i := range fan {
				target := fmt.Sprintf("n%d-%d.%s", depth, i, cut)
				m.Ns = append(m.Ns, ns(cut, target))
				m.Extra = append(m.Extra, address(target, fmt.Sprintf("6.%d.%d.1", depth, i)))
			}
			return m
		}
	}
	long := strings.Repeat("a.", 60) + "example.com"
	tests := []struct {
		name, host string
		build      func(t *testing.T) *internet
		reason     dnscheck.Reason
	}{
		{"a referral to hundreds of names that nobody knows (NXNS)", host, func(t *testing.T) *internet {
			return overTLD(t, many("example.com", 300, func(i int) string { return fmt.Sprintf("n%d.victim.net", i) })...)
		}, dnscheck.ReasonTopLevel},
		{"such referrals one below the other, each from a server that is there", host, func(t *testing.T) *internet {
			n := overTLD(t, append(many("example.com", 100, func(i int) string { return fmt.Sprintf("n%d.victim.net", i) }),
				ns("example.com", "ns.example.com"), address("ns.example.com", nsOne))...)
			n.at(nsOne,
				zoneOf(append(many("org-1.example.com", 100, func(i int) string { return fmt.Sprintf("m%d.victim.net", i) }),
					start("example.com"))...))
			return n
		}, ""},
		{"a referral to hundreds of addresses", host, func(t *testing.T) *internet {
			var records []dns.RR
			for i := range 50 {
				name := fmt.Sprintf("ns%d.example.com", i)
				records = append(records, ns("example.com", name))
				for j := range 5 {
					records = append(records, address(name, fmt.Sprintf("6.6.%d.%d", i, j)))
				}
			}
			return overTLD(t, records...)
		}, dnscheck.ReasonUnreachable},
		{"a referral for every one of sixty labels", long, func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns.example.com"), address("ns.example.com", "6.0.0.1"))
			n.mu.Lock()
			defer n.mu.Unlock()
			for i := range 70 {
				n.servers[fmt.Sprintf("6.%d.0.1", i)] = deeper(1)
			}
			return n
		}, dnscheck.ReasonDelegation},
		{"seven dead names at each of twelve zones", long, func(t *testing.T) *internet {
			n := newInternet(t)
			n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
			n.at(tldAddr, deeper(1))
			n.mu.Lock()
			defer n.mu.Unlock()
			for i := range 70 {
				n.servers[fmt.Sprintf("6.%d.0.1", i)] = func(q *dns.Msg) *dns.Msg {
					m := deeper(1)(q)
					for j := range 7 {
						m.Ns = append(m.Ns, ns(m.Ns[0].Header().Name, fmt.Sprintf("n%d-%d.victim.net", i, j)))
					}
					return m
				}
			}
			return n
		}, dnscheck.ReasonTooFew},
		{"servers that take their time, one zone after the other", long, func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns.example.com"), address("ns.example.com", "6.0.0.1"))
			n.mu.Lock()
			defer n.mu.Unlock()
			for i := range 70 {
				n.servers[fmt.Sprintf("6.%d.0.1", i)] = func(q *dns.Msg) *dns.Msg {
					time.Sleep(900 * time.Millisecond)
					return deeper(1)(q)
				}
			}
			return n
		}, dnscheck.ReasonTimeout},
		{"names in zones whose servers have names in further zones, without end", host, func(t *testing.T) *internet {
			return endless(t, func(q *dns.Msg, i int) string {
				return fmt.Sprintf("ns%d.z%d.net", i,
					crc32.ChecksumIEEE([]byte(strings.ToLower(q.Question[0].Name)+string(rune(i)))))
			})
		}, ""},
		{"names in two zones, each with the other's", host, func(t *testing.T) *internet {
			return endless(t, func(q *dns.Msg, i int) string {
				if dns.IsSubDomain("a.net.", dns.CanonicalName(q.Question[0].Name)) {
					return fmt.Sprintf("ns%d.b.net", i)
				}
				return fmt.Sprintf("ns%d.a.net", i)
			})
		}, dnscheck.ReasonUnreachable},
		{"names in zones of sixteen servers with four addresses, all slow", host, func(t *testing.T) *internet {
			n := overTLD(t, many("example.com", 16, func(i int) string { return fmt.Sprintf("ns%d.z%d.net", i, i) })...)
			n.know(ns("net", "a.nic.net"), address("a.nic.net", "5.0.1.1"))
			var below []dns.RR
			for i := range 16 {
				for j := range 16 {
					name := fmt.Sprintf("own%d.z%d.net", j, i)
					below = append(below, ns(fmt.Sprintf("z%d.net", i), name))
					for k := range 4 {
						addr := fmt.Sprintf("6.%d.%d.%d", i, j, k+1)
						below = append(below, address(name, addr))
						n.at(addr, nil)
					}
				}
			}
			n.at("5.0.1.1", zoneOf(append([]dns.RR{start("net")}, below...)...))
			return n
		}, ""},
		{"aliases from zone to zone, each with seven dead names beside its server", host, func(t *testing.T) *internet {
			n := newInternet(t)
			n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
			records := []dns.RR{start("com")}
			zones := []string{"example.com"}
			for i := range dnscheck.MaxAliases + 1 {
				zones = append(zones, fmt.Sprintf("z%d.com", i))
			}
			for i, zone := range zones {
				addr := fmt.Sprintf("6.1.%d.1", i)
				records = append(records, ns(zone, "ns."+zone), address("ns."+zone, addr))
				for j := range dnscheck.MaxServers - 1 {
					records = append(records, ns(zone, fmt.Sprintf("n%d-%d.victim.net", i, j)))
				}
				n.at(addr, func(q *dns.Msg) *dns.Msg {
					m := straight(answer(q, cname(q.Question[0].Name, fmt.Sprintf("z%d.com", i))))
					m.Authoritative = true
					return m
				})
			}
			n.at(tldAddr, zoneOf(records...))
			return n
		}, ""},
		{"aliases from zone to zone", host, func(t *testing.T) *internet {
			n := overTLD(t)
			records := []dns.RR{start("com")}
			for i := range 30 {
				zone := fmt.Sprintf("z%d.com", i)
				for j := range 8 {
					name := fmt.Sprintf("ns%d.%s", j, zone)
					records = append(records, ns(zone, name), address(name, fmt.Sprintf("6.1.%d.%d", i, j)),
						address(name, fmt.Sprintf("6.2.%d.%d", i, j)),
						address(name, fmt.Sprintf("2a00:1::%x:%x", i+1, j)), address(name, fmt.Sprintf("2a00:2::%x:%x", i+1, j)))
				}
			}
			records = append(records, twoServers()...)
			n.at(tldAddr, zoneOf(records...))
			jump := func(q *dns.Msg) *dns.Msg {
				var i int
				if _, err := fmt.Sscanf(strings.ToLower(q.Question[0].Name), "z%d.com.", &i); err != nil {
					i = -1
				}
				m := straight(answer(q, cname(q.Question[0].Name, fmt.Sprintf("z%d.com", i+1))))
				m.Authoritative = true
				return m
			}
			n.at(nsOne, jump)
			n.at(nsTwo, jump)
			for i := range 30 {
				for j := range 8 {
					n.at(fmt.Sprintf("6.1.%d.%d", i, j), jump)
					n.at(fmt.Sprintf("6.2.%d.%d", i, j), jump)
					n.at(fmt.Sprintf("2a00:1::%x:%x", i+1, j), jump)
					n.at(fmt.Sprintf("2a00:2::%x:%x", i+1, j), jump)
				}
			}
			return n
		}, ""},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			level.Clear()
			n := test.build(t)
			began := time.Now()
			v, err := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}).Check(t.Context(), test.host, token)
			if err != nil {
				t.Fatal(err)
			}
			if v.State != dnscheck.Unknown || test.reason != "" && v.Reason != test.reason {
				t.Errorf("verdict %s (%s, %s), want unknown (%s)", v.State, v.Reason, v.Note, test.reason)
			}
			if took := time.Since(began); took > dnscheck.CheckTime {
				t.Errorf("took %s", took)
			}
			if got := n.straight(); got > dnscheck.MaxQueries {
				t.Errorf("%d queries to name servers, want at most %d", got, dnscheck.MaxQueries)
			}
			names, below := make(map[string]bool), make(map[string]bool)
			for _, a := range n.everythingAsked() {
				if slices.Contains(resolverAddrs, a.address) {
					names[a.name] = true
				} else if a.kind == dns.TypeA {
					below[a.name] = true
				}
			}
			if len(names) > 2*2 { // two top-level domains, each with a server
				t.Errorf("the resolvers were asked for %d names", len(names))
			}
			if len(below) > dnscheck.MaxLookups {
				t.Errorf("the addresses of %d name servers were looked up", len(below))
			}
			if len(v.Observations) > dnscheck.MaxShown {
				t.Errorf("%d observations", len(v.Observations))
			}
		})
	}
}

// endless delegates example.com, and each domain below net, to eight servers of these names.
func endless(t *testing.T, name func(q *dns.Msg, i int) string) *internet {
	refer := func(q *dns.Msg) *dns.Msg {
		m := straight(answer(q))
		labels := dns.SplitDomainName(dns.CanonicalName(q.Question[0].Name))
		cut := strings.Join(labels[len(labels)-2:], ".")
		for i := range 8 {
			m.Ns = append(m.Ns, ns(cut, name(q, i)))
		}
		return m
	}
	n := overTLD(t)
	n.at(tldAddr, refer)
	n.know(ns("net", "a.nic.net"), address("a.nic.net", "5.0.1.1"))
	n.at("5.0.1.1", refer)
	return n
}

// TestManyServers checks that only MaxServers of a zone's servers are queried, and that their
// answers decide if they are a majority of all.
func TestManyServers(t *testing.T) {
	for name, test := range map[string]struct {
		servers int
		want    expected
	}{
		"as many as can be a majority": {2*dnscheck.MaxServers - 1, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
		"one more":                     {2 * dnscheck.MaxServers, expected{dnscheck.Unknown, dnscheck.ReasonTooFew}},
	} {
		bubble(t, name, func(t *testing.T) {
			n := overTLD(t, delegatedTo("example.com", test.servers)...)
			for i := range test.servers {
				n.at(serverAddr(i), denies)
			}
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, test.want.state, test.want.reason)
			// each is queried again in the given letters
			if got := n.straight() - n.dials(tldAddr); got != 2*dnscheck.MaxServers {
				t.Errorf("%d queries to the zone's servers, want %d", got, 2*dnscheck.MaxServers)
			}
		})
	}
}

// TestManyAddressesOfEachServer checks the limits on queried addresses of a server and on
// observations.
func TestManyAddressesOfEachServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records []dns.RR
		n := overTLD(t)
		for i := range 8 {
			name := fmt.Sprintf("ns%d.example.com", i)
			records = append(records, ns("example.com", name))
			for j := range 10 {
				four, six := fmt.Sprintf("6.6.%d.%d", i, j+1), fmt.Sprintf("2a00::%x:%x", i+1, j+1)
				records = append(records, address(name, four), address(name, six))
				n.at(four, zoneOf(start("example.com")))
				n.at(six, zoneOf(start("example.com")))
			}
		}
		n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, records...)...))
		v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
		// two to the top-level domain (UDP, TCP), two addresses of each family per server, twice each
		if got := n.straight(); got > 2+2*8*4 {
			t.Errorf("%d queries", got)
		}
		if got := len(v.Observations); got != dnscheck.MaxShown {
			t.Errorf("%d observations, want %d", got, dnscheck.MaxShown)
		}
	})
}

// TestAddressLookupsWithoutAnswer checks how long lookups of a name server's address take if
// nobody answers.
func TestAddressLookupsWithoutAnswer(t *testing.T) {
	bubble(t, "at the resolvers, of a top-level domain's", func(t *testing.T) {
		n := overTLD(t)
		for _, address := range resolverAddrs {
			n.at(address, func(q *dns.Msg) *dns.Msg {
				if dnsname.Same(q.Question[0].Name, "a.registry.net") {
					time.Sleep(time.Minute)
				}
				return n.resolver(q)
			})
		}
		began := time.Now()
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonUnreachable)
		if took := time.Since(began); took != dnscheck.LookupTime {
			t.Errorf("took %s, want %s", took, dnscheck.LookupTime)
		}
	})
	bubble(t, "at the servers of the name's zone", func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.dead.net"))
		n.hosts(address("ns1.dead.net", nsOne))
		n.at(hostAddr("dead.net"), nil)
		began := time.Now()
		v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := time.Since(began); took != 2*time.Second { // over UDP and TCP
			t.Errorf("took %s", took)
		}
		if want := "its address cannot be found: no name server of dead.net answered with authority"; !strings.Contains(
			v.Note, want) {
			t.Errorf("note %q, want %q in it", v.Note, want)
		}
	})
}

// TestAliasOfTooFewServers checks that an absence at an alias's target needs a majority for
// the alias.
func TestAliasOfTooFewServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := delegated(t, cname(host, "_v.target.org"))
		n.at(nsTwo, refused)
		n.know(ns("org", "a.registry.org"), address("a.registry.org", "5.0.0.2"))
		n.at("5.0.0.2", zoneOf(start("org")))
		v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		if v.State != dnscheck.Unknown || v.Basis != dnscheck.ByAuthority {
			t.Errorf("%s by %s", v.State, v.Basis)
		}
	})
}

// level maps a name to the depth of its next referral by a hostile server.
var level sync.Map

// TestNameServersAreCached checks that a second check queries only the zone's servers.
func TestNameServersAreCached(t *testing.T) {
	bubble(t, "till their time is up", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		look(t, c)
		resolvers, tld := len(n.askedOf(resolverAddrs...)), len(n.askedOf(tldAddr))
		look(t, c)
		if len(n.askedOf(resolverAddrs...)) != resolvers || len(n.askedOf(tldAddr)) != tld {
			t.Error("the second look asked for the way again")
		}
		time.Sleep(301 * time.Second) // the records' TTL
		look(t, c)
		if len(n.askedOf(tldAddr)) == tld {
			t.Error("the TTL is over, and nobody was asked")
		}
	})
	bubble(t, "no longer than a quarter of an hour", func(t *testing.T) {
		n := overTLD(t)
		n.at(tldAddr, func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q))
			cut := ns("example.com", "ns1.example.com")
			cut.Hdr.Ttl = 172800
			m.Ns, m.Extra = []dns.RR{cut}, []dns.RR{address("ns1.example.com", nsOne)}
			return m
		})
		n.at(nsOne, zoneOf(start("example.com")))
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		look(t, c)
		tld := len(n.askedOf(tldAddr))
		time.Sleep(14 * time.Minute)
		look(t, c)
		if len(n.askedOf(tldAddr)) != tld {
			t.Error("asked again within it")
		}
		time.Sleep(time.Minute)
		look(t, c)
		if len(n.askedOf(tldAddr)) == tld {
			t.Error("not asked again")
		}
	})
	bubble(t, "not those that do not hold the zone any more", func(t *testing.T) {
		n := delegated(t)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		n.at(nsOne, refused)
		n.at(nsTwo, refused)
		n.at(tldAddr, zoneOf(start("com"), ns("example.com", "new.example.com"), address("new.example.com", "5.7.0.1")))
		n.at("5.7.0.1", zoneOf(start("example.com"), txt(host, token)))
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestTopLevelDomainThatDoesNotExist checks that the absence is cached for the negative TTL of
// the root's SOA, within bounds, and that it is none without that SOA.
func TestTopLevelDomainThatDoesNotExist(t *testing.T) {
	noName, unnamed := absent(dnscheck.ReasonNoName), unknown(dnscheck.ReasonTopLevel)
	tests := []struct {
		name string
		soa  []dns.RR
		kept time.Duration
		want expected
	}{
		{"by the SOA's minimum", []dns.RR{soa(".", 86400, 60)}, time.Minute, noName},
		{"by the SOA's own TTL", []dns.RR{soa(".", 120, 86400)}, 2 * time.Minute, noName},
		{"not for a day", []dns.RR{soa(".", 86400, 86400)}, 15 * time.Minute, noName},
		{"without an SOA", nil, 15 * time.Second, unnamed},
		{"with the SOA of another zone", []dns.RR{soa("org", 86400, 86400)}, 15 * time.Second, unnamed},
		{"with its own SOA", []dns.RR{soa("com", 86400, 86400)}, 15 * time.Minute, unnamed},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := newInternet(t)
			for _, address := range resolverAddrs {
				n.at(address, func(q *dns.Msg) *dns.Msg {
					m := n.resolver(q)
					if len(m.Answer) == 0 {
						m.Ns = test.soa
					}
					return m
				})
			}
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			looks := func(after time.Duration, queries int) {
				time.Sleep(after)
				before := len(n.askedOf(resolverAddrs...))
				v := look(t, c)
				want(t, v, test.want.state, test.want.reason)
				note := "find the name servers of com: there are none"
				if test.want == noName {
					note = ""
				}
				if v.Note != note {
					t.Errorf("note %q, want %q", v.Note, note)
				}
				if got := len(n.askedOf(resolverAddrs...)) - before; got != queries {
					t.Errorf("%s later: %d queries, want %d", after, got, queries)
				}
			}
			looks(0, len(resolverAddrs))
			looks(test.kept-time.Nanosecond, 0)
			looks(time.Nanosecond, len(resolverAddrs))
			time.Sleep(test.kept)
			n.know(ns("com", "a.registry.net"), address("a.registry.net", tldAddr))
			n.at(tldAddr, zoneOf(start("com")))
			want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonNoName)
		})
	}
	bubble(t, "not by a minority", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		n.at(resolverAddrs[0], nothing)
		n.at(resolverAddrs[1], servfail)
		n.at(resolverAddrs[2], servfail)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		want(t, look(t, c), dnscheck.Unknown, dnscheck.ReasonTopLevel)
		n.at(resolverAddrs[1], n.resolver)
		n.at(resolverAddrs[2], n.resolver)
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestConcurrentChecksShareLookups checks that concurrent checks share lookups, and that a
// slow server delays only the checks that need it.
func TestConcurrentChecksShareLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.hoster.net"), ns("slow.com", "ns1.slow.net"))
		n.hosts(address("ns1.hoster.net", nsOne), address("ns1.slow.net", "5.9.0.1"))
		n.at(nsOne, zoneOf(start("example.com"), txt(host, token)))
		n.at("5.9.0.1", nil)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		var looking sync.WaitGroup
		slow, stop := context.WithCancel(t.Context())
		looking.Go(func() {
			if _, err := c.Check(slow, "_v.slow.com", token); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the context's", err)
			}
		})
		synctest.Wait()
		began := time.Now()
		var fast sync.WaitGroup
		for range 50 {
			fast.Go(func() { want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound) })
		}
		fast.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %s for another name's server", took)
		}
		stop()
		looking.Wait()
		// Each of three resolvers is queried for the name servers of com and net, and for two
		// address types of a server of each.
		if got := len(n.askedOf(resolverAddrs...)); got > 3*2*(1+2) {
			t.Errorf("the resolvers were asked %d times", got)
		}
		if got := len(n.askedOf(hostAddr("hoster.net"))); got != 2 {
			t.Errorf("the servers of hoster.net were asked %d times, want once for each address type", got)
		}
	})
}

// TestCancelledCheckLeavesOthers checks that canceling a check does not fail another one that
// shares its lookup.
func TestCancelledCheckLeavesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.hoster.net"))
		n.hosts(address("ns1.hoster.net", nsOne))
		n.at(nsOne, zoneOf(start("example.com"), txt(host, token)))
		for _, address := range resolverAddrs {
			n.at(address, func(q *dns.Msg) *dns.Msg {
				time.Sleep(100 * time.Millisecond)
				return n.resolver(q)
			})
		}
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		ctx, cancel := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		looking.Go(func() {
			if _, err := c.Check(ctx, host, token); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the context's", err)
			}
		})
		synctest.Wait()
		looking.Go(func() { want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound) })
		synctest.Wait()
		cancel()
		looking.Wait()
	})
}

// TestOneLyingResolverDoesNotChooseTheNameServers checks that a single resolver cannot replace
// a zone's name servers.
func TestOneLyingResolverDoesNotChooseTheNameServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.hoster.net"))
		n.hosts(address("ns1.hoster.net", nsOne))
		n.at(nsOne, zoneOf(start("example.com")))
		n.at(resolverAddrs[0], func(q *dns.Msg) *dns.Msg {
			if q.Question[0].Qtype == dns.TypeNS {
				return answer(q, ns(q.Question[0].Name, "evil.net"))
			}
			return answer(q, address(q.Question[0].Name, "6.6.6.6"))
		})
		n.at("6.6.6.6", zoneOf(start("com"), txt(host, token)))
		for _, address := range resolverAddrs[1:] { // the lying resolver answers first
			n.at(address, func(q *dns.Msg) *dns.Msg {
				time.Sleep(10 * time.Millisecond)
				return n.resolver(q)
			})
		}
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Absent, dnscheck.ReasonNoName)
		if n.dials("6.6.6.6") != 0 {
			t.Error("the liar's server was asked")
		}
	})
}

// TestResolversThatMakeAnswersUpDoNotChooseTheNameServers checks that it takes a quorum of the
// resolvers to name the servers of a top-level domain.
func TestResolversThatMakeAnswersUpDoNotChooseTheNameServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := delegated(t)
		n.at(resolverAddrs[0], namesServersAt("6.6.6.6"))
		n.at("6.6.6.6", zoneOf(start("com"), txt(host, token)))
		for _, honest := range resolverAddrs[1:] { // its answer comes first
			answers := n.servers[honest]
			n.at(honest, func(q *dns.Msg) *dns.Msg {
				time.Sleep(100 * time.Millisecond)
				return answers(q)
			})
		}
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Absent, dnscheck.ReasonNoName)
		if n.dials("6.6.6.6") != 0 {
			t.Error("their server was asked")
		}
	})
}

func made(addr string, q *dns.Msg) dns.RR { return address(q.Question[0].Name, addr) }

func TestResolversAreNeverQueriedForTheHost(t *testing.T) {
	bubble(t, "of a zone that the host is an alias into", func(t *testing.T) {
		n := delegated(t, cname(host, "_v.target.org"))
		n.know(ns("org", "a.registry.org"), address("a.registry.org", "5.0.0.2"))
		n.at("5.0.0.2", zoneOf(start("org"), ns("target.org", host), ns("target.org", "org-1.example.com")))
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown,
			dnscheck.ReasonServerAlias)
		n.quietAbout(host)
	})
	bubble(t, "of its top-level domain's servers", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		n.know(ns("com", "b.registry.net"), address("b.registry.net", "5.0.0.2"), ns("com", "org-1.example.com"),
			address("org-1.example.com", evilAddr))
		n.at("5.0.0.2", n.servers[tldAddr])
		want(t, look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Present, dnscheck.ReasonFound)
		n.quietAbout(host)
	})
	for _, name := range []string{host, "org-1.example.com", "ns.example.com", "ns." + host} {
		bubble(t, name, func(t *testing.T) {
			n := overTLD(t)
			n.at(tldAddr, func(q *dns.Msg) *dns.Msg {
				m := straight(answer(q))
				m.Ns = []dns.RR{ns("example.com", name)} // without glue
				return m
			})
			v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
			if want := "no address (glue) came with the delegation"; !strings.Contains(v.Note, want) {
				t.Errorf("note %q, want %q in it", v.Note, want)
			}
			for _, a := range n.askedOf(resolverAddrs...) {
				if a.name != "com." && a.name != "a.registry.net." {
					t.Errorf("a resolver was asked for %s", a.name)
				}
			}
		})
	}
}

// TestModeAuthority checks how the answers of name servers and resolvers are combined.
func TestModeAuthority(t *testing.T) {
	type zones struct{ authority, resolvers []dns.RR }
	has, lacks := []dns.RR{txt(host, token)}, []dns.RR(nil)
	tests := []struct {
		name        string
		zones       zones
		look, prove expected
		basis       dnscheck.Basis // of the proof
		lookAsks    bool           // whether resolvers are queried for the host
		proofAsks   bool
	}{
		{"both have it", zones{has, has}, expected{dnscheck.Present, dnscheck.ReasonFound},
			expected{dnscheck.Present, dnscheck.ReasonFound}, dnscheck.ByBoth, false, true},
		{"neither has it", zones{lacks, lacks}, expected{dnscheck.Absent, dnscheck.ReasonNoName},
			expected{dnscheck.Absent, dnscheck.ReasonNoName}, dnscheck.ByAuthority, false, false},
		{"the resolvers do not see it yet", zones{has, lacks}, expected{dnscheck.Present, dnscheck.ReasonFound},
			expected{dnscheck.Unknown, dnscheck.ReasonLag}, dnscheck.ByBoth, false, true},
		{"the resolvers still see it", zones{lacks, has}, expected{dnscheck.Absent, dnscheck.ReasonNoName},
			expected{dnscheck.Absent, dnscheck.ReasonNoName}, dnscheck.ByAuthority, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for way, ask := range ways {
				bubble(t, way, func(t *testing.T) {
					n := delegated(t, test.zones.authority...)
					n.know(test.zones.resolvers...)
					v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
					wanted, asks, basis := test.look, test.lookAsks, dnscheck.ByAuthority
					if way == "prove" {
						wanted, asks, basis = test.prove, test.proofAsks, test.basis
					}
					want(t, v, wanted.state, wanted.reason)
					if v.Basis != basis {
						t.Errorf("basis %s, want %s", v.Basis, basis)
					}
					if !asks {
						n.quietAbout(host)
					} else if got := hostAsked(n); got == 0 {
						t.Error("the resolvers were not asked for the host")
					}
				})
			}
		})
	}
	bubble(t, "servers that have nothing to say: nobody else is asked", func(t *testing.T) {
		n := overTLD(t, twoServers()...)
		n.at(nsOne, nil)
		n.at(nsTwo, refused)
		n.know(txt(host, token))
		for _, ask := range ways {
			v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonRefused)
			if v.Basis != dnscheck.ByAuthority || v.Note == "" {
				t.Errorf("basis %q, note %q", v.Basis, v.Note)
			}
		}
		n.quietAbout(host)
	})
	bubble(t, "too few of the servers say no: nobody else is asked", func(t *testing.T) {
		n := delegated(t)
		n.at(nsTwo, refused)
		n.know(txt(host, token))
		for _, ask := range ways {
			v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonRefused)
		}
		n.quietAbout(host)
	})
	bubble(t, "a negative answer that resolvers keep is told", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		for _, address := range resolverAddrs {
			n.at(address, func(q *dns.Msg) *dns.Msg {
				m := n.resolver(q)
				if m.Rcode == dns.RcodeNameError {
					m.Ns = []dns.RR{soa("example.com", 600, 600)}
				}
				return m
			})
		}
		v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonLag)
		if v.NegativeTTL != 600*time.Second {
			t.Errorf("negative TTL %s", v.NegativeTTL)
		}
	})
}

// hostAsked counts the resolvers' queries for the host.
func hostAsked(n *internet) int {
	count := 0
	for _, a := range n.askedOf(resolverAddrs...) {
		if dnsname.Same(a.name, host) {
			count++
		}
	}
	return count
}

// TestWhatAnObservationOfANameServerHolds checks the fields of a name server's observation.
func TestWhatAnObservationOfANameServerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := overTLD(t, ns("example.com", "ns1.example.com"), address("ns1.example.com", nsOne),
			ns("example.com", "ns2.example.com"), address("ns2.example.com", "10.0.0.1"))
		n.at(nsOne, zoneOf(start("example.com"), txt(host, other)))
		var seen []dnscheck.Observation
		v := look(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority,
			Observe: func(o dnscheck.Observation) { seen = append(seen, o) }}))
		byName := func(a, b dnscheck.Observation) int { return strings.Compare(a.Resolver, b.Resolver) }
		slices.SortFunc(v.Observations, byName)
		wanted := []dnscheck.Observation{
			{Resolver: "ns1.example.com", Authority: true, Address: nsOne + ":53", Transport: "udp", State: dnscheck.Absent,
				Reason: dnscheck.ReasonOtherValue, Values: []string{other}, RCode: "NOERROR"},
			{Resolver: "ns2.example.com", Authority: true, Reason: dnscheck.ReasonUnreachable,
				Err: "its address 10.0.0.1 is not public unicast: not queried"},
		}
		if diff := cmp.Diff(wanted, v.Observations); diff != "" {
			t.Errorf("observations (-want +got):\n%s", diff)
		}
		if len(seen) != 2 {
			t.Errorf("told of %d observations", len(seen))
		}
		if v.Basis != dnscheck.ByAuthority {
			t.Errorf("basis %q", v.Basis)
		}
	})
}

func TestParseMode(t *testing.T) {
	for _, m := range []dnscheck.Mode{dnscheck.ModeAuthority, dnscheck.ModeResolvers} {
		if got, err := dnscheck.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	_, err := dnscheck.ParseMode("sometimes")
	if err == nil || err.Error() != `dns mode "sometimes": want authority or resolvers` {
		t.Errorf("error %v", err)
	}
}

// TestReferralToThousandsIsCheap checks the cost of a referral over TCP, in which the owner of
// a domain can list thousands of servers and addresses. The number of chosen servers is
// bounded, and the cost must not grow with the product of servers and addresses.
func TestReferralToThousandsIsCheap(t *testing.T) {
	const many = 1800
	var records []*dns.NS
	var additional []dns.RR
	suffix := strings.Repeat("a.", 60) + "sub.example.com."
	for i := range many {
		name := fmt.Sprintf("N%d.%s", i, suffix) // upper case makes each comparison allocate
		records = append(records, ns("sub.example.com", name))
		additional = append(additional, address(name, nsOne))
	}
	servers, room := 0, 0
	const fixed = 100 // allocations per server
	allocations := testing.AllocsPerRun(1, func() {
		servers, room = dnscheck.Delegation("sub.example.com.", records, additional)
	})
	if servers != dnscheck.MaxServers || room > 2*dnscheck.MaxServers {
		t.Errorf("%d servers, room for %d: want %d, and nothing kept of the others", servers, room, dnscheck.MaxServers)
	}
	if most := float64(many*10 + dnscheck.MaxServers*(many*4+fixed)); allocations > most {
		t.Errorf("%.0f allocations, want at most %.0f", allocations, most)
	}
}
