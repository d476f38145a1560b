package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// hedge is after how long the next server is asked for the way as well: most answer sooner.
	hedge = 300 * time.Millisecond
	// grace is how long the rest of a zone's servers may still take once a majority has said the same.
	grace = 500 * time.Millisecond
	// maxReferrals bounds the way down to one name: zones below zones below a top-level domain; four are many.
	maxReferrals = 12
	// maxQueries bounds the queries to name servers of one verdict, each attempt counted: a zone of 8 servers with 4 addresses
	// twice over (an alias), and the way to both. A stranger's delegation is followed no further.
	maxQueries = 100
	// maxLookups bounds for how many name servers' addresses the resolvers are asked for one verdict: what the same takes
	// with nothing remembered.
	maxLookups = 32
	// maxShown is how many observations of name servers are kept as evidence.
	maxShown = 16
)

var (
	// errSpent: the verdict has used up its queries.
	errSpent = errors.New("the delegation asks for more queries than one look may cost")
	// errTimeUp: authorityTime is over, which says something of the servers; that the asker's own time is over does not.
	errTimeUp = errors.New("the time for asking the name servers is over")
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
	heard        bool          // at least one has said yes or no, with authority
	observations []Observation // at most maxShown
	operator     string        // of the host's zone, where its delegation is known
	note         string        // where nobody was heard: why, for an operator
}

// inquiry is what one verdict asks of name servers.
type inquiry struct {
	*authority
	token    string
	path     *trail
	straight *exchange // as far as its queries last
	lookups  *budget
	operator string // of the lowest zone on the way to the host, before any alias

	thorough bool          // for a disproof: nothing is remembered of the way below the top-level domain, and all are heard out
	sighted  []Observation // of the token, at servers that another one's referral has led away from
	doubt    Reason        // why one server's answer on the way is a contradiction; empty: none is
}

// consult asks the name servers of the host's zone. It always comes back with a word unless ctx ends.
func (a *authority) consult(ctx context.Context, host, token string, told func(Observation)) (word, error) {
	if why := a.reach.shut(time.Now()); why != "" {
		return word{reason: ReasonUnreachable, note: why}, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, authorityTime, errTimeUp)
	defer cancel()
	w := a.inquire(host, token).follow(limited)
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
		authority: a, token: token, path: newTrail(host), lookups: lookups,
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
			return word{reason: reasonFor(err), note: cmp.Or(q.reach.blame(), err.Error()), observations: q.observe(p)}
		}
		sure = sure && p.majority() && (!q.thorough || !p.incomplete())
		if p.alias == "" || p.conflict() {
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

// wordOf tells what the answers of a zone's servers come to. One no beside a yes is no word. A no counts when a majority of the
// servers has been heard; a yes always, for a proof wants the resolvers too.
func (q *inquiry) wordOf(p *poll, sure bool) word {
	w := word{heard: p.yes+p.no+p.aliases > 0, observations: q.observe(p)}
	switch {
	case p.conflict() && (!q.thorough || p.yes == 0):
		w.reason = ReasonServersDisagree
	case p.yes > 0:
		w.state, w.reason = Present, ReasonFound
	case q.doubt != "":
		w.reason = q.doubt
	case p.no > 0 && sure:
		w.state, w.reason = Absent, reasonOf(Absent, w.observations)
	default:
		w.reason = failedOf(w.observations)
		w.note = fmt.Sprintf("%d of the %d name servers of %s have answered", p.answered(), len(p.zone.servers), shownHost(unrooted(p.zone.zone)))
	}
	return w
}

// failedOf is the reason why servers gave no answer.
func failedOf(observations []Observation) Reason {
	var failed []Observation
	for _, o := range observations {
		if o.State == Unknown && o.Reason != "" {
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
		if h.said.alias != "" {
			o.Aliases = append(append([]string(nil), o.Aliases...), unrooted(h.said.alias))
			o.Reason = ReasonAlias
		}
		seen = append(seen, o)
	}
	return seen
}

// overhear keeps what counts for a disproof wherever on the way it is said.
func (q *inquiry) overhear(p *poll) {
	q.doubt = cmp.Or(q.doubt, p.contradiction())
	if p.down != nil {
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
		if q.thorough {
			q.overhear(p)
		}
		switch {
		case p.down != nil:
			q.cuts.put(p.down.zone, *p.down, p.downTTL)
			at = *p.down
		case !p.led:
			return p, &silentError{failedOf(q.observe(p)), "no name server of " + shownHost(unrooted(at.zone)) + " has answered as one: " + p.firstError()}
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
	if p.led || p.down != nil {
		q.reach.opened(time.Now())
		return
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeUp) || p.spent() {
		return // it is the asker who gave up
	}
	q.cuts.forget(zone.zone)
	if dns.CountLabel(zone.zone) == 1 && p.addressed() {
		q.reach.silent(time.Now(), "the name servers of "+shownHost(unrooted(zone.zone))+" cannot be reached: is port 53 outwards open? "+p.firstError())
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

// hear asks for the way, and all servers where there is none further. A disproof asks all of them anyway, of which one may hold what the
// others refer to; a registry's hold nothing of that.
func (h *hearing) hear(ctx context.Context) *poll {
	var p *poll
	if !h.thorough || isRegistrys(h.zone.zone) {
		p = h.scout(ctx)
	}
	if p == nil || p.down == nil && p.led {
		p = h.all(ctx)
	}
	p.cut = ctx.Err() != nil
	return p
}

// scout asks one server after another for the way, the next one as soon as one is of no use or has kept silent for a while, till
// one leads on.
func (h *hearing) scout(ctx context.Context) *poll {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	p := newPoll(h.zone)
	back := make(chan []heard, len(h.zone.servers))
	next, out := 0, 0
	for next < len(h.zone.servers) || out > 0 {
		if next < len(h.zone.servers) {
			server := next
			asking.Go(func() { back <- h.visit(ctx, server) })
			next, out = next+1, out+1
		}
		var patience <-chan time.Time
		if next < len(h.zone.servers) {
			patience = time.After(hedge)
		}
		select {
		case <-ctx.Done():
			return p
		case <-patience:
		case each := <-back:
			out--
			for _, one := range each {
				p.add(one)
			}
			if p.led || p.down != nil {
				return p
			}
		}
	}
	return p
}

// visit asks a server at one address after another, till it says something that leads on.
func (h *hearing) visit(ctx context.Context, server int) []heard {
	addrs, err := h.addresses(ctx, h.zone.zone, h.zone.servers[server])
	if err != nil {
		return []heard{h.nowhere(server, err)}
	}
	var all []heard
	for _, addr := range addrs {
		one, ok := h.ask(ctx, server, addr)
		if !ok {
			break
		}
		all = append(all, one)
		if one.said.leads() {
			break
		}
	}
	return all
}

// all asks every server at all its addresses at once. It comes back as soon as what they say is clear: at a contradiction, at
// a referral, when all have answered, or when a majority has said the same and the others do not follow soon; for a disproof only when
// none is out any more.
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
			if !h.thorough && (p.down != nil || p.conflict()) {
				return p
			}
		}
		if late == nil && p.majority() && !h.thorough {
			late = time.After(grace)
		}
	}
	return p
}

func (h *hearing) everywhere(ctx context.Context, server int, back chan<- heard) {
	addrs, err := h.addresses(ctx, h.zone.zone, h.zone.servers[server])
	if err != nil {
		back <- h.nowhere(server, err)
		return
	}
	var asking sync.WaitGroup
	for _, addr := range addrs {
		asking.Go(func() {
			if one, ok := h.ask(ctx, server, addr); ok {
				back <- one
			}
		})
	}
	asking.Wait()
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
		said = readStatement(r, h.zone.zone, h.name, h.token)
		if h.thorough && said.alias == "" {
			said.finding = said.finding.unlessHeld(r, h.token)
		}
		o.RCode, o.EDE = r.rcodeName(), r.errorText()
	}
	o.Took = time.Since(began)
	return said, o
}

// poll counts what the servers of a zone say: each server once, whatever the number of its addresses.
type poll struct {
	zone             delegation
	heard            []heard
	down             *delegation // another zone begins on the way
	downTTL          time.Duration
	led              bool // somebody has said something that goes on
	positions        map[int]map[string]bool
	yes, no, aliases int // statements of each kind
	alias            string
	differ           bool // two aliases that are not the same
	cut              bool // the time was up: who has not been heard may have had something to say
}

func newPoll(zone delegation) *poll {
	return &poll{zone: zone, positions: make(map[int]map[string]bool)}
}

func (p *poll) add(h heard) {
	p.heard = append(p.heard, h)
	if h.said.down != nil {
		p.down, p.downTTL = h.said.down, h.said.ttl
	}
	if !h.said.definite() {
		return
	}
	p.led = true
	position := h.said.finding.state.String()
	switch {
	case h.said.alias != "":
		position = "alias " + canonical(h.said.alias)
		p.differ = p.differ || p.alias != "" && canonical(p.alias) != canonical(h.said.alias)
		p.alias = cmp.Or(p.alias, h.said.alias)
		p.aliases++
	case h.said.finding.state == Present:
		p.yes++
	default:
		p.no++
	}
	if p.positions[h.server] == nil {
		p.positions[h.server] = make(map[string]bool)
	}
	p.positions[h.server][position] = true
}

// drain takes what has come in already.
func (p *poll) drain(back <-chan heard) *poll {
	for len(back) > 0 {
		p.add(<-back)
	}
	return p
}

// conflict tells whether two things have been said that cannot both be so.
func (p *poll) conflict() bool {
	kinds := 0
	for _, n := range []int{p.yes, p.no, p.aliases} {
		if n > 0 {
			kinds++
		}
	}
	return kinds > 1 || p.differ
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

func (p *poll) answered() int { return len(p.positions) }

// majority tells whether more than half of the zone's servers have answered.
func (p *poll) majority() bool { return 2*p.answered() > len(p.zone.servers) }

// addressed tells whether any server could be asked at all.
func (p *poll) addressed() bool {
	for _, h := range p.heard {
		if h.addressed {
			return true
		}
	}
	return false
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
	return "none was heard in time"
}
