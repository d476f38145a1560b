package dnscheck_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// evilAddr is the address of a server that an attacker runs. It says yes to everything.
const evilAddr = "6.6.6.6"

// serverAddr is the address of the i-th server of example.com.
func serverAddr(i int) string { return fmt.Sprintf("5.1.0.%d", i+1) }

// delegatedTo gives the NS and glue records of a zone with n servers, at the addresses of serverAddr.
func delegatedTo(zone string, n int) []dns.RR {
	var records []dns.RR
	for i := range n {
		name := fmt.Sprintf("ns%d.%s", i+1, zone)
		records = append(records, ns(zone, name), address(name, serverAddr(i)))
	}
	return records
}

// servedBy delegates example.com to these servers. The resolvers see the token, and the attacker has a server beside.
func servedBy(t *testing.T, servers ...zone) *internet {
	n := overTLD(t, delegatedTo("example.com", len(servers))...)
	for i, z := range servers {
		n.at(serverAddr(i), z)
	}
	n.know(txt(host, token))
	n.at(evilAddr, says(txt(host, token)))
	return n
}

// What a server of example.com can answer.
var (
	publishes = zoneOf(start("example.com"), txt(host, token))
	denies    = zoneOf(start("example.com"))
	leads     = zoneOf(start("example.com"), ns(host, "ns."+host), address("ns."+host, evilAddr))
	diverts   = zoneOf(start("example.com"), cname(host, "_v.evil.example.com"), ns("evil.example.com", "ns.evil.example.com"), address("ns.evil.example.com", evilAddr))
)

func prove(t *testing.T, c *dnscheck.Checker) dnscheck.Verdict {
	t.Helper()
	v, err := c.Prove(t.Context(), host, token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// inTurn answers each query as the next of the zones does; nil: not within an hour.
func inTurn(zones ...zone) zone {
	var queries atomic.Int64
	return func(q *dns.Msg) *dns.Msg {
		z := zones[int(queries.Add(1)-1)%len(zones)]
		if z == nil {
			time.Sleep(time.Hour)
			return answer(q)
		}
		return z(q)
	}
}

// TestHostileNameServersProveNothing has an attacker who holds at most half of a zone's servers, while the resolvers see
// the token: nothing is proven, whatever those servers answer and whether the others deny the token or are silenced.
func TestHostileNameServersProveNothing(t *testing.T) {
	const disagree, few = dnscheck.ReasonServersDisagree, dnscheck.ReasonTooFew
	tests := []struct {
		name    string
		servers []zone
		reason  dnscheck.Reason
	}{
		{"a referral, the other denies", []zone{leads, denies}, disagree},
		{"a referral, three deny", []zone{denies, leads, denies, denies}, disagree},
		{"a referral, one denies, two are silent", []zone{nil, leads, denies, nil}, disagree},
		{"two referrals, two deny", []zone{denies, leads, denies, leads}, disagree},
		{"a referral, the other is silent", []zone{leads, nil}, few},
		{"a referral, three are silent", []zone{nil, leads, nil, nil}, few},
		{"two referrals, two are silent", []zone{nil, leads, nil, leads}, few},
		{"a referral, the others fail", []zone{servfail, leads, refused}, few},
		{"the token, the other denies", []zone{publishes, denies}, disagree},
		{"the token, the other is silent", []zone{publishes, nil}, few},
		{"the token, three are silent", []zone{nil, nil, publishes, nil}, few},
		{"the token at two of four, the others are silent", []zone{publishes, nil, publishes, nil}, few},
		{"the token, the others fail or are lame", []zone{publishes, servfail, refused, noName}, few},
		{"an alias, the others deny", []zone{denies, diverts, denies}, disagree},
		{"an alias, the other is silent", []zone{diverts, nil}, few},
		{"an alias, three are silent", []zone{nil, diverts, nil, nil}, few},
		{"an alias beside a referral", []zone{diverts, leads, nil, nil}, disagree},
		{"the token beside a referral, two are silent", []zone{publishes, leads, nil, nil}, few},
		{"an alias beside the token", []zone{diverts, publishes, nil, nil}, disagree},
	}
	for _, test := range tests {
		for _, mode := range []dnscheck.Mode{dnscheck.ModeAuto, dnscheck.ModeAuthority} {
			t.Run(test.name+", "+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := servedBy(t, test.servers...)
					for range 5 { // servers are queried in a random order
						c := n.checker(dnscheck.Config{Mode: mode})
						for range 2 { // the second builds on what the first has cached
							v := prove(t, c)
							want(t, v, dnscheck.Unknown, test.reason)
							if v.Basis != dnscheck.ByAuthority {
								t.Errorf("basis %s", v.Basis)
							}
						}
						look(t, c)
						want(t, prove(t, c), dnscheck.Unknown, test.reason)
					}
					if n.dials(evilAddr) != 0 {
						t.Error("the attacker's server was queried")
					}
				})
			})
		}
	}
}

// TestServerThatChangesItsAnswers has one hostile server that answers each query in another way.
func TestServerThatChangesItsAnswers(t *testing.T) {
	for name, others := range map[string]zone{"the other denies": denies, "the other is silent": nil, "the other fails": servfail} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, inTurn(leads, publishes, diverts, nil, publishes, leads, refused), others)
				c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuto})
				for range 20 {
					look(t, c)
					if v := prove(t, c); v.State != dnscheck.Unknown && v.State != dnscheck.Absent {
						t.Errorf("verdict %s (%s): %+v", v.State, v.Reason, v.Observations)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// TestReferralOfOneServerIsNotCached has the server put right after one look or proof.
func TestReferralOfOneServerIsNotCached(t *testing.T) {
	for way, ask := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, leads, denies)
				c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuto})
				for range 10 {
					if _, err := ask(c)(t.Context(), host, token); err != nil {
						t.Fatal(err)
					}
				}
				n.at(serverAddr(0), denies)
				v := prove(t, c)
				want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
				if len(v.Observations) != 2 || n.dials(evilAddr) != 0 {
					t.Errorf("%d queries to the attacker's server; observations %+v", n.dials(evilAddr), v.Observations)
				}
			})
		})
	}
}

// TestOneDeadServerOfTwo proves nothing: an attacker who holds the other can bring it about.
func TestOneDeadServerOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := servedBy(t, publishes, nil)
		c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuto})
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		v := prove(t, c)
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTooFew)
		for what, sentences := range map[string][2]string{
			"sentence": {v.Sentence(), "Only 1 of the 2 name servers of example.com answered for the TXT record at " + host + ": more than half of them have to."},
			"plain":    {v.Plain(), "Too few of the domain's name servers answered for the TXT record at " + host + ": more than half of them have to."},
		} {
			if diff := cmp.Diff(sentences[1], sentences[0]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		n.quietAbout(host)
		n.at(serverAddr(1), publishes)
		want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
	})
}

// TestSilentNameServersAreNoReasonToAskTheResolversAlone: a zone's servers that can be silenced cannot be overridden so.
func TestSilentNameServersAreNoReasonToAskTheResolversAlone(t *testing.T) {
	for name, test := range map[string]struct {
		servers []zone
		reason  dnscheck.Reason
	}{
		"silent":        {[]zone{nil, nil}, dnscheck.ReasonTimeout},
		"lame, failing": {[]zone{noName, servfail}, dnscheck.ReasonLame},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := servedBy(t, test.servers...)
				v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuto}))
				want(t, v, dnscheck.Unknown, test.reason)
				n.quietAbout(host)
			})
		})
	}
}
