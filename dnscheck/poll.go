package dnscheck

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// gracePeriod is for how long other servers are waited for once a majority has answered.
const gracePeriod = 500 * time.Millisecond

// zoneQuery queries the servers of one zone for one name, each address once.
type zoneQuery struct {
	*walk
	zone    delegation
	name    string
	answers chan serverAnswer

	mu     sync.Mutex
	byAddr map[netip.Addr]func() serverAnswer // servers may share an address
}

// poll queries each server of a zone at all of its addresses at once. It returns at a
// conflict, when all have answered, or a grace period after a majority has; for a disproof
// only when none is pending. A registry's servers hold nothing of the zones below, so that a
// majority's referral is enough.
func (w *walk) poll(ctx context.Context, zone delegation, name string) *zonePoll {
	ctx, cancel := context.WithCancel(ctx)
	var queries sync.WaitGroup
	defer queries.Wait()
	defer cancel()
	q := &zoneQuery{walk: w, zone: zone, name: name, byAddr: make(map[netip.Addr]func() serverAnswer)}
	q.answers = make(chan serverAnswer, len(zone.servers)*4*maxAddrs) // as many as firstAddrs returns: never blocks
	for server := range zone.servers {
		queries.Go(func() { q.queryServer(ctx, server) })
	}
	go func() {
		queries.Wait()
		close(q.answers)
	}()
	p := &zonePoll{zone: zone, lookup: w.isLookup()}
	majorityDecides := isRegistry(zone.name) || p.lookup
	var grace <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return p.drain(q.answers)
		case <-grace:
			return p.drain(q.answers)
		case a, ok := <-q.answers:
			if !ok {
				return p
			}
			p.add(a)
		}
		if _, confirmed := p.delegation(); !w.thorough && p.disagree() || majorityDecides && confirmed {
			return p
		}
		if grace == nil && !w.thorough && p.majority(serverAnswer.isUseful) {
			grace = time.After(gracePeriod)
		}
	}
}

// queryServer queries all addresses of one server at once, since their answers may differ, but
// those of a registry, or for another server's address, one after another until one has a useful
// answer.
func (q *zoneQuery) queryServer(ctx context.Context, server int) {
	addrs, err := q.addressesOf(ctx, q.zone.name, q.zone.servers[server])
	if err != nil {
		q.answers <- q.observed(server, serverAnswer{finding: exchangeFailure(err),
			observation: Observation{Authority: true}})
		return
	}
	var queries sync.WaitGroup
	defer queries.Wait()
	for _, addr := range addrs {
		if !isRegistry(q.zone.name) && !q.isLookup() {
			queries.Go(func() { q.queryOnce(ctx, server, addr) })
		} else if q.queryOnce(ctx, server, addr) {
			return
		}
	}
}

// queryOnce queries an address once for all servers that share it.
func (q *zoneQuery) queryOnce(ctx context.Context, server int, addr netip.Addr) (useful bool) {
	q.mu.Lock()
	if q.byAddr[addr] == nil {
		q.byAddr[addr] = sync.OnceValue(func() serverAnswer { return q.queryAddress(ctx, addr) })
	}
	query := q.byAddr[addr]
	q.mu.Unlock()
	a := query()
	if useful = a.isUseful(); useful || ctx.Err() == nil {
		q.answers <- q.observed(server, a)
	}
	return useful
}

func (q *zoneQuery) queryAddress(ctx context.Context, addr netip.Addr) serverAnswer {
	if !q.isLookup() {
		return q.queryKind(ctx, addr, dns.TypeTXT)
	}
	a := q.queryKind(ctx, addr, dns.TypeA)
	if a.finding.state != Unknown && a.finding.reason != ReasonNoName {
		six := q.queryKind(ctx, addr, dns.TypeAAAA)
		a.addrs, a.ttl = append(a.addrs, six.addrs...), min(a.ttl, max(six.ttl, notFoundTTL))
	}
	return a
}

func (q *zoneQuery) queryKind(ctx context.Context, addr netip.Addr, kind uint16) serverAnswer {
	start := time.Now()
	to := Resolver{Addr: netip.AddrPortFrom(addr, q.port), Transport: transportUDP}
	m, transport, err := q.limited.query(ctx, to, transportUDP, query{name: q.name, kind: kind, nonRecursive: true})
	o := Observation{Address: to.Addr.String(), Transport: transport, Authority: true, Took: time.Since(start)}
	if err != nil {
		return serverAnswer{finding: exchangeFailure(err), observation: o}
	}
	a := readServerAnswer(m, q.zone.name, q.name, kind, q.token)
	if q.thorough && a.alias == "" {
		a.finding = a.finding.requireNoToken(m, q.token)
	}
	o.RCode, o.EDE = m.rcodeName(), m.errorText()
	a.observation = o
	return a
}

// observed completes the observation of a server's answer.
func (q *zoneQuery) observed(server int, a serverAnswer) serverAnswer {
	a.server, a.observation = server, a.observation.with(a.finding)
	a.observation.Resolver = shownHost(unrooted(q.zone.servers[server].name))
	if a.isReferral() {
		a.observation.Reason = ReasonReferral
	}
	if a.isAlias() {
		a.observation.Reason, a.observation.Aliases = ReasonAlias, []string{unrooted(a.alias)}
	}
	return a
}

type zonePoll struct {
	zone     delegation
	answers  []serverAnswer
	timedOut bool // servers may be missing
	lookup   bool // for a name server's addresses: a majority decides, whatever the others answer
}

func (p *zonePoll) add(a serverAnswer) {
	p.answers = append(p.answers, a)
}

// drain adds the answers that have arrived.
func (p *zonePoll) drain(answers <-chan serverAnswer) *zonePoll {
	for len(answers) > 0 {
		p.add(<-answers)
	}
	return p
}

func (p *zonePoll) any(is func(serverAnswer) bool) bool { return slices.ContainsFunc(p.answers, is) }

// kinds returns the kinds of answers that the servers gave: the token, a denial, a referral, and
// the targets of aliases that differ.
func (p *zonePoll) kinds() (yes, no, refers bool, aliases []string) {
	for _, a := range p.answers {
		if a.isAlias() && !slices.ContainsFunc(aliases, func(other string) bool { return sameName(a.alias, other) }) {
			aliases = append(aliases, a.alias)
		}
	}
	return p.any(serverAnswer.hasToken), p.any(serverAnswer.denies), p.any(serverAnswer.isReferral), aliases
}

// disagree reports whether two answers exclude each other. The token at one server and the
// referral of another one do not: the first may hold the zone below as well.
func (p *zonePoll) disagree() bool {
	yes, no, refers, aliases := p.kinds()
	return !p.lookup && (no && (yes || refers || len(aliases) > 0) || len(aliases) > 1 ||
		len(aliases) > 0 && (yes || refers))
}

// majority reports whether answers of one kind came from more than half of all servers of the zone.
//
// A server is a name in the delegation and counts once: its owner can give it any number of
// addresses. The answers must also come from more than half as many addresses: one machine
// with several names counts once. (It cannot be more than half of all addresses: without IPv6
// half of them cannot be reached.)
func (p *zonePoll) majority(is func(serverAnswer) bool) bool {
	agreed, addrs, possible := p.count(is)
	return 2*agreed > p.zone.named && 2*addrs > possible
}

// count returns the number of servers and of addresses with answers of one kind, and how many
// addresses the servers have: at most one each, and one for each without a known address.
func (p *zonePoll) count(is func(serverAnswer) bool) (agreed, addrs, possible int) {
	allServers, allAddrs := make(map[int]bool), make(map[string]bool)
	someServers, someAddrs := make(map[int]bool), make(map[string]bool)
	for _, a := range p.answers {
		if a.observation.Address == "" {
			continue
		}
		allServers[a.server], allAddrs[a.observation.Address] = true, true
		if is(a) {
			someServers[a.server], someAddrs[a.observation.Address] = true, true
		}
	}
	return len(someServers), len(someAddrs), min(p.zone.named, len(allAddrs)+p.zone.named-len(allServers))
}

// answered returns how many of the zone's servers have answered.
func (p *zonePoll) answered() int {
	servers, addrs, _ := p.count(serverAnswer.isUseful)
	return min(servers, addrs)
}

// delegation returns the zone below to which the servers refer, each of its servers with the
// addresses (glue) that a majority gave. confirmed: a majority gave it, so that it may be cached.
// Otherwise it is followed if all referrals are the same, and the servers that gave it are a
// majority together with those that have the token, which may hold the zone below as well. nil:
// there is none to follow.
func (p *zonePoll) delegation() (down *delegation, confirmed bool) {
	var given []*delegation // that differ
	for _, a := range p.answers {
		if a.down != nil && !slices.ContainsFunc(given, a.down.isSame) {
			given = append(given, a.down)
		}
	}
	var gave func(serverAnswer) bool
	for _, d := range given {
		if gave = func(a serverAnswer) bool { return d.isSame(a.down) }; p.majority(gave) {
			down, confirmed = d, true
			break
		}
	}
	if len(given) == 1 && !confirmed && !p.lookup {
		gave = func(a serverAnswer) bool { return a.down != nil || a.hasToken() }
		if p.majority(gave) {
			down = given[0]
		}
	}
	if down == nil {
		return nil, false
	}
	named := down.servers
	down = new(*down)
	down.servers = nil
	for _, server := range named {
		var glue []netip.Addr
		for _, a := range p.answers {
			if down.isSame(a.down) {
				down.ttl = min(down.ttl, a.down.ttl)
				glue = append(glue, a.down.glueOf(server.name)...)
			}
		}
		glue = p.agreed(glue, func(a serverAnswer, addr netip.Addr) bool {
			return gave(a) && (a.down == nil || slices.Contains(a.down.glueOf(server.name), addr))
		})
		down.servers = append(down.servers, nameServer{name: server.name, glue: glue})
	}
	return down, confirmed
}

// agreed returns those of the addresses that a majority of the servers gave.
func (p *zonePoll) agreed(addrs []netip.Addr, gave func(serverAnswer, netip.Addr) bool) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return firstAddrs(slices.DeleteFunc(slices.Compact(addrs), func(addr netip.Addr) bool {
		return !p.majority(func(a serverAnswer) bool { return gave(a, addr) })
	}))
}

// addresses returns the addresses that a majority of the servers gave for the name.
func (p *zonePoll) addresses() (addrs []netip.Addr, ttl time.Duration) {
	ttl = longestTTL
	for _, a := range p.answers {
		if addrs = append(addrs, a.addrs...); len(a.addrs) > 0 {
			ttl = min(ttl, a.ttl)
		}
	}
	return p.agreed(addrs, func(a serverAnswer, addr netip.Addr) bool { return slices.Contains(a.addrs, addr) }), ttl
}

// contradiction returns the reason of a contradictory answer; empty: none is.
func (p *zonePoll) contradiction() Reason {
	for _, a := range p.answers {
		if !a.isAlias() && a.observation.isContradiction() {
			return a.observation.Reason
		}
	}
	return ""
}

// incomplete reports whether answers are missing because of our own limits.
func (p *zonePoll) incomplete() bool { return p.timedOut || p.spent() }

func (p *zonePoll) spent() bool {
	return p.any(func(a serverAnswer) bool {
		return errors.Is(a.finding.err, errSpent) || errors.Is(a.finding.err, errAbandoned)
	})
}

func (p *zonePoll) firstError() string {
	for _, a := range p.answers {
		if a.finding.err != nil {
			return a.observation.Resolver + ": " + strings.ReplaceAll(a.finding.err.Error(), "\n", ": ")
		}
	}
	return "none answered in time"
}
