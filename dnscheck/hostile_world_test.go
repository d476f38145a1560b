package dnscheck_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// TestProofsInHostileWorlds makes random worlds. An attacker controls at most half of each zone's
// servers, those of registries and of the zones with the servers' names among them, and fewer
// resolvers than a quorum; or, where perspectives are named, all that one of them sees, name
// servers too if it is this machine's. The attacker answers each query at will, silences honest
// servers, and leads honest resolvers to servers of their own. A proof may be present only if the
// honest servers publish the token, and one of them, unless none is left, and one honest resolver
// returned it during the proof. While it is published, nothing is absent. Proofs in worlds without
// an attacker are present while the token is published.
//
// ORGOPS_TEST_HOSTILE_WORLDS is the number of worlds. ORGOPS_TEST_SEED repeats a run.
func TestProofsInHostileWorlds(t *testing.T) {
	t.Parallel()
	worlds, seed := numberSet(t, "ORGOPS_TEST_HOSTILE_WORLDS", 250), numberSet(t, "ORGOPS_TEST_SEED", rand.Uint64())
	t.Logf("%d worlds, ORGOPS_TEST_SEED=%d", worlds, seed)
	present := make(map[bool]int) // by calm
	large := 0                    // of them in large worlds that are not calm
	seen := make(map[string]int)  // proofs in worlds with perspectives, by the one that is lied to and the state
	for i := range worlds {
		synctest.Test(t, func(t *testing.T) {
			w := newHostileWorld(t, rand.New(rand.NewPCG(seed, i)))
			checker, err := dnscheck.NewOver(w.config, w.dial)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.change()
				if w.oneIn(2) {
					look(t, checker)
				}
				v := w.judged(fmt.Sprintf("world %d of seed %d", i, seed), func() dnscheck.Verdict { return prove(t, checker) })
				if len(w.perspectives) > 1 {
					seen[fmt.Sprintf("of %d %s: %s", len(w.perspectives), cmp.Or(w.liar, "none"), v.State)]++
				}
				if v.State == dnscheck.Present {
					present[w.calm]++
					if w.large && !w.calm {
						large++
					}
				}
				if v := disprove(t, checker); v.State == dnscheck.Absent && w.isSeen() {
					t.Errorf("world %d of seed %d, %s: disproved, though published: %+v", i, seed, w.layout, v)
				}
				time.Sleep(time.Duration(w.intN(600)) * time.Second)
			}
		})
	}
	t.Logf("present: %d in calm worlds, %d in others, of which %d large", present[true], present[false], large)
	t.Logf("by the perspective that was lied to: %v", seen)
	if uint64(present[true]) < worlds/10 || uint64(present[false]) < worlds/50 || uint64(large) < worlds/500 {
		t.Errorf("present: %d in calm worlds, %d in others, of which %d large: too few to show anything",
			present[true], present[false], large)
	}
}

// numberSet returns the number in an environment variable, or otherwise if it is not set.
func numberSet(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := cmp.Or(os.Getenv(name), strconv.FormatUint(otherwise, 10))
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: want a number, got %q", name, text)
	}
	return n
}

// hostileWorld is an internet in which example.com holds the token at the host, refers to a
// zone at the host, or has an alias into target.com.
type hostileWorld struct {
	*internet

	calm    bool
	large   bool // the zones on the way to the host have 9 to 16 servers
	layout  string
	config  dnscheck.Config
	members []*member

	perspectives []string // those of the resolvers, by their names
	liar         string   // the one of them whose resolvers are all hostile; empty: none

	believed atomic.Bool // honest resolvers return the records of hostile servers
	behind   atomic.Bool // honest resolvers do not see the token yet
	led      atomic.Bool // honest resolvers have the attacker's address for each name server
	denying  atomic.Bool // the attacker's own server denies the token

	elsewhere []dns.RR // the delegations of the zones with name servers' names
	depth     int      // of those that are being made

	// the token: published; returned in this proof by an honest server; by an honest resolver
	published, served, resolved atomic.Bool

	mu     sync.Mutex
	chance *rand.Rand
}

// member is one server of a zone.
type member struct {
	zone     string
	honest   zone
	hostile  atomic.Bool
	silenced atomic.Bool
	habit    int // behavior of a hostile server; negative: random for each query
}

func (w *hostileWorld) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chance.IntN(n)
}

func (w *hostileWorld) oneIn(n int) bool { return w.intN(n) == 0 }

// silence blocks until the world ends.
func (w *hostileWorld) silence(q *dns.Msg) *dns.Msg {
	<-w.t.Context().Done()
	return answer(q)
}

func newHostileWorld(t *testing.T, chance *rand.Rand) *hostileWorld {
	w := &hostileWorld{internet: newInternet(t), chance: chance}
	w.calm, w.large = w.oneIn(4), w.oneIn(4)
	w.layout = []string{"record", "zone at the host", "alias"}[w.intN(3)]
	w.published.Store(w.oneIn(2))

	registry := []dns.RR{start("com"), ns("evil.com", "ns.evil.com"), address("ns.evil.com", evilAddr)}
	w.at(evilAddr, func(q *dns.Msg) *dns.Msg {
		if w.denying.Load() {
			return zoneOf(start("example.com"), start("target.com"))(q)
		}
		return says(forged(q))(q)
	})
	holds := func(zone, name string) func(q *dns.Msg) *dns.Msg {
		with, without := zoneOf(start(zone), txt(name, token)), zoneOf(start(zone))
		return func(q *dns.Msg) *dns.Msg {
			if w.published.Load() {
				return with(q)
			}
			return without(q)
		}
	}
	switch w.layout {
	case "record":
		registry = append(registry, w.serve("example.com", "5.1", holds("example.com", host))...)
	case "zone at the host":
		below := w.serve(host, "5.2", holds(host, host))
		registry = append(registry, w.serve("example.com", "5.1",
			zoneOf(append([]dns.RR{start("example.com")}, below...)...))...)
	case "alias":
		registry = append(registry, w.serve("example.com", "5.1",
			zoneOf(start("example.com"), cname(host, "_v.target.com")))...)
		registry = append(registry, w.serve("target.com", "5.2", holds("target.com", "_v.target.com"))...)
	}
	w.registry("com", "5.0.0", zoneOf(registry...))
	w.registry("net", "5.0.1", zoneOf(append([]dns.RR{start("net")}, w.elsewhere...)...))
	w.perspectives = [][]string{{home}, {home, "eu"}, {home, "eu", "us"}}[w.intN(3)]
	if len(w.perspectives) > 1 && !w.calm {
		w.liar = w.perspectives[w.intN(len(w.perspectives))]
	}
	for _, m := range w.members {
		if w.liar == home {
			m.hostile.Store(true)
		}
	}
	w.resolvers()
	return w
}

// registry adds two to thirteen servers of a top-level domain, at most half of them hostile.
func (w *hostileWorld) registry(tld, net string, honest zone) {
	servers := 2 + w.intN(12)
	hostile := 0
	if !w.calm && w.oneIn(2) {
		hostile = w.intN(servers/2 + 1)
	}
	for i := range servers {
		m := &member{zone: tld, honest: honest, habit: w.intN(2*habits) - habits}
		m.hostile.Store(i < hostile)
		w.members = append(w.members, m)
		name, addr := fmt.Sprintf("%c.nic.%s", 'a'+i, tld), fmt.Sprintf("%s.%d", net, i+1)
		w.know(ns(tld, name), address(name, addr))
		w.at(addr, func(q *dns.Msg) *dns.Msg { return w.answers(m, q) })
	}
}

// forged returns the attacker's record for a question: the token, or evilAddr.
func forged(q *dns.Msg) dns.RR {
	if q.Question[0].Qtype == dns.TypeTXT {
		return txt(q.Question[0].Name, token)
	}
	return made(evilAddr, q)
}

// serve adds two to six servers of a zone, 9 to 16 in a large world, at most half of them hostile,
// and returns the delegation.
func (w *hostileWorld) serve(zone, net string, honest func(q *dns.Msg) *dns.Msg) []dns.RR {
	var delegation []dns.RR
	servers := 2 + w.intN(5-2*min(w.depth, 1))
	if w.large && w.depth == 0 {
		servers = 9 + w.intN(8)
	}
	hostile := 0
	if !w.calm {
		hostile = w.intN(servers/2 + 1)
	}
	names := ""                                             // the zone of the servers' names, which have no glue then
	if w.depth < 2 && w.oneIn(3) && (!w.large || !w.calm) { // it would take more queries than a proof may send
		names = fmt.Sprintf("names%d.net", len(w.members))
	}
	hosted := []dns.RR{start(cmp.Or(names, zone))}
	for i := range servers {
		m := &member{zone: zone, honest: honest, habit: w.intN(2*habits) - habits}
		m.hostile.Store(i < hostile)
		w.members = append(w.members, m)
		name := fmt.Sprintf("ns%d-%d.%s", i, w.depth, cmp.Or(names, zone)) // glue is of no name that a zone has
		delegation = append(delegation, ns(zone, name))
		addrs := []string{fmt.Sprintf("%s.%d.1", net, i), fmt.Sprintf("%s.%d.2", net, i),
			fmt.Sprintf("2a00:%d::%d", len(w.members), i)}
		if i >= hostile || w.oneIn(2) { // an attacker can add addresses to a name of theirs
			addrs = addrs[:1]
		}
		for _, addr := range addrs {
			w.at(addr, func(q *dns.Msg) *dns.Msg { return w.answers(m, q) })
			if names != "" {
				w.know(address(name, addr))
				hosted = append(hosted, address(name, addr))
			} else {
				delegation = append(delegation, address(name, addr))
			}
		}
	}
	if names != "" {
		w.depth++
		w.elsewhere = append(w.elsewhere, w.serve(names, fmt.Sprintf("5.%d", 10+len(w.members)), zoneOf(hosted...))...)
		w.depth--
	}
	return delegation
}

const habits = 13

func (w *hostileWorld) answers(m *member, q *dns.Msg) *dns.Msg {
	name := q.Question[0].Name
	refer := func(records ...dns.RR) *dns.Msg {
		r := straight(answer(q))
		r.Ns = slices.DeleteFunc(slices.Clone(records), func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeNS })
		r.Extra = slices.DeleteFunc(slices.Clone(records), func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeNS })
		return r
	}
	habit := m.habit
	if habit < 0 {
		habit = w.intN(habits)
	}
	switch {
	case m.silenced.Load():
		return w.silence(q)
	case !m.hostile.Load():
		r := m.honest(q)
		if len(r.Answer) > 0 && r.Answer[0].Header().Rrtype == dns.TypeTXT {
			w.served.Store(true)
		}
		return r
	}
	switch habit {
	case 0:
		return says(forged(q))(q)
	case 1:
		return zoneOf(start(m.zone))(q)
	case 2:
		return refer(ns(name, "ns."+name), address("ns."+name, evilAddr))
	case 3: // refer to the honest servers' names at another address, or add one
		r := m.honest(q)
		if len(r.Answer) > 0 && q.Question[0].Qtype == dns.TypeA {
			r.Answer = append(r.Answer, forged(q))
		}
		for i, rr := range r.Extra {
			r.Extra[i] = address(rr.Header().Name, evilAddr)
		}
		return r
	case 4: // refer to one more server
		r := m.honest(q)
		if len(r.Ns) > 0 && len(r.Answer) == 0 {
			r.Ns = append(r.Ns, ns(r.Ns[0].Header().Name, "ns.evil.com"))
		}
		return r
	case 5:
		return says(cname(name, "_v.evil.com"))(q)
	case 6:
		return w.silence(q)
	case 7:
		return servfail(q)
	case 8:
		r := says(forged(q))(q)
		r.Truncated = true
		return r
	case 9:
		return holding(token)(q)
	case 10:
		time.Sleep(time.Duration(w.intN(900)) * time.Millisecond)
		return says(forged(q))(q)
	case 11:
		time.Sleep(time.Duration(w.intN(900)) * time.Millisecond)
		return refer(ns(name, "ns.evil.com"))
	}
	return m.honest(q)
}

// resolvers adds three to five resolvers. Of one perspective fewer than a quorum of them are
// hostile; of several, all of the one that is lied to.
func (w *hostileWorld) resolvers() {
	w.config.Mode = dnscheck.ModeAuthority
	if w.oneIn(4) {
		w.config.Mode = dnscheck.ModeResolvers
	}
	count := 3 + w.intN(3)
	hostile := 0
	if !w.calm && len(w.perspectives) == 1 {
		hostile = w.intN(count/2 + 1)
	}
	only := w.oneIn(2) // hostile resolvers forge only answers for the host
	for i := range count {
		perspective := w.perspectives[i%len(w.perspectives)]
		addr := fmt.Sprintf("10.9.%d.1", i+1) // each has another operator
		w.config.Resolvers = append(w.config.Resolvers,
			dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 53), Perspective: perspective})
		if i < hostile || perspective == w.liar {
			w.at(addr, func(q *dns.Msg) *dns.Msg {
				switch kind := q.Question[0].Qtype; {
				case only && !asksFor(q, host):
					return w.resolver(q)
				case kind == dns.TypeNS:
					return answer(q, ns(q.Question[0].Name, "ns.evil.com"))
				case kind == dns.TypeA:
					return answer(q, made(evilAddr, q))
				}
				return holding(token)(q)
			})
			continue
		}
		w.at(addr, func(q *dns.Msg) *dns.Msg {
			switch name := dns.CanonicalName(q.Question[0].Name); {
			case asksFor(q, host):
			case w.led.Load() && dns.IsSubDomain("net.", name) && strings.Contains(name, ".names"):
				return answer(q, made(evilAddr, q))
			default:
				return w.resolver(q)
			}
			if w.behind.Load() || !w.published.Load() && !w.believed.Load() {
				return saidBy("example.com")(q)
			}
			w.resolved.Store(true)
			return holding(token)(q)
		})
	}
}

// change publishes or removes the token, silences honest servers, and makes hostile servers
// honest.
func (w *hostileWorld) change() {
	if w.oneIn(3) {
		w.published.Store(w.oneIn(2))
	}
	if !w.calm {
		// Where the resolvers decide alone, those that are led to the attacker would be a quorum.
		// Nor do they believe name servers that only this machine sees.
		w.believed.Store(!w.oneIn(4) && w.config.Mode == dnscheck.ModeAuthority && w.liar != home)
		w.behind.Store(w.oneIn(6))
		w.led.Store(!w.oneIn(3))
		w.denying.Store(w.oneIn(3))
		silences := w.intN(3) > 0
		for _, m := range w.members {
			if m.hostile.Load() && w.oneIn(6) {
				m.hostile.Store(false) // becomes honest
			}
			m.silenced.Store(!m.hostile.Load() && silences && w.oneIn(2))
		}
	}
}

// home is the perspective of this machine, which has the name servers too.
const home = "default"

// isSeen reports whether the token is published and honest name servers
// or honest resolvers have it, so that no verdict may be absent.
func (w *hostileWorld) isSeen() bool {
	byServers := w.config.Mode == dnscheck.ModeAuthority && w.liar != home
	return w.published.Load() && (byServers || !w.behind.Load())
}

// judged makes a proof and compares its verdict with the state of the world.
func (w *hostileWorld) judged(which string, prove func() dnscheck.Verdict) dnscheck.Verdict {
	w.served.Store(false)
	w.resolved.Store(false)
	v := prove()
	switch published := w.published.Load(); {
	case v.State == dnscheck.Present && (!published || !w.resolved.Load() ||
		(!w.served.Load() && w.config.Mode == dnscheck.ModeAuthority && w.liar != home)):
		w.t.Errorf("%s, %s: present, though published %t, served %t, resolved %t: %+v", which, w.layout, published,
			w.served.Load(), w.resolved.Load(), v)
	case v.State == dnscheck.Absent && w.isSeen() && (w.liar != home || w.config.Mode == dnscheck.ModeResolvers):
		w.t.Errorf("%s, %s: absent, though published: %+v", which, w.layout, v)
	case w.calm && published && v.State != dnscheck.Present, w.calm && !published && v.State != dnscheck.Absent:
		w.t.Errorf("%s, %s: %s (%s) in a calm world, published %t: %+v", which, w.layout, v.State, v.Reason, published, v)
	}
	return v
}
