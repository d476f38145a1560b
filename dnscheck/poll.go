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
	byAddr map[netip.Addr]addressQuery // servers may share an address
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
	q := &zoneQuery{walk: w, zone: zone, name: name, byAddr: make(map[netip.Addr]addressQuery)}
	// Never blocks: two for each address that firstAddrs returns.
	q.answers = make(chan serverAnswer, 2*len(zone.servers)*4*maxAddrs)
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
		conflict := !w.thorough && p.disagree() && !p.any(func(a serverAnswer) bool { return a.pending })
		if _, confirmed := p.delegation(); conflict || majorityDecides && confirmed {
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

// addressQuery is the query of an address, and the one that confirms its answer; each is sent once.
type addressQuery struct{ first, confirmed func() serverAnswer }

// queryOnce queries an address once for all servers that share it. A denial is pending, and no
// conflict yet, until it is confirmed.
func (q *zoneQuery) queryOnce(ctx context.Context, server int, addr netip.Addr) (useful bool) {
	q.mu.Lock()
	query, known := q.byAddr[addr]
	if !known {
		query.first = sync.OnceValue(func() serverAnswer { return q.queryAddress(ctx, addr) })
		query.confirmed = sync.OnceValue(func() serverAnswer { return q.confirm(ctx, addr, dns.TypeTXT, query.first()) })
		q.byAddr[addr] = query
	}
	q.mu.Unlock()
	a := query.first()
	if !q.isLookup() && a.unconfirmed() {
		a.pending = true
		q.answers <- q.observed(server, a)
		a = query.confirmed()
	}
	if useful = a.isUseful(); useful || ctx.Err() == nil {
		q.answers <- q.observed(server, a)
	}
	return useful
}

func (q *zoneQuery) queryAddress(ctx context.Context, addr netip.Addr) serverAnswer {
	if !q.isLookup() {
		return q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: dns.TypeTXT, nonRecursive: true})
	}
	a := q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: dns.TypeA, nonRecursive: true})
	if a.unconfirmed() {
		a = q.confirm(ctx, addr, dns.TypeA, a)
	}
	if a.finding.state != Unknown && a.finding.reason != ReasonNoName {
		six := q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: dns.TypeAAAA, nonRecursive: true})
		a.addrs, a.ttl = append(a.addrs, six.addrs...), min(a.ttl, max(six.ttl, notFoundTTL))
	}
	return a
}

// confirm queries an address again in the given letters. Some servers compare letters exactly, and
// have no name in random ones. Forgery is easier then, so that another answer has to come over TCP.
func (q *zoneQuery) confirm(ctx context.Context, addr netip.Addr, kind uint16, no serverAnswer) serverAnswer {
	again := query{name: q.name, kind: kind, nonRecursive: true, given: true}
	a := q.queryOver(ctx, addr, transportUDP, again)
	if a.replied() && (!a.unconfirmed() || a.finding.state != no.finding.state) {
		a = q.queryOver(ctx, addr, transportTCP, again)
	}
	a.observation.Took += no.observation.Took
	return a
}

func (q *zoneQuery) queryOver(ctx context.Context, addr netip.Addr, transport string, query query) serverAnswer {
	start := time.Now()
	to := Resolver{Addr: netip.AddrPortFrom(addr, q.port), Transport: transportUDP}
	m, transport, err := q.limited.query(ctx, to, transport, query)
	o := Observation{Address: to.Addr.String(), Transport: transport, Authority: true, Took: time.Since(start)}
	if err != nil {
		return serverAnswer{finding: exchangeFailure(err), observation: o}
	}
	a := readServerAnswer(m, q.zone.name, q.name, query.kind, q.token)
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

// add adds an answer, which replaces the pending one of its server and address.
func (p *zonePoll) add(a serverAnswer) {
	p.answers = append(slices.DeleteFunc(p.answers, func(b serverAnswer) bool {
		return b.pending && b.server == a.server && b.observation.Address == a.observation.Address
	}), a)
}

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
		if a.observation.Address == "" || a.pending {
			continue
		}
		allServers[a.server], allAddrs[a.observation.Address] = true, true
		if is(a) {
			someServers[a.server], someAddrs[a.observation.Address] = true, true
		}
	}
	return len(someServers), len(someAddrs), min(p.zone.named, len(allAddrs)+p.zone.named-len(allServers))
}

func (p *zonePoll) answered() int {
	servers, addrs, _ := p.count(serverAnswer.isUseful)
	return min(servers, addrs)
}

// shortage returns the reason of too few answers: ReasonTooFew, unless those of servers that have
// an alias for a name, or of those that only IPv6 leads to, would make a majority. They are not
// left out of the count instead: an attacker with a minority would become a majority.
func (p *zonePoll) shortage() Reason {
	for _, reason := range []Reason{ReasonServerAlias, ReasonNoIPv6} {
		enough, otherwise := make(map[int]bool), make(map[int]bool)
		for _, a := range p.answers {
			switch {
			case a.isUseful():
				enough[a.server] = true
			case a.finding.reason != reason:
				otherwise[a.server] = true
			}
		}
		useful := len(enough)
		for _, a := range p.answers {
			if a.finding.reason == reason && !otherwise[a.server] {
				enough[a.server] = true
			}
		}
		if len(enough) > useful && 2*len(enough) > p.zone.named {
			return reason
		}
	}
	return ReasonTooFew
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
