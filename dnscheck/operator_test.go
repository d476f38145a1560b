package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

func TestOperatorOf(t *testing.T) {
	tests := []struct {
		name    string
		servers []string
		want    string
	}{
		{"none", nil, ""},
		{"spread over numbered domains and suffixes", []string{"ns-123.awsdns-12.com.", "ns-5.awsdns-40.co.uk.",
			"ns-1536.awsdns-00.co.uk.", "ns-900.awsdns-48.net."}, "awsdns"},
		{"one name of many", []string{"ns1.digitalocean.com."}, "digitalocean"},
		{"numbered hosts", []string{"ns1-09.azure-dns.com.", "ns2-09.azure-dns.net.", "ns4-09.azure-dns.info."}, "azure-dns"},
		{"two operators", []string{"ns2.b.org.", "ns1.a.net."}, "a+b"},
		{"letters in any case, and no last dot", []string{"NS1.Example.COM", "ns2.eXample.net."}, "example"},
		{"digits at the beginning", []string{"ns1.123-reg.co.uk."}, "reg"},
		{"digits in the middle", []string{"ns1.dns-1-east.com.", "ns1.dns-2-east.com."}, "dns-east"},
		{"digits among letters", []string{"ns1045.ui1dns.de."}, "uidns"},
		{"digits alone", []string{"ns1.163.com."}, "163"},
		{"digits and hyphens alone", []string{"ns1.1-2-3.com."}, "1-2-3"},
		{"an internationalized name", []string{"ns.xn--bcher-kva1.example."}, "xn--bcher-kva"},
		{"under a suffix that has one owner", []string{"ns1.me.github.io."}, "me"},
		{"a public suffix itself", []string{"co.uk."}, "co"},
		{"one label", []string{"localhost."}, "localhost"},
		{"what no host's name has", []string{`ns1.a\000\+b.com.`}, "a___b"},
		{"a suffix that is not on the list", []string{"a.b.nowhere."}, "b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := dnscheck.OperatorOf(test.servers); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	t.Run("many operators are one key, whatever their order", func(t *testing.T) {
		var servers, turned []string
		for c := 'a'; c <= 'z'; c++ {
			name := fmt.Sprintf("ns.%s.com.", strings.Repeat(string(c), 9))
			servers, turned = append(servers, name), append([]string{name}, turned...)
		}
		key := dnscheck.OperatorOf(servers)
		if len(key) != dnscheck.MaxOperator || key != dnscheck.OperatorOf(turned) {
			t.Errorf("%q, %q", key, dnscheck.OperatorOf(turned))
		}
	})
}

// TestOperatorOfAVerdict checks that each verdict has the operator, for every delegation and
// result, without further queries.
func TestOperatorOfAVerdict(t *testing.T) {
	route53 := func(t *testing.T, z zone) *internet {
		n := overTLD(t, ns("example.com", "ns-12.awsdns-01.net"), ns("example.com", "ns-913.awsdns-50.co.uk"))
		n.hosts(address("ns-12.awsdns-01.net", nsOne), address("ns-913.awsdns-50.co.uk", nsTwo))
		n.know(txt(host, token))
		n.at(nsOne, z)
		n.at(nsTwo, z)
		return n
	}
	apart := overTLD
	tests := []struct {
		name  string
		build func(t *testing.T) *internet
		want  string
	}{
		{"there", func(t *testing.T) *internet { return route53(t, zoneOf(start("example.com"), txt(host, token))) },
			"awsdns"},
		{"not there", func(t *testing.T) *internet { return route53(t, zoneOf(start("example.com"))) }, "awsdns"},
		{"silent", func(t *testing.T) *internet { return route53(t, nil) }, "awsdns"},
		{"lame", func(t *testing.T) *internet { return route53(t, refused) }, "awsdns"},
		{"no address is known", func(t *testing.T) *internet { return apart(t, ns("example.com", "ns1.dead.net")) }, "dead"},
		{"the zone of the host, not that of its alias", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.here.net"), ns("target.com", "ns1.there.net"))
			n.hosts(address("ns1.here.net", nsOne), address("ns1.there.net", nsTwo))
			n.at(nsOne, zoneOf(start("example.com"), cname(host, "_v.target.com")))
			n.at(nsTwo, zoneOf(start("target.com"), txt("_v.target.com", token)))
			return n
		}, "here"},
		{"the lowest zone", func(t *testing.T) *internet {
			n := overTLD(t, ns("example.com", "ns1.upper.net"))
			n.hosts(address("ns1.upper.net", nsOne), address("ns1.lower.net", nsTwo))
			n.at(nsOne, zoneOf(start("example.com"), ns("org-1.example.com", "ns1.lower.net")))
			n.at(nsTwo, zoneOf(start("org-1.example.com")))
			return n
		}, "lower"},
		{"more servers than are asked, of two operators", func(t *testing.T) *internet {
			var records []dns.RR
			for i := range 2 * dnscheck.MaxServers {
				records = append(records, ns("example.com", fmt.Sprintf("ns%d.%s.net", i,
					[]string{"many", "more"}[i/(2*dnscheck.MaxServers-1)])))
			}
			return overTLD(t, records...)
		}, "many+more"},
		{"a domain that is not delegated has none", func(t *testing.T) *internet { return overTLD(t) }, ""},
		{"nobody can be reached", func(t *testing.T) *internet {
			n := overTLD(t)
			n.at(tldAddr, nil)
			return n
		}, ""},
	}
	ways := map[string]func(*testing.T, *dnscheck.Checker) dnscheck.Verdict{"look": look,
		"prove": prove, "disprove": disprove}
	for _, test := range tests {
		for way, ask := range ways {
			bubble(t, test.name+", "+way, func(t *testing.T) {
				n := test.build(t)
				v := ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
				if v.Operator != test.want {
					t.Errorf("operator %q, want %q; %+v", v.Operator, test.want, v)
				}
				for _, a := range n.everythingAsked() {
					if a.kind == dns.TypeNS && dns.CountLabel(a.name) > 1 {
						t.Errorf("%s was asked for the name servers of %s", a.address, a.name)
					}
				}
			})
		}
	}
	bubble(t, "not of a registry", func(t *testing.T) {
		n := newInternet(t)
		n.know(ns("uk", "a.nic.uk"), address("a.nic.uk", tldAddr), address("ns1.nic.uk", nsOne))
		n.at(tldAddr, zoneOf(start("uk"), ns("co.uk", "ns1.nic.uk")))
		n.at(nsOne, zoneOf(start("co.uk")))
		v, err := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}).Check(t.Context(), "_v.example.co.uk", token)
		if err != nil || v.Operator != "" {
			t.Errorf("%s, operator %q, error %v", v.State, v.Operator, err)
		}
	})
	bubble(t, "of memory", func(t *testing.T) {
		c := route53(t, zoneOf(start("example.com"))).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		look(t, c)
		if v := look(t, c); v.Operator != "awsdns" {
			t.Errorf("operator %q", v.Operator)
		}
	})
	bubble(t, "not by resolvers alone", func(t *testing.T) {
		if v := look(t, route53(t, nil).checker(dnscheck.Config{})); v.Operator != "" {
			t.Errorf("operator %q", v.Operator)
		}
	})
}

// namesIn returns the distinct queried names. The number of queries for each varies with the
// order of answers.
func namesIn(log []asked) []string {
	var names []string
	for _, a := range log {
		if !slices.Contains(names, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}

// operatorBy returns the operator according to the resolvers.
func operatorBy(t *testing.T, c *dnscheck.Checker, host string) string {
	t.Helper()
	operator, err := c.Operator(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

func TestOperatorByResolvers(t *testing.T) {
	deep := strings.Repeat("a.", 3*dnscheck.MaxCuts) + "example.com"
	tests := []struct {
		name  string
		known []dns.RR
		host  string
		want  string
		asked []string
	}{
		{"of the domain", []dns.RR{ns("example.com", "ns-1.awsdns-02.org"), ns("example.com", "ns-3.awsdns-04.net")},
			host, "awsdns",
			[]string{"_verify.org-1.example.com.", "org-1.example.com.", "example.com."}},
		{"of the lowest zone", []dns.RR{ns("example.com", "ns1.upper.net"), ns("org-1.example.com", "ns1.lower.net")},
			host, "lower",
			[]string{"_verify.org-1.example.com.", "org-1.example.com."}},
		{"of the host itself", []dns.RR{ns("example.com", "ns1.upper.net"), ns(host, "ns1.lower.net")}, host, "lower",
			[]string{"_verify.org-1.example.com."}},
		{"not where the host's alias leads", []dns.RR{cname(host, "_v.target.com"), ns("_v.target.com", "ns1.there.net"),
			ns("example.com", "ns1.here.net")}, host, "here",
			[]string{"_verify.org-1.example.com.", "org-1.example.com.", "example.com."}},
		{"of no registry", []dns.RR{ns("com", "a.registry.net"), ns("co.uk", "a.nic.uk")}, "_v.example.co.uk", "",
			[]string{"_v.example.co.uk.", "example.co.uk."}},
		{"of a suffix that has one owner", []dns.RR{ns("github.io", "dns1.p05.nsone.net")}, "_v.me.github.io", "nsone",
			[]string{"_v.me.github.io.", "me.github.io.", "github.io."}},
		{"nowhere", nil, host, "", []string{"_verify.org-1.example.com.", "org-1.example.com.", "example.com."}},
		{"of a host with many labels", []dns.RR{ns("example.com", "ns1.here.net")}, deep, "here", nil},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := newInternet(t)
			n.know(test.known...)
			if got := operatorBy(t, n.checker(dnscheck.Config{}), test.host); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			asked := namesIn(n.everythingAsked())
			if test.asked == nil {
				if len(asked) != dnscheck.MaxCuts {
					t.Errorf("asked %q", asked)
				}
			} else if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOperatorTakesAQuorum checks that a quorum of the resolvers must agree.
func TestOperatorTakesAQuorum(t *testing.T) {
	liar := func(q *dns.Msg) *dns.Msg { return answer(q, ns(q.Question[0].Name, "ns1.evil.net")) }
	tests := []struct {
		name   string
		others [2]zone // next to an honest one
		quorum int
		want   string
	}{
		{"one lies", [2]zone{liar, nil}, 0, "here"},
		{"one fails", [2]zone{nil, servfail}, 0, "here"},
		{"one is silent", [2]zone{never, nil}, 0, "here"},
		{"one lies, and one fails", [2]zone{liar, servfail}, 0, ""},
		{"two fail", [2]zone{servfail, refused}, 0, ""},
		{"all are wanted, and one denies it", [2]zone{nil, nothing}, 3, ""},
		{"all are wanted, and there", [2]zone{nil, nil}, 3, "here"},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := newInternet(t)
			n.know(ns("example.com", "ns1.here.net"))
			for i, z := range test.others {
				if z != nil {
					n.at(resolverAddrs[i], z)
				}
			}
			if got := operatorBy(t, n.checker(dnscheck.Config{Quorum: test.quorum}), "_v.example.com"); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	bubble(t, "one makes answers up", func(t *testing.T) {
		n := newInternet(t)
		n.know(ns("example.com", "ns1.here.net"))
		n.at(resolverAddrs[0], liar)
		n.at(resolverAddrs[1], nothing)
		if got := operatorBy(t, n.checker(dnscheck.Config{}), "_v.example.com"); got != "" {
			t.Errorf("%q", got)
		}
	})
}

func TestOperatorIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		n.know(ns("example.com", "ns1.here.net"))
		c := n.checker(dnscheck.Config{})
		asks := func(host, want string, names ...string) {
			t.Helper()
			synctest.Wait() // for queries that were canceled
			before := len(n.everythingAsked())
			if got := operatorBy(t, c, host); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if diff := cmp.Diff(names, namesIn(n.everythingAsked()[before:])); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		}
		asks("_v.example.com", "here", "_v.example.com.", "example.com.")
		asks("_V.Example.com.", "here")
		asks("_w.example.com", "here", "_w.example.com.") // the domain is cached
		time.Sleep(300 * time.Second)                     // the records' TTL
		asks("_v.example.com", "here", "example.com.")    // the absence of a zone at the host is cached longer
		for _, address := range resolverAddrs {
			n.at(address, servfail)
		}
		asks("_v.example.org", "", "_v.example.org.", "example.org.")
		asks("_v.example.org", "")
		for _, address := range resolverAddrs {
			n.at(address, n.resolver)
		}
		n.know(ns("example.org", "ns1.there.net"))
		time.Sleep(30 * time.Second)
		asks("_v.example.org", "there", "_v.example.org.", "example.org.")
		synctest.Wait()
		var asking sync.WaitGroup
		before := len(n.everythingAsked())
		for range 20 {
			asking.Go(func() { operatorBy(t, c, "_x.example.com") })
		}
		asking.Wait()
		if got := len(n.everythingAsked()) - before; got > len(resolverAddrs) {
			t.Errorf("%d queries of many at once", got)
		}
	})
}

func TestOperatorOfNoQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		for _, address := range resolverAddrs {
			n.at(address, nil)
		}
		c := n.checker(dnscheck.Config{})
		if _, err := c.Operator(t.Context(), "localhost"); !asQuestionError(err) {
			t.Errorf("error %v", err)
		}
		began := time.Now()
		if got := operatorBy(t, c, strings.Repeat("a.", 7)+"example.com"); got != "" ||
			time.Since(began) > dnscheck.OperatorTime {
			t.Errorf("%q after %s", got, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Operator(ctx, "_v.example.net"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

// TestZoneOfAHost checks both ways to the host's zone: its name servers, and the resolvers.
func TestZoneOfAHost(t *testing.T) {
	two := dnscheck.Zone{Name: "example.com", Servers: []string{"ns1.example.com", "ns2.example.com"}}
	tests := []struct {
		name  string
		build func(t *testing.T) *internet
		want  dnscheck.Zone
	}{
		{"a domain", func(t *testing.T) *internet { return delegated(t) }, two},
		{"a zone below it", func(t *testing.T) *internet {
			n := delegated(t, ns("Org-1.example.com", "ns.example.com"), address("ns.example.com", "5.2.0.1"))
			n.at("5.2.0.1", zoneOf(start("org-1.example.com")))
			return n
		}, dnscheck.Zone{Name: "org-1.example.com", Servers: []string{"ns.example.com"}}},
		{"an alias into another zone", func(t *testing.T) *internet {
			n := delegated(t, cname(host, "v.other.com"))
			n.at(tldAddr, zoneOf(slices.Concat([]dns.RR{start("com")}, twoServers(),
				[]dns.RR{ns("other.com", "ns.other.com"), address("ns.other.com", "5.3.0.1")})...))
			n.at("5.3.0.1", zoneOf(start("other.com")))
			return n
		}, two},
		{"the domain does not exist", func(t *testing.T) *internet { return overTLD(t) }, dnscheck.Zone{}},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := test.build(t)
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
			if diff := cmp.Diff(test.want, v.HostZone); diff != "" {
				t.Errorf("by its name servers (-want +got):\n%s", diff)
			}
			for _, server := range test.want.Servers {
				n.know(ns(test.want.Name, server))
			}
			zone, err := n.checker(dnscheck.Config{}).ZoneOf(t.Context(), host)
			if diff := cmp.Diff(test.want, zone); err != nil || diff != "" {
				t.Errorf("by the resolvers (-want +got):\n%s%v", diff, err)
			}
		})
	}
}
