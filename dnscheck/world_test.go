package dnscheck_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// everywhere serves z at the name servers of example.com. and parking.com., and at the
// resolvers.
func everywhere(t *testing.T, z zone) *internet {
	n := overTLD(t, append(twoServers(),
		ns("parking.com", "ns1.parking.com"), address("ns1.parking.com", nsOne),
		ns("parking.com", "ns2.parking.com"), address("ns2.parking.com", nsTwo))...)
	n.at(nsOne, z)
	n.at(nsTwo, z)
	for _, resolver := range resolverAddrs {
		n.at(resolver, func(q *dns.Msg) *dns.Msg {
			name := dns.CanonicalName(q.Question[0].Name)
			if !dns.IsSubDomain("example.com.", name) && !dns.IsSubDomain("parking.com.", name) {
				return n.resolver(q)
			}
			m := z(q)
			m.Authoritative, m.RecursionAvailable = false, true
			return m
		})
	}
	return n
}

// inEachWay expects the same verdict of a check and of a proof in each mode.
func inEachWay(t *testing.T, z zone, wanted expected) {
	t.Helper()
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
		for way, ask := range ways {
			bubble(t, mode.String()+" "+way, func(t *testing.T) {
				v := ask(t, everywhere(t, z).checker(dnscheck.Config{Mode: mode}))
				want(t, v, wanted.state, wanted.reason)
			})
		}
	}
}

// withWildcard is zoneOf with a wildcard record beneath example.com. (RFC 4592).
func withWildcard(wild dns.RR, records ...dns.RR) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := zoneOf(records...)(q)
		name := q.Question[0].Name
		if m.Rcode != dns.RcodeNameError || !dns.IsSubDomain("example.com.", dns.CanonicalName(name)) {
			return m
		}
		made := dns.Copy(wild)
		made.Header().Name = name
		origin := slices.IndexFunc(records, func(rr dns.RR) bool { return dnsname.Same(rr.Header().Name, "example.com") })
		return zoneOf(slices.Insert(slices.Clone(records), origin+1, made)...)(q)
	}
}

// worldScene is the answers of all name servers and resolvers.
type worldScene struct {
	name string
	zone zone
	want expected
}

// worldScenes are wildcard records, which count, since their publisher could publish the
// record itself, and name servers that answer every query, as those of domains for sale do.
func worldScenes() []worldScene {
	const anyName = "*.example.com"
	alias := func(target string) dns.RR { return cname(anyName, target) }
	zones := func(more ...dns.RR) []dns.RR {
		return append([]dns.RR{start("example.com"), start("parking.com"), address("www.parking.com", "5.5.5.5")}, more...)
	}
	parked := func(change func(m *dns.Msg, name string)) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := straight(answer(q))
			m.Authoritative = true
			change(m, q.Question[0].Name)
			return m
		}
	}
	return []worldScene{
		{"an old token everywhere", withWildcard(txt(anyName, other), zones()...), absent(dnscheck.ReasonOtherValue)},
		{"the token everywhere", withWildcard(txt(anyName, token), zones()...), found},
		{"the token everywhere but at the host, which has another record",
			withWildcard(txt(anyName, token), start("example.com"), address(host, "5.5.5.5")), absent(dnscheck.ReasonNoRecord)},
		{"an alias everywhere, of a name of the domain with the token",
			withWildcard(alias("there.example.com"), start("example.com"), txt("there.example.com", token)), found},
		{"an alias everywhere, of a name with another value",
			withWildcard(alias("_v.parking.com"), zones(txt("_v.parking.com", other))...), absent(dnscheck.ReasonOtherValue)},
		{"an alias everywhere, of a name without TXT records", withWildcard(alias("www.parking.com"), zones()...),
			absent(dnscheck.ReasonNoRecord)},
		{"an alias everywhere, of a name that does not exist", withWildcard(alias("gone.parking.com"), zones()...),
			absent(dnscheck.ReasonNoName)},
		{"an alias everywhere, of a name that it makes itself", withWildcard(alias("loop.example.com"), zones()...),
			unknown(dnscheck.ReasonAlias)},
		{"the same values at each name", parked(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{txt(name, "v=spf1 -all"), txt(name, "this domain is for sale")}
		}), expected{dnscheck.Absent, dnscheck.ReasonOtherValue}},
		{"each name is there, without TXT records", parked(func(m *dns.Msg, _ string) {
			m.Ns = []dns.RR{start("example.com")}
		}), expected{dnscheck.Absent, dnscheck.ReasonNoRecord}},
		{"each name has one address, whatever is asked for", parked(func(m *dns.Msg, name string) {
			m.Answer = []dns.RR{address(name, "5.5.5.5")}
		}), expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
		{"the parking's own record, whatever is asked for", parked(func(m *dns.Msg, _ string) {
			m.Answer = []dns.RR{txt("parking.com", token)}
		}), expected{dnscheck.Unknown, dnscheck.ReasonMalformed}},
	}
}

func TestWorldsOfOneAnswer(t *testing.T) {
	for _, test := range worldScenes() {
		t.Run(test.name, func(t *testing.T) { inEachWay(t, test.zone, test.want) })
	}
}

// TestFlappingRecord checks that each verdict reports the current record, without caching.
func TestFlappingRecord(t *testing.T) {
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
		bubble(t, mode.String(), func(t *testing.T) {
			with, without := zoneOf(start("example.com"), txt(host, token)), zoneOf(start("example.com"))
			var there atomic.Bool
			c := everywhere(t, func(q *dns.Msg) *dns.Msg {
				if there.Load() {
					return with(q)
				}
				return without(q)
			}).checker(dnscheck.Config{Mode: mode})
			for range 5 {
				for _, now := range []bool{true, false} {
					there.Store(now)
					wanted := expected{dnscheck.Absent, dnscheck.ReasonNoName}
					if now {
						wanted = expected{dnscheck.Present, dnscheck.ReasonFound}
					}
					for _, ask := range ways {
						v := ask(t, c)
						want(t, v, wanted.state, wanted.reason)
					}
					time.Sleep(time.Minute)
				}
			}
		})
	}
}

// TestAllServersDownForAWhile checks that verdicts are unknown during an outage of any length,
// and that the first answer after it counts.
func TestAllServersDownForAWhile(t *testing.T) {
	for name, outage := range map[string]time.Duration{"for an hour": time.Hour, "for eight days": 8 * 24 * time.Hour} {
		for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
			bubble(t, name+", "+mode.String(), func(t *testing.T) {
				n := delegated(t, txt(host, token))
				n.know(txt(host, token))
				c := n.checker(dnscheck.Config{Mode: mode})
				want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
				reason := dnscheck.ReasonTimeout
				if mode == dnscheck.ModeAuthority {
					reason = dnscheck.ReasonTopLevel // the resolvers do not name the registry's servers
				}
				addresses := append([]string{tldAddr, nsOne, nsTwo}, resolverAddrs...)
				up := make(map[string]zone)
				for _, a := range addresses {
					up[a] = n.servers[a]
					n.at(a, nil)
				}
				for range 12 {
					time.Sleep(outage / 12)
					for _, ask := range ways {
						v := ask(t, c)
						want(t, v, dnscheck.Unknown, reason)
					}
				}
				for _, a := range addresses {
					n.at(a, up[a])
				}
				for _, ask := range ways {
					v := ask(t, c)
					want(t, v, dnscheck.Present, dnscheck.ReasonFound)
				}
			})
		}
	}
}

// TestCheckOfSilentServersEnds checks that a check of silent servers lasts at most both
// transports' timeouts. Limits on concurrent checks rely on this.
func TestCheckOfSilentServersEnds(t *testing.T) {
	const attempts = 2 // over UDP and TCP
	authority := attempts * time.Second
	resolvers := attempts * dnscheck.DefaultTimeout
	for mode, longest := range map[dnscheck.Mode]time.Duration{
		dnscheck.ModeResolvers: resolvers, dnscheck.ModeAuthority: authority,
	} {
		bubble(t, mode.String(), func(t *testing.T) {
			n := everywhere(t, zoneOf(start("parking.com"), txt("_v.parking.com", token)))
			c := n.checker(dnscheck.Config{Mode: mode})
			v, err := c.Check(t.Context(), "_v.parking.com", token) // caches the top-level domain's servers
			if err != nil {
				t.Fatal(err)
			}
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			for _, silent := range append([]string{nsOne, nsTwo}, resolverAddrs...) {
				n.at(silent, nil)
			}
			for range 3 { // the duration does not grow
				began := time.Now()
				want(t, look(t, c), dnscheck.Unknown, dnscheck.ReasonTimeout)
				if took := time.Since(began); took > longest {
					t.Errorf("took %s, want at most %s", took, longest)
				}
				time.Sleep(15 * time.Second)
			}
		})
	}
}
