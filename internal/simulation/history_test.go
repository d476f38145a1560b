package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"orgops/dnscheck"
	"orgops/internal/sweep"
)

const day = 24 * time.Hour

// span is a time without its end.
type span struct{ from, to time.Time }

func (s span) holds(t time.Time) bool { return !t.Before(s.from) && t.Before(s.to) }

func (s span) meets(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

type spans []span

func (s spans) holds(t time.Time) bool {
	for _, one := range s {
		if one.holds(t) {
			return true
		}
	}
	return false
}

func (s spans) meets(o span) bool {
	for _, one := range s {
		if one.meets(o) {
			return true
		}
	}
	return false
}

// history has the events of a tenant and of its domains' DNS in sixty days. All are decided
// before the first sweep, except for revocations.
type history struct {
	start, end time.Time
	domains    []*place
	byHost     map[string]*place
	byID       map[string]*place
	orgs       []*organization

	outages  spans       // no DNS query is answered
	lies     spans       // each DNS query is answered with NXDOMAIN
	refusals spans       // the API answers with 503
	confirms []time.Time // a person revokes all lost domains, whatever their number and operators
}

// organization has some of the domains.
type organization struct {
	id      string
	domains []*place
	gone    time.Time // zero: never
}

// place is a discovery domain with its DNS.
type place struct {
	number   int
	org      *organization
	id, name string
	operator string
	kind     string // the event, for messages

	zone   []published     // by time
	absent dnscheck.Reason // of checks that do not find the token
	noisy  float64         // the share of checks that wrongly find the token absent
	split  bool            // checks find the token absent, and queries of all servers find it

	down, blank spans // its name servers do not answer; or have no records
	thin        spans // half of its name servers do not answer
	hidden      spans // reads of its record omit the flag
	protected   bool
	hands       []hand // changes by other clients, by time
	next        int    // the first hand that has not been applied
	states      []state
	thrown      atomic.Uint64 // random numbers so far
	missed      []time.Time   // checks that found the token absent
	found       []time.Time   // checks that found it
	disproofs   []time.Time
	met         []string // requests, for the story of a failure
}

// published is the TXT record of the host from a time on; "": no record.
type published struct {
	at    time.Time
	token string
}

// state is a record from a time on.
type state struct {
	at       time.Time
	token    string
	verified bool
	flag     *bool
	gone     bool
	statusBy author
	flagBy   author
}

// author is the client that has set a member of a record.
type author int

const (
	byOrigin author = iota
	byHand
	byUs
)

// hand is a change of a record by another client.
type hand struct {
	at   time.Time
	what func(*state)
}

// setStatus sets the status as another client does. To set the value that it has leaves no
// trace.
func setStatus(verified bool) func(*state) {
	return func(s *state) {
		if s.verified != verified {
			s.verified, s.statusBy = verified, byHand
		}
	}
}

func setFlag(on bool) func(*state) {
	return func(s *state) {
		if s.flag == nil || *s.flag != on {
			s.flag, s.flagBy = new(on), byHand
		}
	}
}

func setToken(token string) func(*state) { return func(s *state) { s.token = token } }

func remove(s *state) { s.gone = true }

const simulatedDays = 60

// newHistory returns a history without events.
func newHistory(seed uint64, domains, days int, start time.Time) *history {
	h := &history{start: start, byHost: map[string]*place{}, byID: map[string]*place{}}
	h.end = h.day(days)
	dice := rand.New(rand.NewPCG(seed, 1))
	for i := range domains {
		h.add(dice, i, domains)
	}
	return h
}

// troubles sets those of sixty days.
func (h *history) troubles() {
	h.outages = spans{{h.day(5).Add(hours(1)), h.day(5).Add(hours(9))},
		{h.day(14).Add(hours(13)), h.day(14).Add(hours(22))}}
	h.refusals = spans{{h.day(17).Add(hours(12)), h.day(17).Add(hours(20))},
		{h.day(53).Add(hours(2)), h.day(53).Add(hours(4))}}
	h.lies = spans{{h.day(27).Add(hours(2)), h.day(27).Add(hours(6))},
		{h.day(30).Add(hours(12)), h.day(30).Add(hours(23))}}
	h.confirms = []time.Time{h.day(33).Add(hours(9)), h.day(50).Add(hours(9))}
}

func (h *history) day(n int) time.Time { return h.start.Add(time.Duration(n) * day) }

func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

// add adds a domain that is verified and has its token; every fifth shares its
// organization with the one before.
func (h *history) add(dice *rand.Rand, i, of int) {
	if i%5 != 4 {
		h.orgs = append(h.orgs, &organization{id: fmt.Sprintf("org_%06d", len(h.orgs))})
	}
	o := h.orgs[len(h.orgs)-1]
	p := &place{
		number: i, org: o, id: fmt.Sprintf("ord_%06d", i), name: fmt.Sprintf("d%d.example", i),
		operator: fmt.Sprintf("small%d", i%(of/3+1)), // three have the same: too few to be held back
		absent:   []dnscheck.Reason{dnscheck.ReasonNoName, dnscheck.ReasonNoRecord, dnscheck.ReasonOtherValue}[dice.IntN(3)],
	}
	token := fmt.Sprintf("token-%d", i)
	p.zone = []published{{h.start.Add(-day), token}}
	s := state{at: h.start.Add(-day), token: token, verified: true, flag: new(true)}
	switch dice.IntN(8) {
	case 0:
		s.flag = new(false)
	case 1:
		s.flag = nil
	}
	p.states = []state{s}
	o.domains = append(o.domains, p)
	h.domains = append(h.domains, p)
	h.byHost[strings.ToLower(p.host())], h.byID[p.id] = p, p
}

func (p *place) host() string {
	return "_ss-verification." + p.org.id + "." + p.name
}

// setFlag sets the flag that the record has at first: true for even numbers.
func (p *place) setFlag(n int) { p.states[0].flag = new(n%2 == 0) }

func (p *place) token() string { return p.states[0].token }

// publish sets the TXT record of the host from a time on.
func (p *place) publish(at time.Time, token string) { p.zone = append(p.zone, published{at, token}) }

// byHandAt has another client change the record.
func (p *place) byHandAt(at time.Time, what func(*state)) { p.hands = append(p.hands, hand{at, what}) }

// plotter decides the events of domains.
type plotter struct {
	h    *history
	dice *rand.Rand
	deck []*place // domains without events, shuffled
	// dealt is the number of domains of the same kind before the one that is being dealt.
	dealt int
}

func plots(h *history, seed uint64) *plotter {
	dice := rand.New(rand.NewPCG(seed, 2))
	p := &plotter{h: h, dice: dice, deck: append([]*place(nil), h.domains...)}
	dice.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	return p
}

// deal applies plot to a share of all domains, in 2,000ths, and to least of them at least.
func (p *plotter) deal(kind string, share, least int, plot func(*place)) {
	for p.dealt = range min(len(p.deck), max(share*len(p.h.domains)/2000, least)) {
		one := p.deck[0]
		p.deck = p.deck[1:]
		one.kind = kind
		plot(one)
	}
}

// moment returns a time between two days, not during lies: those would date the loss of a
// token too early.
func (p *plotter) moment(from, to float64) time.Time {
	for {
		t := p.h.start.Add(hours(24 * (from + p.dice.Float64()*(to-from)))).Truncate(time.Second)
		near := span{t.Add(-2 * time.Hour), t.Add(2 * time.Hour)}
		if !p.h.lies.meets(near) {
			return t
		}
	}
}

func (p *plotter) days(from, to float64) time.Duration {
	return hours(24 * (from + p.dice.Float64()*(to-from))).Truncate(time.Second)
}

// lay decides on the events of sixty days.
func (p *plotter) lay() {
	p.h.troubles()
	// Whole organizations first, while their domains have no events.
	p.blankOrganizations(200, 27, "everything is gone for ten days", 38.2, 48.2)
	p.deal("its name servers are emptied for ten days with others'", 60, 6, func(d *place) {
		d.operator, d.blank = "emptied", spans{{p.h.day(12).Add(hours(4)), p.h.day(22).Add(hours(4))}}
	})
	p.deal("lost for good with others of its operator", 8, 6, func(d *place) {
		d.operator = "closed"
		d.publish(p.h.day(19).Add(hours(7)), "")
	})
	p.deal("its name servers are down for three days", 100, 5, func(d *place) {
		d.operator, d.down = "slow", spans{{p.h.day(8).Add(hours(3)), p.h.day(11).Add(hours(3))}}
	})
	p.deal("its name servers are down for nine days", 20, 2, func(d *place) {
		at := p.moment(1, 40)
		d.down = spans{{at, at.Add(p.days(8.5, 9.5))}}
	})
	p.losses()
	p.absences()
	p.returns()
	p.rotations()
	p.people()
	p.others()
	p.inOrder()
}

func (p *plotter) inOrder() {
	for _, d := range p.h.domains {
		slices.SortStableFunc(d.hands, func(a, b hand) int { return a.at.Compare(b.at) })
	}
}

func (p *plotter) losses() {
	p.deal("lost for good", 120, 5, func(d *place) { d.publish(p.moment(.5, 58), "") })
	p.deal("lost and back before the grace is over", 60, 4, func(d *place) {
		at := p.moment(.5, 50)
		d.publish(at, "")
		d.publish(at.Add(p.days(.1, 6.9)), d.token())
	})
	p.deal("lost, and back after it was acted on", 60, 4, func(d *place) {
		d.setFlag(p.dealt)
		at := p.moment(.5, 35)
		d.publish(at, "")
		d.publish(at.Add(p.days(12, 22)), d.token())
	})
	p.deal("lost, back, and lost again", 15, 2, func(d *place) {
		at := p.moment(.5, 8)
		for range 2 {
			d.publish(at, "")
			at = at.Add(p.days(13, 15))
			d.publish(at, d.token())
			at = at.Add(p.days(3, 6))
		}
	})
	p.deal("comes and goes", 30, 2, func(d *place) {
		for at := p.moment(.5, 5); at.Before(p.h.end); at = at.Add(p.days(.5, 6)) {
			d.publish(at, "")
			at = at.Add(p.days(.1, 6))
			d.publish(at, d.token())
		}
	})
	p.deal("seen wrongly now and then", 20, 2, func(d *place) { d.noisy = .05 })
	p.deal("gone from one name server, and in the resolvers", 10, 2, func(d *place) { d.split = true })
}

// absences adds losses that start anew, or of which few checks are evidence.
func (p *plotter) absences() {
	p.deal("gone for two hours, when it is checked", 20, 2, func(d *place) {
		at := p.h.checkOf(d, p.quietDay(1, 50, 1)).Add(-30 * time.Minute)
		d.publish(at, "")
		d.publish(at.Add(2*time.Hour), d.token())
	})
	p.deal("lost, and there for hours between two sweeps", 20, 4, func(d *place) {
		d.setFlag(0)
		lost := p.quietDay(1, 45, 6)
		d.publish(p.h.checkOf(d, lost).Add(-time.Hour), "")
		back := p.h.checkOf(d, lost+4).Add(5 * time.Hour)
		d.publish(back, d.token())
		d.publish(back.Add(17*time.Hour), "")
	})
	p.deal("lost, and checked twice in eight days", 20, 3, func(d *place) {
		d.setFlag(0)
		lost := p.quietDay(1, 45, 10)
		d.publish(p.h.day(lost).Add(-20*time.Minute), "")
		d.down = spans{{p.h.day(lost + 1).Add(-hours(1.2)), p.h.day(lost + 8).Add(-20 * time.Minute)}}
	})
}

// returns adds tokens that return after the domain was acted on, when it cannot be restored at
// once.
func (p *plotter) returns() {
	p.deal("lost, and back at half of its name servers at first", 20, 2, func(d *place) {
		d.setFlag(0)
		at := p.moment(.5, 30)
		d.publish(at, "")
		back := at.Add(p.days(12, 14))
		d.publish(back, d.token())
		d.thin = spans{{back, back.Add(p.days(4, 6))}}
	})
	p.deal("lost, and back while its record omits the flag", 20, 2, func(d *place) {
		d.setFlag(p.dealt)
		at := p.moment(.5, 30)
		d.publish(at, "")
		d.hidden = spans{{at.Add(p.days(11, 12)), at.Add(p.days(15, 17))}}
		d.publish(at.Add(p.days(12.5, 13.5)), d.token())
	})
}

// quietDay returns the first day of that many days without trouble.
func (p *plotter) quietDay(from, to, days int) int {
	for {
		n := from + p.dice.IntN(to-from)
		all := span{p.h.day(n - 1), p.h.day(n + days)}
		if !p.h.outages.meets(all) && !p.h.lies.meets(all) && !p.h.refusals.meets(all) {
			return n
		}
	}
}

// checkOf returns when the sweep of a day checks a domain.
func (h *history) checkOf(d *place, n int) time.Time {
	tick := h.day(n)
	return time.Unix(sweep.Spread(d.id, tick.Unix(), tick.Add(day*4/5).Unix()), 0).UTC()
}

func (p *plotter) rotations() {
	next := func(d *place) string { return d.token() + "-next" }
	p.deal("its token changes, and DNS follows", 30, 2, func(d *place) {
		at := p.moment(1, 45)
		d.byHandAt(at, setToken(next(d)))
		d.publish(at.Add(p.days(.1, 6.8)), next(d))
	})
	p.deal("its token changes, and so is DNS", 20, 2, func(d *place) { // between the scan of a sweep and its check
		at := p.h.day(1 + p.dice.IntN(45)).Add(p.days(.05, .1))
		d.byHandAt(at, setToken(next(d)))
		d.publish(at.Add(p.days(.005, .02)), next(d))
	})
	p.deal("its token changes, and DNS follows too late", 20, 2, func(d *place) {
		at := p.moment(1, 35)
		d.byHandAt(at, setToken(next(d)))
		d.publish(at.Add(p.days(12, 16)), next(d))
	})
	p.deal("lost, and its token changes before the grace is over", 20, 2, func(d *place) {
		at := p.moment(1, 45)
		d.publish(at, "")
		d.byHandAt(at.Add(p.days(4, 6)), setToken(next(d)))
		d.publish(at.Add(p.days(10, 10.9)), next(d))
	})
}

func (p *plotter) people() {
	p.deal("lost, and set to pending by hand before the grace is over", 15, 2, func(d *place) {
		at := p.moment(1, 40)
		d.publish(at, "")
		d.byHandAt(at.Add(p.days(2, 6)), setStatus(false))
		d.publish(at.Add(p.days(10, 14)), d.token())
	})
	p.deal("lost, and unrouted by hand before the grace is over", 15, 2, func(d *place) {
		at := p.moment(1, 40)
		d.publish(at, "")
		d.byHandAt(at.Add(p.days(2, 6)), setFlag(false))
		d.publish(at.Add(p.days(12, 16)), d.token())
	})
	p.deal("acted on, given back by hand, and taken away by hand", 20, 2, func(d *place) {
		at := p.moment(1, 9)
		d.publish(at, "")
		back := at.Add(p.days(10.5, 12))
		d.byHandAt(back, setStatus(true))
		d.byHandAt(back, setFlag(true))
		back = back.Add(p.days(2, 4))
		d.byHandAt(back, setStatus(false))
		d.byHandAt(back, setFlag(false))
		d.publish(back.Add(p.days(2, 4)), d.token())
	})
	p.deal("acted on, and given back by hand while it is still lost", 15, 2, func(d *place) {
		d.setFlag(0)
		at := p.moment(1, 8)
		d.publish(at, "")
		back := at.Add(p.days(10.5, 12))
		d.byHandAt(back, setStatus(true))
		d.byHandAt(back, setFlag(true))
	})
	p.deal("its flag is turned by hand", 20, 2, func(d *place) {
		d.byHandAt(p.moment(1, 50), setFlag(p.dice.IntN(2) == 0))
	})
	p.deal("pending, and never verified by us", 40, 2, func(d *place) {
		d.states[0].verified = false
		if p.dice.IntN(2) == 0 {
			d.publish(p.moment(1, 50), "")
		}
	})
	p.deal("set to pending by hand", 10, 2, func(d *place) { d.byHandAt(p.moment(1, 50), setStatus(false)) })
}

func (p *plotter) others() {
	p.deal("deleted while it is lost", 10, 2, func(d *place) {
		at := p.moment(1, 50)
		d.publish(at, "")
		d.byHandAt(at.Add(p.days(1, 7.2)), remove)
	})
	p.deal("its organization is deleted while it is lost", 10, 2, func(d *place) {
		at := p.moment(1, 50)
		d.publish(at, "")
		d.org.gone = at.Add(p.days(1, 7.2))
		for _, one := range d.org.domains {
			one.byHandAt(d.org.gone, remove)
		}
	})
	p.deal("protected, and lost", 15, 2, func(d *place) {
		d.publish(p.moment(1, 40), "")
		d.protect()
	})
}

// protect protects the domain by the rules: every other one by its organization, with all its
// domains.
func (p *place) protect() {
	p.protected = true
	if p.protectedByOrganization() {
		for _, one := range p.org.domains {
			one.protected = true
		}
	}
}

func (p *place) protectedByOrganization() bool { return p.number%2 == 1 }

// blankOrganizations empties DNS for all domains of some organizations.
func (p *plotter) blankOrganizations(share, least int, kind string, from, to float64) {
	left := max(share*len(p.h.domains)/2000, least)
	chosen := map[*organization]bool{}
	for _, d := range p.deck[:left] {
		chosen[d.org] = true
	}
	rest := p.deck[:0]
	for _, d := range p.deck {
		if !chosen[d.org] {
			rest = append(rest, d)
			continue
		}
		d.kind, d.blank = kind, spans{{p.h.start.Add(hours(24 * from)), p.h.start.Add(hours(24 * to))}}
	}
	p.deck = rest
}

// protect returns the rule that protects domains: by name, or by organization.
func (h *history) protect() (names []string) {
	for _, d := range h.domains {
		switch {
		case !d.protected:
		case d.protectedByOrganization():
			names = append(names, d.org.id)
		default:
			names = append(names, strings.ToUpper(d.name))
		}
	}
	return names
}

// at returns the record at a time.
func (p *place) at(t time.Time) state {
	p.reach(t)
	for i := len(p.states) - 1; i > 0; i-- {
		if !p.states[i].at.After(t) {
			return p.states[i]
		}
	}
	return p.states[0]
}

// reach applies the changes of other clients until a time.
func (p *place) reach(t time.Time) {
	for p.next < len(p.hands) && !p.hands[p.next].at.After(t) {
		s := p.states[len(p.states)-1]
		s.at = p.hands[p.next].at
		p.hands[p.next].what(&s)
		p.states = append(p.states, s)
		p.next++
	}
}

// txt returns the TXT record of the host at a time.
func (p *place) txt(t time.Time) string {
	token := ""
	for _, z := range p.zone {
		if z.at.After(t) {
			break
		}
		token = z.token
	}
	return token
}

// takes reports whether a revocation changes the record.
func (s state) takes(set sweep.Setting) bool {
	return !s.gone && s.verified && s.flag != nil && (set == sweep.SetPending || *s.flag)
}
