package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// authorityTime bounds all of what one verdict asks of name servers: a walk over five zones at a second's distance, or
	// through two of which half the servers are silent.
	authorityTime = 5 * time.Second
	// disproofTime is the same for a disproof, which waits for each server's own time to be up: three zones with a silent server
	// each, at both transports, and the ways there.
	disproofTime = 10 * time.Second
	// authorityAttempt is how long one name server may take over one transport: three times the longest way around the
	// earth. A lost datagram is made up for by TCP after it.
	authorityAttempt = time.Second
	// grace is how long the rest of a zone's servers may still take once a majority has answered.
	grace = 500 * time.Millisecond
	// maxReferrals bounds the way down to one name: zones below zones below a top-level domain; four are many.
	maxReferrals = 12
	// maxQueries bounds the queries to name servers of one verdict, each attempt counted: five zones of 8 servers with 4 addresses
	// each (three below each other, and two behind an alias), and the registries above them. A stranger's delegation is
	// followed no further.
	maxQueries = 200
	// maxLookups bounds for how many name servers' addresses the resolvers are asked for one verdict: those of five zones of
	// 8 servers, and of the registries above them, with nothing cached.
	maxLookups = 48
	// maxShown is how many observations of name servers are kept as evidence.
	maxShown = 16
)

var (
	// errSpent: the verdict has used up its queries.
	errSpent = errors.New("the delegation needs more queries than one check may send")
	// errTimeUp: authorityTime is over, which says something of the servers; that the asker's own time is over does not.
	errTimeUp = errors.New("the time for querying the name servers is over")
)

// spending opens connections as long as the number of queries lasts: each carries one.
type spending struct {
	dialer
	queries *atomic.Int64
}

func (s spending) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if s.queries.Add(-1) < 0 {
		return nil, errSpent
	}
	return s.dialer.DialContext(ctx, network, address)
}

// authority is the view of the zone's own name servers, found from the top-level domain downward.
type authority struct {
	panel                // for the names of name servers, never for the host
	exchange   *exchange // straight to name servers
	port       uint16
	anyAddress bool // also those that are not public unicast
	cuts       *memory[delegation]
	hosts      *memory[[]netip.Addr]
	reach      reach
}

// word is what the name servers have said: State, Reason, Observations (at most maxShown), Note, Operator, and how many answered.
type word struct {
	Verdict

	heard bool // at least one has said yes or no with authority, or has referred to a zone below
	shut  bool // no name server at all can be reached from here, as far as a look, a proof or a disproof believes it
	thin  bool // of a proof: too few servers have answered, all of those have the token, and the others are silent
}

// purpose is what the name servers are asked for.
type purpose int

const (
	forLook purpose = iota
	forProof
	forDisproof
)

// inquiry is what one verdict asks of name servers.
type inquiry struct {
	*authority
	token    string
	path     *trail
	straight *exchange // as far as its queries last
	queries  atomic.Int64
	lookups  atomic.Int64
	seed     maphash.Seed
	operator string // of the lowest zone on the way to the host, before any alias

	proof    bool          // a yes, and an alias on the way to it, take a majority of the servers
	thorough bool          // for a disproof: nothing is remembered of the way below the top-level domain, and all are heard out
	sighted  []Observation // of the token, at servers that another one's referral has led away from
	doubt    Reason        // why one server's answer on the way is a contradiction; empty: none is
	shut     bool          // a registry's servers were silent, and no others have answered lately
}

// inquire begins an inquiry, with budgets of its own.
func (a *authority) inquire(host, token string, p purpose) *inquiry {
	q := &inquiry{
		authority: a, token: token, path: newTrail(host), seed: maphash.MakeSeed(), proof: p == forProof, thorough: p == forDisproof,
	}
	q.queries.Store(maxQueries)
	q.lookups.Store(maxLookups)
	q.straight = a.exchange.through(spending{a.exchange.dialer, &q.queries})
	return q
}

// consult asks the name servers of the host's zone. It returns a word unless ctx ends. In a disproof each server is waited
// for, and each sighting counts. That port 53 is closed a proof finds out by itself: others may have found so at servers
// that an attacker has silenced.
func (a *authority) consult(ctx context.Context, host, token string, p purpose, told func(Observation)) (word, error) {
	if p == forLook || p == forDisproof && a.reach.isSurelyShut(time.Now()) {
		if why := a.reach.shut(time.Now()); why != "" {
			return word{Verdict: Verdict{Host: host, Basis: ByAuthority, Reason: ReasonUnreachable, Note: why}, shut: true}, nil
		}
	}
	limit := authorityTime
	if p == forDisproof {
		limit = disproofTime
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	q := a.inquire(host, token, p)
	w := q.follow(limited)
	if ctx.Err() != nil {
		return word{}, ended(ctx, host)
	}
	w.Host, w.Basis, w.Operator = host, ByAuthority, q.operator
	if q.thorough {
		if len(q.sighted) > 0 {
			w.State, w.Reason, w.heard = Present, ReasonFound, true
			w.Observations = slices.Concat(q.sighted, w.Observations)
		}
		slices.SortStableFunc(w.Observations, sightingsFirst) // so that none is left out
		w.shut = !w.heard && a.reach.isSurelyShut(time.Now())
	}
	if told != nil {
		for _, o := range w.Observations {
			told(o)
		}
	}
	w.Observations = w.Observations[:min(len(w.Observations), maxShown)]
	return w, nil
}

func sightingsFirst(a, b Observation) int { return cmp.Compare(b.State, a.State) }

// follow asks at the host's zone, and where there is an alias at the zone that its target lies in.
func (q *inquiry) follow(ctx context.Context) word {
	sure := true
	for {
		p, err := q.descend(ctx, q.path.at)
		if err != nil {
			note := cmp.Or(q.reach.blame(), err.Error())
			return word{Verdict: Verdict{Reason: unheard(err).reason, Note: note, Observations: q.observe(p)}, shut: q.shut}
		}
		sure = sure && p.majority(len(p.zone.servers), statement.definite) && (!q.thorough || !p.incomplete())
		if p.alias == "" || p.conflict() || q.proof && !p.majority(p.zone.named, statement.isAlias) {
			return q.wordOf(p, sure)
		}
		if err := q.path.step(p.alias); err != nil {
			return word{Verdict: Verdict{Reason: ReasonAlias, Note: err.Error(), Observations: q.observe(p)}, heard: true}
		}
	}
}

// errTooDeep: the way down does not end.
var errTooDeep = &exchangeError{reason: ReasonDelegation, err: fmt.Errorf("more than %d referrals on the way down", maxReferrals)}

// wordOf decides what the answers of a zone's servers amount to. One no next to a yes, an alias or a referral is a disagreement.
// A no counts when a majority of the servers has answered. A yes counts in a proof only if a majority gave it, for whoever holds
// one server may be able to silence the others; in a look always, for a proof follows it.
func (q *inquiry) wordOf(p *poll, sure bool) word {
	w := word{heard: p.any(statement.leads)}
	w.Observations = q.observe(p)
	w.Zone, w.Servers, w.Answered = shownHost(unrooted(p.zone.zone)), p.zone.named, p.answered()
	few := fmt.Sprintf("%d of the %d name servers of %s have answered", w.Answered, w.Servers, w.Zone)
	switch {
	case p.conflict() && (!q.thorough || !p.any(statement.isYes)):
		w.Reason = ReasonServersDisagree
	case p.any(statement.isYes) && (!q.proof || p.majority(p.zone.named, statement.isYes)):
		w.State, w.Reason = Present, ReasonFound
	case q.doubt != "":
		w.Reason = q.doubt
	case p.any(statement.isNo) && sure:
		w.State, w.Reason = Absent, reasonOf(Absent, w.Observations)
	case p.any(statement.isNo):
		w.Reason, w.Note = failedOf(w.Observations), few
	case p.majority(p.zone.named, statement.leads): // to one place each, and no majority to the same
		w.Reason = ReasonServersDisagree
	default:
		w.Reason, w.Note = ReasonTooFew, few
		w.thin = len(q.path.aliases) == 0 && p.isThin()
	}
	return w
}

// failedOf is the reason why servers gave no answer.
func failedOf(observations []Observation) Reason {
	failed := slices.DeleteFunc(slices.Clone(observations), func(o Observation) bool { return o.State != Unknown || o.Reason == ReasonReferral })
	if len(failed) == 0 {
		return ReasonTimeout
	}
	return reasonOf(Unknown, failed)
}

// observe returns what the servers were seen to say, with the aliases on the way to them.
func (q *inquiry) observe(p *poll) (seen []Observation) {
	if p == nil {
		return nil
	}
	for _, h := range p.heard {
		h.observation.Aliases = slices.Concat(q.path.aliases, h.observation.Aliases)
		seen = append(seen, h.observation)
	}
	return seen
}

// overhear keeps what counts for a disproof wherever on the way it is said. away: a referral of other servers is followed.
func (q *inquiry) overhear(p *poll, away bool) {
	q.doubt = cmp.Or(q.doubt, p.contradiction())
	if away {
		q.sighted = append(q.sighted, slices.DeleteFunc(q.observe(p), func(o Observation) bool { return o.State != Present })...)
	}
}

// descend goes from the nearest zone that is known down to the one that the name lies in, and hears its servers.
func (q *inquiry) descend(ctx context.Context, name string) (*poll, error) {
	if at, known := q.nearest(name); known && !q.thorough {
		p, err := q.descendFrom(ctx, at, name)
		if err == nil || dns.CountLabel(at.zone) == 1 || errors.Is(err, errTooDeep) || ctx.Err() != nil {
			return p, err
		}
		// The zone may have moved to other servers: from the top once more.
	}
	at, err := q.top(ctx, name)
	if err != nil {
		return nil, err
	}
	return q.descendFrom(ctx, at, name)
}

func (q *inquiry) descendFrom(ctx context.Context, at delegation, name string) (*poll, error) {
	for range maxReferrals {
		if at.operator != "" && len(q.path.aliases) == 0 {
			q.operator = at.operator
		}
		p := q.hear(ctx, at, name)
		p.cut = ctx.Err() != nil
		q.note(ctx, p)
		down, ttl, confirmed := p.delegation()
		away := down != nil && !p.conflict()
		if q.thorough {
			q.overhear(p, away)
		}
		switch {
		case away:
			if confirmed {
				q.cuts.put(down.zone, *down, ttl)
			}
			at = *down
		case !p.any(statement.leads):
			err := fmt.Errorf("no name server of %s answered with authority: %s", shownHost(unrooted(at.zone)), p.firstError())
			return p, &exchangeError{reason: failedOf(q.observe(p)), err: err}
		default:
			return p, nil
		}
	}
	return nil, errTooDeep
}

// nearest finds the lowest zone above the name whose servers are remembered.
func (q *inquiry) nearest(name string) (delegation, bool) {
	name = canonical(name)
	for _, off := range dns.Split(name) {
		if d, ok := q.cuts.get(name[off:]); ok && len(d.servers) > 0 {
			return d, true
		}
	}
	return delegation{}, false
}

// note keeps what a zone's servers tell of the way: whether any is within reach, and that those of this zone are of no use.
func (q *inquiry) note(ctx context.Context, p *poll) {
	if p.any(statement.leads) {
		q.reach.opened(time.Now())
		return
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeUp) || p.spent() {
		return // it is the caller who gave up
	}
	q.cuts.forget(p.zone.zone)
	addressed := func(h heard) bool { return h.observation.Address != "" }
	if dns.CountLabel(p.zone.zone) == 1 && slices.ContainsFunc(p.heard, addressed) {
		why := "cannot be reached: is port 53 outwards open?"
		if p.any(statement.isLame) {
			why = "cannot be reached: another server answers in their place: port 53 is redirected on the way."
		}
		q.shut = q.reach.silent(time.Now(), "the name servers of "+shownHost(unrooted(p.zone.zone))+" "+why+" "+p.firstError())
	}
}

// hearing is one zone's servers being asked for one name, each address once.
type hearing struct {
	*inquiry
	zone delegation
	name string
	back chan heard

	mu    sync.Mutex
	asked map[netip.Addr]func() heard // two names may share an address
}

// heard is what one server said at one address; its observation has none where the server has none that can be asked.
type heard struct {
	server      int // by its place in the delegation
	said        statement
	observation Observation
}

// hear asks every server of a zone at all its addresses at once. It returns at a contradiction, when all have answered, or when
// a majority has answered and the others do not follow soon; for a disproof only when none is out any more. A registry's
// servers hold nothing of the zones below: there the referral of a majority is enough.
func (q *inquiry) hear(ctx context.Context, zone delegation, name string) *poll {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	h := &hearing{inquiry: q, zone: zone, name: name, asked: make(map[netip.Addr]func() heard)}
	h.back = make(chan heard, len(zone.servers)*2*maxAddrs) // room for all, so that none is held up by nobody listening
	for server := range zone.servers {
		asking.Go(func() { h.everywhere(ctx, server) })
	}
	go func() {
		asking.Wait()
		close(h.back)
	}()
	p := &poll{zone: zone}
	registry := isRegistrys(h.zone.zone)
	var late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return p.drain(h.back)
		case <-late:
			return p.drain(h.back)
		case one, more := <-h.back:
			if !more {
				return p
			}
			p.add(one)
		}
		if !h.thorough && p.conflict() || registry && p.isConfirmed() {
			return p
		}
		if late == nil && !h.thorough && p.majority(len(h.zone.servers), statement.leads) {
			late = time.After(grace)
		}
	}
}

// everywhere asks one server: a registry's at one address after another until it leads on, any other at all its addresses at once,
// since they may differ.
func (h *hearing) everywhere(ctx context.Context, server int) {
	addrs, err := h.addresses(ctx, h.zone.zone, h.zone.servers[server])
	if err != nil {
		reason := ReasonUnreachable
		if errors.Is(err, errSpent) {
			reason = ReasonDelegation
		}
		h.back <- h.hears(server, heard{said: says(unknown(reason, err)), observation: Observation{Authority: true}})
		return
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, addr := range addrs {
		if !isRegistrys(h.zone.zone) {
			asking.Go(func() { h.ask(ctx, server, addr) })
		} else if h.ask(ctx, server, addr) {
			return
		}
	}
}

// ask asks at one address, once for all names that share it, and reports whether what was said leads on.
func (h *hearing) ask(ctx context.Context, server int, addr netip.Addr) (leads bool) {
	h.mu.Lock()
	if h.asked[addr] == nil {
		h.asked[addr] = sync.OnceValue(func() heard { return h.question(ctx, addr) })
	}
	question := h.asked[addr]
	h.mu.Unlock()
	one := question()
	if leads = one.said.leads(); leads || ctx.Err() == nil {
		h.back <- h.hears(server, one)
	}
	return leads
}

// hears writes down who said it, and what.
func (h *hearing) hears(server int, one heard) heard {
	one.server = server
	one.observation = one.observation.with(one.said.finding)
	one.observation.Resolver = shownHost(unrooted(h.zone.servers[server].name))
	if one.said.down != nil {
		one.observation.Reason = ReasonReferral
	}
	if one.said.isAlias() {
		one.observation.Reason, one.observation.Aliases = ReasonAlias, []string{unrooted(one.said.alias)}
	}
	return one
}

func (h *hearing) question(ctx context.Context, addr netip.Addr) heard {
	began := time.Now()
	to := Resolver{Addr: netip.AddrPortFrom(addr, h.port), Transport: transportUDP}
	r, transport, err := h.straight.askFor(ctx, to, transportUDP, query{name: h.name, kind: dns.TypeTXT, straight: true})
	o := Observation{Address: to.Addr.String(), Transport: transport, Authority: true}
	var said statement
	switch {
	case errors.Is(err, errSpent):
		said = says(unknown(ReasonDelegation, err))
	case err != nil:
		said = says(unheard(err))
	default:
		said = readStatement(r, h.zone.zone, h.name, h.token, h.seed)
		if h.thorough && said.alias == "" {
			said.finding = said.finding.unlessHeld(r, h.token)
		}
		o.RCode, o.EDE = r.rcodeName(), r.errorText()
	}
	o.Took = time.Since(began)
	return heard{said: said, observation: o}
}

// poll collects what the servers of a zone answer.
type poll struct {
	zone  delegation
	heard []heard
	alias string // the first that was named
	cut   bool   // the time was up: who has not been heard may have had something to say
}

func (p *poll) add(h heard) {
	p.heard = append(p.heard, h)
	p.alias = cmp.Or(p.alias, h.said.alias)
}

func (p *poll) any(is func(statement) bool) bool {
	return slices.ContainsFunc(p.heard, func(h heard) bool { return is(h.said) })
}

// drain takes what has come in already.
func (p *poll) drain(back <-chan heard) *poll {
	for len(back) > 0 {
		p.add(<-back)
	}
	return p
}

// conflict tells whether two things have been said that cannot both be so. The token at one server does not contradict the
// referral of another one: the first may hold the zone below as well.
func (p *poll) conflict() bool {
	no, yes, alias, referral := p.any(statement.isNo), p.any(statement.isYes), p.any(statement.isAlias), p.any(statement.isReferral)
	differ := func(s statement) bool { return s.isAlias() && canonical(s.alias) != canonical(p.alias) }
	return no && (yes || alias || referral) || alias && (yes || referral) || p.any(differ)
}

// majority reports whether statements of one kind came from more than half of the servers, of which there are so many.
//
// A server is a name in the delegation, and counts once: whoever holds a single name can give it any number of addresses. The
// statements must come from more than half as many addresses, too: one machine under several names is no more than one. (Not
// from more than half of all addresses: without IPv6 half of them cannot be reached.)
func (p *poll) majority(servers int, is func(statement) bool) bool {
	agreed, addrs, possible := p.count(servers, is)
	return 2*agreed > servers && 2*addrs > possible
}

// count returns the servers and the addresses that statements of one kind came from, and how many addresses the servers have: at
// most one each, and one for each of which none is known.
func (p *poll) count(servers int, is func(statement) bool) (agreed, addrs, possible int) {
	allServers, allAddrs := make(map[int]bool), make(map[string]bool)
	thoseServers, thoseAddrs := make(map[int]bool), make(map[string]bool)
	for _, h := range p.heard {
		if h.observation.Address == "" {
			continue
		}
		allServers[h.server], allAddrs[h.observation.Address] = true, true
		if is(h.said) {
			thoseServers[h.server], thoseAddrs[h.observation.Address] = true, true
		}
	}
	return len(thoseServers), len(thoseAddrs), min(servers, len(allAddrs)+servers-len(allServers))
}

// answered is how many of the zone's servers have answered.
func (p *poll) answered() int {
	servers, addrs, _ := p.count(p.zone.named, statement.leads)
	return min(servers, addrs)
}

// delegation is the zone below that the servers refer to, with how long it may be cached; confirmed: a majority gave it, and
// only then it may be. Without such a majority it is followed if all referrals are the same, and the servers that gave it are
// a majority together with those that have the token, which may hold the zone below as well. nil: there is nothing to follow.
func (p *poll) delegation() (down *delegation, ttl time.Duration, confirmed bool) {
	var given []*delegation // that differ
	for _, h := range p.heard {
		if d := h.said.down; d != nil && !slices.ContainsFunc(given, d.isSame) {
			given = append(given, d)
		}
	}
	for _, d := range given {
		if down := p.supported(d, func(statement) bool { return false }); down != nil {
			ttl := longestMemory
			for _, s := range p.referring(d) {
				ttl = min(ttl, s.ttl)
			}
			return down, ttl, true
		}
	}
	if len(given) == 1 {
		return p.supported(given[0], statement.isYes), 0, false
	}
	return nil, 0, false
}

// isConfirmed reports whether a majority gave the same delegation.
func (p *poll) isConfirmed() bool {
	_, _, confirmed := p.delegation()
	return confirmed
}

// supported is the delegation, each name server with the addresses (glue) that a majority gave; nil where it did not give the
// delegation. Statements that agree with any delegation count for it.
func (p *poll) supported(d *delegation, agrees func(statement) bool) *delegation {
	gave := func(s statement) bool { return d.isSame(s.down) || agrees(s) }
	if !p.majority(p.zone.named, gave) {
		return nil
	}
	down := *d
	down.servers = nil
	for _, server := range d.servers {
		var glue []netip.Addr
		for _, s := range p.referring(d) {
			glue = append(glue, s.down.glueOf(server.name)...)
		}
		slices.SortFunc(glue, netip.Addr.Compare)
		glue = slices.DeleteFunc(slices.Compact(glue), func(addr netip.Addr) bool {
			return !p.majority(p.zone.named, func(s statement) bool {
				return gave(s) && (s.down == nil || slices.Contains(s.down.glueOf(server.name), addr))
			})
		})
		down.servers = append(down.servers, nameServer{name: server.name, glue: few(glue)})
	}
	return &down
}

// referring returns the statements that give this delegation.
func (p *poll) referring(d *delegation) (same []statement) {
	for _, h := range p.heard {
		if d.isSame(h.said.down) {
			same = append(same, h.said)
		}
	}
	return same
}

// isThin reports whether all servers of the zone were queried, at least one has the token, and each of the others is silent. An
// error, or an answer without authority, is not silence: the zone may have been taken away from that server.
func (p *poll) isThin() bool {
	if !p.any(statement.isYes) || p.zone.more() || p.incomplete() {
		return false
	}
	return !p.any(func(s statement) bool { return !s.isYes() && !s.finding.reason.isSilence() })
}

// contradiction is why one server's answer is one; empty: none is.
func (p *poll) contradiction() Reason {
	for _, h := range p.heard {
		if !h.said.isAlias() && h.observation.isContradiction() {
			return h.observation.Reason
		}
	}
	return ""
}

// incomplete reports whether it is for us that some were not heard.
func (p *poll) incomplete() bool { return p.cut || p.spent() }

func (p *poll) spent() bool {
	return p.any(func(s statement) bool {
		return errors.Is(s.finding.err, errSpent) || errors.Is(s.finding.err, errAbandoned)
	})
}

func (p *poll) firstError() string {
	for _, h := range p.heard {
		if err := h.said.finding.err; err != nil {
			return h.observation.Resolver + ": " + strings.ReplaceAll(err.Error(), "\n", ": ")
		}
	}
	return "none answered in time"
}
