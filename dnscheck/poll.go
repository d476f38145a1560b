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

	"orgops/dnscheck/dnsname"
)

// gracePeriod is for how long other servers are waited for once a majority has answered.
const gracePeriod = 500 * time.Millisecond

// zoneQuery queries the servers of one zone for one name, each address once.
type zoneQuery struct {
	*walk
	zone    delegation
	name    string
	kind    uint16 // TXT; A, with AAAA; or NS
	answers chan serverAnswer

	mu     sync.Mutex
	byAddr map[netip.Addr]addressQuery // servers may share an address
}

// poll queries all servers of a zone at once. How long it waits is the only difference between
// zones, and between a check, a proof and a disproof: in a registry's zone, which holds neither
// token nor alias, and for a name server's address, until a majority has given the same, so that a
// minority prevents nothing; in others until the answers conflict or
//
//   - for a check, until a grace period after a majority has answered;
//   - for a proof, until each server has a usable answer from one of its addresses, or has failed;
//   - for a disproof, which no conflict ends, until each address has answered or failed.
func (w *walk) poll(ctx context.Context, zone delegation, name string, kind uint16) *zonePoll {
	ctx, cancel := context.WithCancel(ctx)
	var queries sync.WaitGroup
	defer queries.Wait()
	defer cancel()
	q := &zoneQuery{walk: w, zone: zone, name: name, kind: kind, byAddr: make(map[netip.Addr]addressQuery)}
	// Never blocks: two for each address that firstAddrs returns, and one for each server's end.
	q.answers = make(chan serverAnswer, len(zone.servers)*(2*4*maxAddrs+1))
	for server := range zone.servers {
		queries.Go(func() {
			q.queryServer(ctx, server)
			q.answers <- serverAnswer{server: server, last: true}
		})
	}
	go func() {
		queries.Wait()
		close(q.answers)
	}()
	p := &zonePoll{
		zone: zone, byMajority: isRegistry(zone.name) || w.isLookup() || kind == dns.TypeNS, ended: make(map[int]bool),
	}
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
		switch pending := p.any(func(a serverAnswer) bool { return a.pending }); {
		case p.byMajority:
			if p.decided() {
				return p
			}
		case w.thorough:
		case !pending && p.disagree():
			return p
		case w.waits:
			if !pending && p.complete() {
				return p
			}
		case grace == nil && p.majority(serverAnswer.isUseful):
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
		} else if q.queryOnce(ctx, server, addr) || ctx.Err() != nil {
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
		query.confirmed = sync.OnceValue(func() serverAnswer { return q.confirm(ctx, addr, q.kind, query.first()) })
		q.byAddr[addr] = query
	}
	q.mu.Unlock()
	a := query.first()
	if q.kind != dns.TypeA && a.unconfirmed() {
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
	if q.kind != dns.TypeA {
		return q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: q.kind, nonRecursive: true})
	}
	a := q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: dns.TypeA, nonRecursive: true})
	if a.unconfirmed() {
		a = q.confirm(ctx, addr, dns.TypeA, a)
	}
	if a.finding.state != Unknown && a.finding.reason != ReasonNoName {
		six := q.queryOver(ctx, addr, transportUDP, query{name: q.name, kind: dns.TypeAAAA, nonRecursive: true})
		a.addrs = append(a.addrs, six.addrs...)
		a.ttl = min(a.ttl, max(six.ttl, notFoundTTL))
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
	o.RCode = m.rcodeName()
	o.EDE = m.errorText()
	a.observation = o
	return a
}

// observed completes the observation of a server's answer.
func (q *zoneQuery) observed(server int, a serverAnswer) serverAnswer {
	a.server = server
	a.observation = a.observation.with(a.finding)
	a.observation.Resolver = dnsname.Shown(dnsname.Unrooted(q.zone.servers[server].name))
	if a.isReferral() {
		a.observation.Reason = ReasonReferral
	}
	if a.isAlias() {
		a.observation.Reason = ReasonAlias
		a.observation.Aliases = []string{dnsname.Unrooted(a.alias)}
	}
	return a
}

type zonePoll struct {
	zone     delegation
	answers  []serverAnswer
	ended    map[int]bool // the servers of which no more answers come
	timedOut bool         // servers may be missing
	// byMajority: only what a majority gives counts, whatever the others answer
	byMajority bool
	// cut is the poll for the NS records of the zone below, if some servers refer to it and others
	// hold it as well, or refer to one further down; nil: none was needed
	cut *zonePoll
}

// add adds an answer, which replaces the pending one of its server and address.
func (p *zonePoll) add(a serverAnswer) {
	if a.last {
		p.ended[a.server] = true
		return
	}
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
	gave := p.any
	if p.byMajority {
		gave = p.majority
	}
	for _, a := range p.answers {
		isTarget := func(target string) bool { return dnsname.Same(a.alias, target) }
		if a.isAlias() && !slices.ContainsFunc(aliases, isTarget) &&
			gave(func(b serverAnswer) bool { return b.isAlias() && dnsname.Same(a.alias, b.alias) }) {
			aliases = append(aliases, a.alias)
		}
	}
	return gave(serverAnswer.hasToken), gave(serverAnswer.denies), gave(serverAnswer.isReferral), aliases
}

// disagree reports whether two answers exclude each other. The token at one server and the
// referral of another one do not: the first may hold the zone below as well.
func (p *zonePoll) disagree() bool {
	yes, no, refers, aliases := p.kinds()
	return (no && (yes || refers || len(aliases) > 0)) || len(aliases) > 1 || (len(aliases) > 0 && (yes || refers))
}

// decided reports whether a majority has given the same, with the same addresses if any were given.
func (p *zonePoll) decided() bool {
	if down := p.delegation(); down != nil {
		return !slices.ContainsFunc(down.servers, func(server nameServer) bool {
			given := func(a serverAnswer) bool { return a.down.hasAddress(server.name) }
			return len(server.glue)+len(server.spare) == 0 && p.any(given)
		})
	}
	if p.any(func(a serverAnswer) bool { return len(a.addrs) > 0 }) {
		addrs, _ := p.addresses()
		return len(addrs) > 0
	}
	yes, no, _, aliases := p.kinds()
	return yes || no || len(aliases) > 0
}

// complete reports whether each server has a usable answer, or has failed.
func (p *zonePoll) complete() bool {
	useful := make(map[int]bool)
	for _, a := range p.answers {
		if a.isUseful() {
			useful[a.server] = true
		}
	}
	for server := range p.zone.servers {
		if !useful[server] && !p.ended[server] {
			return false
		}
	}
	return true
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
	allServers := make(map[int]bool)
	allAddrs := make(map[string]bool)
	someServers := make(map[int]bool)
	someAddrs := make(map[string]bool)
	for _, a := range p.answers {
		if a.observation.Address == "" || a.pending {
			continue
		}
		allServers[a.server] = true
		allAddrs[a.observation.Address] = true
		if is(a) {
			someServers[a.server] = true
			someAddrs[a.observation.Address] = true
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
		enough := make(map[int]bool)
		otherwise := make(map[int]bool)
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

// delegation returns the zone below to which a majority of the servers refers, each of its servers
// with the addresses (glue) that a majority gave; nil: there is none.
func (p *zonePoll) delegation() *delegation {
	var given []*delegation // that differ
	for _, a := range p.answers {
		if a.down != nil && !slices.ContainsFunc(given, a.down.isSame) {
			given = append(given, a.down)
		}
	}
	for _, d := range given {
		if p.majority(func(a serverAnswer) bool { return d.isSame(a.down) }) {
			return p.withGlue(d)
		}
	}
	if p.cut != nil {
		return p.cut.delegation()
	}
	return nil
}

func (p *zonePoll) withGlue(given *delegation) *delegation {
	down := new(*given)
	down.servers = nil
	for i, server := range given.servers {
		gave := func(of func(nameServer) []netip.Addr) []netip.Addr {
			var addrs []netip.Addr
			for _, a := range p.answers {
				if given.isSame(a.down) {
					addrs = append(addrs, of(a.down.servers[i])...) // of the same names the same are chosen
				}
			}
			return p.agreed(addrs, func(a serverAnswer, addr netip.Addr) bool {
				return given.isSame(a.down) && slices.Contains(of(a.down.servers[i]), addr)
			})
		}
		down.servers = append(down.servers, nameServer{
			name:  server.name,
			glue:  gave(func(s nameServer) []netip.Addr { return s.glue }),
			spare: gave(func(s nameServer) []netip.Addr { return s.spare }),
		})
	}
	for _, a := range p.answers {
		if given.isSame(a.down) {
			down.ttl = min(down.ttl, a.down.ttl)
		}
	}
	return down
}

// doubtfulCut returns the highest zone below to which some servers refer and others do not: these
// may hold it as well, and have answered from it, or have referred to one further down. Empty:
// there is none, or a majority refers to the same servers.
func (p *zonePoll) doubtfulCut() string {
	cut := ""
	same := true // no server has a definite answer of its own, or refers to another zone
	for _, a := range p.answers {
		switch {
		case a.down == nil:
			same = same && !a.definite()
		case cut == "":
			cut = a.down.name
		default:
			same = same && cut == a.down.name
			if dns.CountLabel(a.down.name) < dns.CountLabel(cut) {
				cut = a.down.name
			}
		}
	}
	if same || p.disagree() || p.delegation() != nil {
		return ""
	}
	return cut
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
