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

// budget counts down; it may be shared.
type budget struct{ left atomic.Int64 }

func (b *budget) take() bool { return b.left.Add(-1) >= 0 }

// spending opens connections as long as the budget lasts: each carries one query.
type spending struct {
	dialer
	queries *budget
}

func (s spending) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !s.queries.take() {
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

// word is what the name servers have said.
type word struct {
	state        State
	reason       Reason
	heard        bool          // at least one has said yes or no with authority, or has referred to a zone below
	shut         bool          // no name server at all can be reached from here, as this inquiry has found at a registry's
	observations []Observation // at most maxShown
	operator     string        // of the host's zone, where its delegation is known
	note         string        // why there is no answer, for an operator
	thin         bool          // of a proof: too few servers have answered, all of those have the token, and the others are silent
	turnout      turnout       // of the servers that were queried last
}

// turnout is how many of a zone's servers have answered.
type turnout struct {
	zone              string // safe to show
	servers, answered int
}

// inquiry is what one verdict asks of name servers.
type inquiry struct {
	*authority
	token    string
	path     *trail
	straight *exchange // as far as its queries last
	lookups  *budget
	seed     maphash.Seed
	operator string // of the lowest zone on the way to the host, before any alias

	proof    bool          // a yes, and an alias on the way to it, take a majority of the servers
	thorough bool          // for a disproof: nothing is remembered of the way below the top-level domain, and all are heard out
	sighted  []Observation // of the token, at servers that another one's referral has led away from
	doubt    Reason        // why one server's answer on the way is a contradiction; empty: none is
	shut     bool          // a registry's servers were silent, and no others have answered lately
}

// consult asks the name servers of the host's zone, for a look or a proof. It always comes back with a word unless ctx ends. That
// port 53 is closed a proof finds out by itself: others may have found so at servers that an attacker has silenced.
func (a *authority) consult(ctx context.Context, host, token string, proof bool, told func(Observation)) (word, error) {
	if !proof {
		if why := a.reach.shut(time.Now()); why != "" {
			return word{reason: ReasonUnreachable, note: why}, nil
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, authorityTime, errTimeUp)
	defer cancel()
	q := a.inquire(host, token)
	q.proof = proof
	w := q.follow(limited)
	if ctx.Err() != nil {
		return word{}, ended(ctx, host)
	}
	return w.tell(told), nil
}

// hearOut is consult for a disproof: each server is waited for, and each sighting counts. shut: no name server at all can be reached
// from here.
func (a *authority) hearOut(ctx context.Context, host, token string, told func(Observation)) (w word, shut bool, err error) {
	if a.reach.isSurelyShut(time.Now()) {
		if why := a.reach.shut(time.Now()); why != "" {
			return word{reason: ReasonUnreachable, note: why}, true, nil
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, disproofTime, errTimeUp)
	defer cancel()
	q := a.inquire(host, token)
	q.thorough = true
	w = q.follow(limited)
	if ctx.Err() != nil {
		return word{}, false, ended(ctx, host)
	}
	if len(q.sighted) > 0 {
		w.state, w.reason, w.heard = Present, ReasonFound, true
		w.observations = slices.Concat(q.sighted, w.observations)
	}
	slices.SortStableFunc(w.observations, sightingsFirst) // so that none is left out
	return w.tell(told), !w.heard && a.reach.isSurelyShut(time.Now()), nil
}

func sightingsFirst(a, b Observation) int {
	rank := func(o Observation) int {
		if o.State == Present {
			return 0
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// tell tells of all observations, and keeps maxShown of them.
func (w word) tell(told func(Observation)) word {
	if told != nil {
		for _, o := range w.observations {
			told(o)
		}
	}
	w.observations = w.observations[:min(len(w.observations), maxShown)]
	return w
}

// inquire begins an inquiry, with budgets of its own.
func (a *authority) inquire(host, token string) *inquiry {
	queries, lookups := new(budget), new(budget)
	queries.left.Store(maxQueries)
	lookups.left.Store(maxLookups)
	return &inquiry{
		authority: a, token: token, path: newTrail(host), lookups: lookups, seed: maphash.MakeSeed(),
		straight: a.exchange.through(spending{a.exchange.dialer, queries}),
	}
}

// follow asks at the host's zone, and where there is an alias at the zone that its target lies in.
func (q *inquiry) follow(ctx context.Context) word {
	w := q.followed(ctx)
	w.operator = q.operator
	return w
}

func (q *inquiry) followed(ctx context.Context) word {
	sure := true
	for {
		p, err := q.descend(ctx, q.path.at)
		if err != nil {
			return word{reason: reasonFor(err), shut: q.shut, note: cmp.Or(q.reach.blame(), err.Error()), observations: q.observe(p)}
		}
		sure = sure && p.majority(len(p.zone.servers), statement.definite) && (!q.thorough || !p.incomplete())
		if p.alias == "" || p.conflict() || q.proof && !p.majority(p.zone.named, statement.isAlias) {
			return q.wordOf(p, sure)
		}
		if err := q.path.step(p.alias); err != nil {
			return word{reason: ReasonAlias, heard: true, note: err.Error(), observations: q.observe(p)}
		}
	}
}

func reasonFor(err error) Reason {
	if failed, ok := errors.AsType[*silentError](err); ok {
		return failed.reason
	}
	if errors.Is(err, errTooDeep) {
		return ReasonDelegation
	}
	return ReasonUnreachable
}

// silentError tells that none of a zone's servers has answered as one.
type silentError struct {
	reason Reason
	text   string
}

func (e *silentError) Error() string { return e.text }

// errTooDeep: the way down does not end.
var errTooDeep = fmt.Errorf("more than %d referrals on the way down", maxReferrals)

// wordOf decides what the answers of a zone's servers amount to. One no next to a yes, an alias or a referral is a disagreement.
// A no counts when a majority of the servers has answered. A yes counts in a proof only if a majority gave it, for whoever holds
// one server may be able to silence the others; in a look always, for a proof follows it.
func (q *inquiry) wordOf(p *poll, sure bool) word {
	w := word{heard: p.led, observations: q.observe(p), turnout: p.turnout()}
	switch {
	case p.conflict() && (!q.thorough || p.yes == 0):
		w.reason = ReasonServersDisagree
	case p.yes > 0 && (!q.proof || p.majority(p.zone.named, statement.isYes)):
		w.state, w.reason = Present, ReasonFound
	case q.doubt != "":
		w.reason = q.doubt
	case p.no > 0 && sure:
		w.state, w.reason = Absent, reasonOf(Absent, w.observations)
	case p.no > 0:
		w.reason = failedOf(w.observations)
		w.note = w.turnout.String()
	case p.majority(p.zone.named, statement.leads): // to one place each, and no majority to the same
		w.reason = ReasonServersDisagree
	default:
		w.reason = ReasonTooFew
		w.note = w.turnout.String()
		w.thin = len(q.path.aliases) == 0 && p.isThin()
	}
	return w
}

func (t turnout) String() string {
	return fmt.Sprintf("%d of the %d name servers of %s have answered", t.answered, t.servers, t.zone)
}

// failedOf is the reason why servers gave no answer.
func failedOf(observations []Observation) Reason {
	var failed []Observation
	for _, o := range observations {
		if o.State == Unknown && o.Reason != ReasonReferral {
			failed = append(failed, o)
		}
	}
	if len(failed) == 0 {
		return ReasonTimeout
	}
	return reasonOf(Unknown, failed)
}

// observe gives what the servers were seen to say.
func (q *inquiry) observe(p *poll) []Observation {
	if p == nil {
		return nil
	}
	var seen []Observation
	for _, h := range p.heard {
		o := h.observation.with(h.said.finding)
		o.Aliases = q.path.aliases
		if h.said.down != nil {
			o.Reason = ReasonReferral
		}
		if h.said.alias != "" {
			o.Aliases = append(append([]string(nil), o.Aliases...), unrooted(h.said.alias))
			o.Reason = ReasonAlias
		}
		seen = append(seen, o)
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
		h := &hearing{inquiry: q, zone: at, name: name, asked: make(map[netip.Addr]*asked)}
		p := h.hear(ctx)
		q.note(ctx, at, p)
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
		case !p.led:
			return p, &silentError{failedOf(q.observe(p)), "no name server of " + shownHost(unrooted(at.zone)) + " answered with authority: " + p.firstError()}
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
func (q *inquiry) note(ctx context.Context, zone delegation, p *poll) {
	if p.led {
		q.reach.opened(time.Now())
		return
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeUp) || p.spent() {
		return // it is the asker who gave up
	}
	q.cuts.forget(zone.zone)
	if dns.CountLabel(zone.zone) == 1 && p.addressed() {
		why := "cannot be reached: is port 53 outwards open?"
		if p.unauthorized() {
			why = "cannot be reached: another server answers in their place: port 53 is redirected on the way."
		}
		q.shut = q.reach.silent(time.Now(), "the name servers of "+shownHost(unrooted(zone.zone))+" "+why+" "+p.firstError())
	}
}

// hearing is one zone's servers being asked for one name, each address once.
type hearing struct {
	*inquiry
	zone delegation
	name string

	mu    sync.Mutex
	asked map[netip.Addr]*asked
}

// asked is an address that has been asked, or is being asked until done is closed.
type asked struct {
	done chan struct{}
	said statement
	seen Observation
}

// heard is what one server said at one address.
type heard struct {
	server      int // by its place in the delegation
	said        statement
	observation Observation
	addressed   bool // it was asked; else it has no address
	err         error
}

// hear asks every server at all its addresses at once: a referral counts only if a majority gives it, and one no is enough to
// contradict it. It comes back as soon as the answers are clear: at a contradiction, when all have answered, or when a majority has
// answered and the others do not follow soon; for a disproof only when none is out any more. A registry's servers hold nothing of
// the zones below: there the referral of a majority is enough.
func (h *hearing) hear(ctx context.Context) *poll {
	p := h.all(ctx)
	p.cut = ctx.Err() != nil
	return p
}

func (h *hearing) all(ctx context.Context) *poll {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	p := newPoll(h.zone)
	back := make(chan heard, len(h.zone.servers)*2*maxAddrs) // room for all, so that none is held up by nobody listening
	finished := make(chan struct{}, len(h.zone.servers))
	for server := range h.zone.servers {
		asking.Go(func() {
			h.everywhere(ctx, server, back)
			finished <- struct{}{}
		})
	}
	registry := isRegistrys(h.zone.zone)
	var late <-chan time.Time
	for open := len(h.zone.servers); open > 0 || len(back) > 0; {
		select {
		case <-ctx.Done():
			return p.drain(back)
		case <-late:
			return p.drain(back)
		case <-finished:
			open--
		case one := <-back:
			p.add(one)
			if !h.thorough && p.conflict() || registry && p.isConfirmed() {
				return p
			}
		}
		if late == nil && !h.thorough && p.majority(len(h.zone.servers), statement.leads) {
			late = time.After(grace)
		}
	}
	return p
}

// everywhere asks one server: a registry's at one address after another until it leads on, any other at all its addresses at once,
// since they may differ.
func (h *hearing) everywhere(ctx context.Context, server int, back chan<- heard) {
	addrs, err := h.addresses(ctx, h.zone.zone, h.zone.servers[server])
	if err != nil {
		back <- h.nowhere(server, err)
		return
	}
	atOnce := len(addrs)
	if isRegistrys(h.zone.zone) {
		atOnce = 1
	}
	for some := range slices.Chunk(addrs, atOnce) {
		var led atomic.Bool
		var asking sync.WaitGroup
		for _, addr := range some {
			asking.Go(func() {
				if one, ok := h.ask(ctx, server, addr); ok {
					if back <- one; one.said.leads() {
						led.Store(true)
					}
				}
			})
		}
		asking.Wait()
		if led.Load() {
			return
		}
	}
}

// nowhere is a server that cannot be asked.
func (h *hearing) nowhere(server int, err error) heard {
	reason := ReasonUnreachable
	if errors.Is(err, errSpent) {
		reason = ReasonDelegation
	}
	return heard{
		server: server, said: says(unknown(reason, err)), err: err,
		observation: Observation{Resolver: shownHost(unrooted(h.zone.servers[server].name)), Authority: true},
	}
}

// ask asks at one address, or gives what was said there before: two names may share one. false: the context ended first.
func (h *hearing) ask(ctx context.Context, server int, addr netip.Addr) (heard, bool) {
	h.mu.Lock()
	a, before := h.asked[addr]
	if !before {
		a = &asked{done: make(chan struct{})}
		h.asked[addr] = a
	}
	h.mu.Unlock()
	if !before {
		a.said, a.seen = h.question(ctx, addr)
		if ctx.Err() != nil && !a.said.leads() {
			h.mu.Lock()
			delete(h.asked, addr) // not heard: it may be asked again
			h.mu.Unlock()
		}
		close(a.done)
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return heard{}, false
	}
	o := a.seen
	o.Resolver = shownHost(unrooted(h.zone.servers[server].name))
	one := heard{server: server, said: a.said, observation: o, addressed: true, err: a.said.finding.err}
	return one, ctx.Err() == nil || a.said.leads()
}

func (h *hearing) question(ctx context.Context, addr netip.Addr) (statement, Observation) {
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
	return said, o
}

// poll collects what the servers of a zone answer.
type poll struct {
	zone             delegation
	heard            []heard
	led              bool // at least one has said something that goes on
	yes, no, aliases int  // statements of each kind
	referrals        int
	alias            string
	differ           bool // two aliases that are not the same
	cut              bool // the time was up: who has not been heard may have had something to say
}

func newPoll(zone delegation) *poll { return &poll{zone: zone} }

func (p *poll) add(h heard) {
	p.heard = append(p.heard, h)
	p.led = p.led || h.said.leads()
	switch {
	case h.said.down != nil:
		p.referrals++
	case h.said.isAlias():
		p.differ = p.differ || p.alias != "" && canonical(p.alias) != canonical(h.said.alias)
		p.alias = cmp.Or(p.alias, h.said.alias)
		p.aliases++
	case h.said.isYes():
		p.yes++
	case h.said.definite():
		p.no++
	}
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
	return p.no > 0 && p.yes+p.aliases+p.referrals > 0 || p.aliases > 0 && p.yes+p.referrals > 0 || p.differ
}

// majority reports whether statements of one kind came from more than half of the servers, of which there are so many.
//
// A server is a name in the delegation, and counts once, however many addresses it has: whoever holds a single name can give it any
// number of them. And the statements must come from more than half as many addresses: one machine under several names is no more
// than one. (Not from more than half of all addresses: without IPv6 half of them cannot be reached.)
func (p *poll) majority(servers int, is func(statement) bool) bool {
	agreed, addrs, possible := p.count(servers, is)
	return 2*agreed > servers && 2*addrs > possible
}

// count gives the servers and the addresses that statements of one kind came from, and how many addresses the servers have: at most
// one each, and one for each of which none is known.
func (p *poll) count(servers int, is func(statement) bool) (agreed, addrs, possible int) {
	type seen struct {
		servers map[int]bool
		addrs   map[string]bool
	}
	all, those := seen{make(map[int]bool), make(map[string]bool)}, seen{make(map[int]bool), make(map[string]bool)}
	for _, h := range p.heard {
		if !h.addressed {
			continue
		}
		all.servers[h.server], all.addrs[h.observation.Address] = true, true
		if is(h.said) {
			those.servers[h.server], those.addrs[h.observation.Address] = true, true
		}
	}
	return len(those.servers), len(those.addrs), min(servers, len(all.addrs)+servers-len(all.servers))
}

func (p *poll) turnout() turnout {
	servers, addrs, _ := p.count(p.zone.named, statement.leads)
	return turnout{zone: shownHost(unrooted(p.zone.zone)), servers: p.zone.named, answered: min(servers, addrs)}
}

// delegation is the zone below that the servers refer to, with how long it may be cached. confirmed: a majority of them gave it,
// and only then it may be. Where there is no such majority, all referrals are the same, and the servers that gave it are a majority
// together with those that have the token, it is followed all the same: the latter may hold the zone below as well. nil: there is
// nothing to follow.
//
// A name server has the addresses (glue) that as many servers gave: those of one must not lead elsewhere.
func (p *poll) delegation() (down *delegation, ttl time.Duration, confirmed bool) {
	var given []*delegation // that differ
	for _, h := range p.heard {
		if d := h.said.down; d != nil && !slices.ContainsFunc(given, d.isSame) {
			given = append(given, d)
		}
	}
	for _, d := range given {
		if down := p.supported(d, func(statement) bool { return false }); down != nil {
			return down, p.ttlOf(d), true
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

// supported is the delegation with the addresses that a majority gave; nil where it did not give the delegation. Statements that
// agree with any delegation count for it.
func (p *poll) supported(d *delegation, agrees func(statement) bool) *delegation {
	gave := func(s statement) bool { return s.down != nil && d.isSame(s.down) || agrees(s) }
	if !p.majority(p.zone.named, gave) {
		return nil
	}
	down := *d
	down.servers = nil
	for _, server := range d.servers {
		glue := slices.DeleteFunc(p.glueOf(d, server.name), func(addr netip.Addr) bool {
			return !p.majority(p.zone.named, func(s statement) bool {
				return gave(s) && (s.down == nil || slices.Contains(s.down.glueOf(server.name), addr))
			})
		})
		down.servers = append(down.servers, nameServer{name: server.name, glue: few(glue)})
	}
	return &down
}

// glueOf gives all addresses of a name server that came with this delegation.
func (p *poll) glueOf(d *delegation, name string) []netip.Addr {
	var found []netip.Addr
	for _, h := range p.heard {
		if h.said.down == nil || !d.isSame(h.said.down) {
			continue
		}
		for _, addr := range h.said.down.glueOf(name) {
			if !slices.Contains(found, addr) {
				found = append(found, addr)
			}
		}
	}
	return found
}

// ttlOf is the lowest TTL that came with the delegation.
func (p *poll) ttlOf(d *delegation) time.Duration {
	ttl := longestMemory
	for _, h := range p.heard {
		if h.said.down != nil && d.isSame(h.said.down) {
			ttl = min(ttl, h.said.ttl)
		}
	}
	return ttl
}

// isThin reports whether all servers of the zone were queried, at least one has the token, and each of the others is silent. An
// error or an answer without authority is not silence: the zone may have been taken away from that server, and what is left of the
// delegation be anybody's.
func (p *poll) isThin() bool {
	if p.yes == 0 || p.zone.more() || p.incomplete() {
		return false
	}
	return !slices.ContainsFunc(p.heard, func(h heard) bool { return !h.said.isYes() && !h.said.finding.reason.isSilence() })
}

// contradiction is why one server's answer is one; empty: none is.
func (p *poll) contradiction() Reason {
	for _, h := range p.heard {
		if o := h.observation.with(h.said.finding); o.isContradiction() {
			return o.Reason
		}
	}
	return ""
}

// addressed tells whether any server could be asked at all.
func (p *poll) addressed() bool {
	for _, h := range p.heard {
		if h.addressed {
			return true
		}
	}
	return false
}

// unauthorized reports whether a server has answered that does not hold the zone.
func (p *poll) unauthorized() bool {
	return slices.ContainsFunc(p.heard, func(h heard) bool { return h.said.finding.reason == ReasonLame })
}

// incomplete tells whether it is for us that some were not heard.
func (p *poll) incomplete() bool { return p.cut || p.spent() }

func (p *poll) spent() bool {
	for _, h := range p.heard {
		if errors.Is(h.err, errSpent) || errors.Is(h.err, errAbandoned) {
			return true
		}
	}
	return false
}

func (p *poll) firstError() string {
	for _, h := range p.heard {
		if h.err != nil {
			return h.observation.Resolver + ": " + strings.ReplaceAll(h.err.Error(), "\n", ": ")
		}
	}
	return "none answered in time"
}
