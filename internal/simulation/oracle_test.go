package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"orgops/internal/events"
	"orgops/internal/sweep"
)

// The oracle compares the history with the PATCHes and the events. It knows the guarantees:
// for how long, and by how many sweeps, a token must be found absent, and which revocations are
// forbidden. It does not use the rules by which domains are selected.

// judge compares all PATCHes and events, and all missing ones, with the history.
func (s *simulation) judge() {
	for _, p := range s.api.patches {
		if wrong := s.wrong(p); wrong != "" {
			s.bad[p.place] = true
			s.t.Errorf("%v, %s (%s): %s; it was %s, and is %s", p.at, p.place.id, p.place.kind, wrong, p.before, p.after)
		}
	}
	for _, d := range s.h.domains {
		s.holdLosses(d)
		s.holdReturns(d)
		s.holdEvents(d)
	}
	for _, d := range s.h.domains {
		if s.bad[d] {
			s.t.Logf("the story of %s (%s):\n%s", d.id, d.kind, s.story(d))
		}
	}
	if !s.swept() {
		s.t.Errorf("the last sweep has no summary")
	}
}

func (s state) String() string {
	text := "pending"
	if s.verified {
		text = "verified"
	}
	switch {
	case s.flag == nil:
		return text + ", flag omitted"
	case *s.flag:
		return text + ", routed"
	}
	return text + ", not routed"
}

// took reports whether the PATCH has revoked the domain.
func (s *simulation) took(p patch) bool {
	return p.before.takes(s.set) && !p.after.takes(s.set)
}

// undid reports whether the PATCH reverts a restoration whose answer was lost, since the
// proof could not be repeated. The domain is restored again later.
func (s *simulation) undid(p patch) bool {
	return s.took(p) && slices.ContainsFunc(s.api.patches, func(earlier patch) bool {
		return earlier.place == p.place && s.gaveBack(earlier) && earlier.at.Before(p.at) && p.at.Sub(earlier.at) < time.Hour
	})
}

// gaveBack reports whether the PATCH has given that back.
func (s *simulation) gaveBack(p patch) bool {
	if s.set == sweep.Unroute {
		return !routed(p.before) && routed(p.after)
	}
	return !p.before.verified && p.after.verified
}

func routed(s state) bool { return s.flag == nil || *s.flag }

// wrong returns the fault of a PATCH, or "".
func (s *simulation) wrong(p patch) string {
	if slices.ContainsFunc(p.place.hands, func(h hand) bool { return !h.at.After(p.at) && p.at.Sub(h.at) <= oldest }) {
		return "" // the record may have been read as it was before
	}
	unroutes := s.set == sweep.Unroute
	switch {
	case p.before.flag == nil:
		return "the flag was changed although the record did not say it"
	case unroutes && p.before.verified != p.after.verified:
		return "the status was changed where only the flag is to be"
	case !unroutes && *p.before.flag != *p.after.flag:
		return "the flag was changed where only the status is to be"
	case s.undid(p):
		return ""
	case s.took(p):
		return s.wronglyTaken(p)
	case s.gaveBack(p):
		return s.wronglyGiven(p)
	}
	return ""
}

func (s *simulation) wronglyTaken(p patch) string {
	n := len(p.place.disproofs)
	for n > 0 && p.place.disproofs[n-1].After(p.at) {
		n--
	}
	if n == 0 {
		return "revoked without a disproof"
	}
	disproved := p.place.disproofs[n-1]
	_, before := p.place.goneAt(disproved)
	switch {
	case p.at.Sub(disproved) > oldest:
		return fmt.Sprintf("revoked by a disproof that is %v old", p.at.Sub(disproved))
	case !before && !p.place.blank.holds(disproved):
		return "revoked although the record was published from before the disproof until the PATCH"
	case !p.place.everPublished(p.before.token, p.at):
		return "revoked although its token was never published"
	case p.place.protected:
		return "revoked although it is protected"
	case p.place.operator == "closed" && p.at.Before(s.h.confirms[0]):
		return "revoked with others of its operator, whom nobody has named"
	case p.place.operator == "emptied":
		return "revoked with others of its operator, which is the cause"
	}
	// Sweeps count from the last check that found the token, or from its change.
	since := s.h.start
	for _, at := range p.place.found {
		if at.Before(p.at) && at.After(since) {
			since = at
		}
	}
	for i, state := range p.place.states {
		if i > 0 && state.token != p.place.states[i-1].token && state.at.Before(p.at) && state.at.After(since) {
			since = state.at
		}
	}
	for _, earlier := range s.api.patches {
		if earlier.place == p.place && s.took(earlier) && earlier.at.Before(p.at) && earlier.at.After(since) {
			since = earlier.at
		}
	}
	first := slices.IndexFunc(p.place.missed, func(at time.Time) bool { return !at.Before(since) })
	if first < 0 || p.at.Sub(p.place.missed[first]) < s.rules.Grace {
		return fmt.Sprintf("revoked before checks had missed it for the grace; they found it, or another token, at %v", since)
	}
	if n := p.place.missedOn(span{since, p.at}); n < s.rules.AbsentChecks {
		return fmt.Sprintf("revoked although checks missed the token on %d days only", n)
	}
	return s.tooMany(p)
}

// tooMany returns what is wrong if more domains were revoked in seven days than may be, unless a
// person has allowed it.
func (s *simulation) tooMany(p patch) string {
	week := span{p.at.Add(-7 * day), p.at.Add(time.Second)}
	if slices.ContainsFunc(s.h.confirms, func(at time.Time) bool { return week.meets(span{at, at.Add(2 * day)}) }) {
		return ""
	}
	domains := map[*place]bool{}
	for _, other := range s.api.patches {
		if s.took(other) && week.holds(other.at) {
			domains[other.place] = true
		}
	}
	if most := max(20, len(s.h.domains)/100); len(domains) > most {
		return fmt.Sprintf("the %dth domain that was revoked in seven days", len(domains))
	}
	return ""
}

// missedOn returns the number of days on which checks found the token absent. There is a
// sweep a day.
func (p *place) missedOn(when span) int {
	days := map[time.Time]bool{}
	for _, at := range p.missed {
		if when.holds(at) {
			days[at.Truncate(day)] = true
		}
	}
	return len(days)
}

func (s *simulation) wronglyGiven(p patch) string {
	by := p.before.statusBy
	if s.set == sweep.Unroute {
		by = p.before.flagBy
	}
	_, gone := p.place.goneAt(p.at)
	switch {
	case by != byUs:
		return "given back what was not taken away by us"
	case gone:
		return "given back while the token is gone"
	case p.place.thin.holds(p.at):
		return "given back by half of the name servers"
	}
	return ""
}

// gone returns the times in which the token of the record was not published, each of one token.
func (p *place) gone() (all spans) {
	var turns []time.Time
	for _, z := range p.zone {
		turns = append(turns, z.at)
	}
	for i, s := range p.states {
		if i > 0 && s.token != p.states[i-1].token {
			turns = append(turns, s.at)
		}
	}
	slices.SortFunc(turns, time.Time.Compare)
	const forever = 1000 * day
	for i, from := range turns {
		to := from.Add(forever)
		if i+1 < len(turns) {
			to = turns[i+1]
		}
		now := p.at(from)
		if p.txt(from) == now.token {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to.Equal(from) && p.at(all[n-1].from).token == now.token {
			all[n-1].to = to
			continue
		}
		all = append(all, span{from, to})
	}
	return all
}

func (p *place) goneAt(t time.Time) (span, bool) {
	for _, g := range p.gone() {
		if g.holds(t) {
			return g, true
		}
	}
	return span{}, false
}

// segment is a time in which a record did not change.
type segment struct {
	span
	state
}

func (s *simulation) segments(p *place) (all []segment) {
	p.reach(s.h.end)
	for i, one := range p.states {
		to := s.h.end
		if i+1 < len(p.states) {
			to = p.states[i+1].at
		}
		all = append(all, segment{span{one.at, to}, one})
	}
	return all
}

// common returns the time that both have.
func (s span) common(o span) (span, bool) {
	if o.from.After(s.from) {
		s.from = o.from
	}
	if o.to.Before(s.to) {
		s.to = o.to
	}
	return s, s.from.Before(s.to)
}

// latest returns when a domain that is lost from a time on is reported at the latest.
func (s *simulation) latest(p *place, lost time.Time) time.Time {
	seen := s.quiet(p, lost, max(s.slack-1, 1))
	return s.quiet(p, seen.Add(s.rules.Grace), s.slack)
}

// quiet returns the time after that many whole days without trouble.
func (s *simulation) quiet(p *place, from time.Time, days int) time.Time {
	from = from.Truncate(day).Add(day)
	for days > 0 {
		today := span{from, from.Add(day)}
		from = today.to
		if !s.troubled(p, today) {
			days--
		}
	}
	return from
}

func (s *simulation) troubled(p *place, today span) bool {
	for _, trouble := range []spans{s.h.outages, s.h.lies, s.h.refusals, p.down, p.blank, p.thin, p.hidden} {
		if trouble.meets(today) {
			return true
		}
	}
	return false
}

// holdLosses checks that the loss of a domain that lasts long enough is reported, and that the
// domain is revoked once a person revokes all.
func (s *simulation) holdLosses(p *place) {
	for _, seg := range s.segments(p) {
		if seg.gone || !seg.verified || s.ours(seg.state) {
			continue
		}
		for _, g := range p.gone() {
			lost, is := g.common(seg.span)
			latest := s.latest(p, lost.from)
			if !is || !latest.Before(lost.to) || !s.proven(p, seg.token, lost.from) {
				continue
			}
			// Grace counts from the first check that missed the token, which may be one of before.
			if !s.reported(p, span{lost.from, latest}) {
				s.bad[p] = true
				s.t.Errorf("%s (%s) is lost from %v to %v, and was not reported by %v", p.id, p.kind, lost.from, lost.to, latest)
			}
			for _, at := range s.h.confirms {
				if by := s.quiet(p, at, s.slack); seg.takes(s.set) && !p.protected && latest.Before(at) && by.Before(lost.to) {
					s.bad[p] = true
					s.t.Errorf("%s (%s) is lost from %v to %v, and was not revoked by %v", p.id, p.kind, lost.from, lost.to, by)
				}
			}
		}
	}
}

// everPublished reports whether the token was published at some time before.
func (p *place) everPublished(token string, before time.Time) bool {
	return slices.ContainsFunc(p.zone, func(z published) bool { return z.token == token && z.at.Before(before) })
}

// proven reports whether a sweep has proven a token of the verified record before that time, unless
// it was published, or the record's, for too short.
func (s *simulation) proven(p *place, token string, before time.Time) bool {
	for _, seg := range s.segments(p) {
		for i, z := range p.zone {
			shown := span{z.at, before}
			if i+1 < len(p.zone) {
				shown, _ = shown.common(span{z.at, p.zone[i+1].at})
			}
			both, is := shown.common(seg.span)
			if is && seg.verified && seg.token == token && z.token == token && s.quiet(p, both.from, s.slack).Before(both.to) {
				return true
			}
		}
	}
	return false
}

// reported reports whether a loss was notified in that time.
func (s *simulation) reported(p *place, when span) bool {
	for _, n := range s.events {
		if n.Type == events.DomainLost && n.Data.DiscoveryDomainID == p.id && when.holds(n.At) {
			return true
		}
	}
	return false
}

// holdReturns checks that a revocation is undone when the token is published again.
func (s *simulation) holdReturns(p *place) {
	gone := p.gone()
	for _, seg := range s.segments(p) {
		if seg.gone || !s.ours(seg.state) {
			continue
		}
		there := seg.from
		for _, g := range append(gone, span{s.h.end, s.h.end.Add(day)}) {
			if by := s.quiet(p, there, s.slack); by.Before(seg.to) && by.Before(g.from) {
				s.bad[p] = true
				s.t.Errorf("%s (%s) has its token since %v, and was not given back by %v", p.id, p.kind, there, by)
			}
			if g.to.After(there) {
				there = g.to
			}
		}
	}
}

// ours reports whether the record is in the state that a revocation leaves.
func (s *simulation) ours(r state) bool {
	if s.set == sweep.Unroute {
		return r.verified && !routed(r) && r.flagBy == byUs
	}
	return !r.verified && r.statusBy == byUs
}

// holdEvents checks that each change is notified once, and that nothing else is.
func (s *simulation) holdEvents(p *place) {
	notified := map[string]int{}
	for _, n := range s.events {
		if n.Data.DiscoveryDomainID != p.id {
			continue
		}
		notified[n.Type]++
		if n.Type != events.DomainAtRisk && n.Type != events.DomainLost {
			continue
		}
		if !s.mayMiss(p, n.At) {
			s.bad[p] = true
			s.t.Errorf("%s (%s) is notified as %s at %v, and its token is there", p.id, p.kind, n.Type, n.At)
		}
		if !p.everPublished(p.at(n.At).token, n.At) {
			s.bad[p] = true
			s.t.Errorf("%s (%s) is notified as %s at %v, and its token was never published", p.id, p.kind, n.Type, n.At)
		}
	}
	var took, back int
	for _, patch := range s.api.patches {
		switch {
		case patch.place != p:
		case s.undid(patch):
			back--
		case s.took(patch):
			took++
		case s.gaveBack(patch):
			back++
		}
	}
	if notified[events.DomainLost] < took || notified[events.DomainAtRisk] < notified[events.DomainLost] ||
		notified[events.DomainFound] < back {
		s.bad[p] = true
		s.t.Errorf("%s (%s) was revoked %d times and restored %d times, and notified: %v", p.id, p.kind, took, back, notified)
	}
}

// mayMiss reports whether a check at that time may have missed the token: caches are up to
// an hour old.
func (s *simulation) mayMiss(p *place, at time.Time) bool {
	cached := at.Add(-time.Hour)
	_, gone := p.goneAt(at)
	_, was := p.goneAt(cached)
	blank := p.blank.holds(at) || p.blank.holds(cached)
	return gone || was || blank || p.split || p.noisy > 0 || s.h.lies.holds(at)
}

// fickle are the kinds whose result depends on the hour of a revocation.
var fickle = []string{"comes and goes", "acted on, given back by hand, and taken away by hand"}

// settled returns the records at the end, of the domains whose last event is so long ago
// that all consequences have followed.
func (s *simulation) settled() map[string]string {
	all := map[string]string{}
	for _, p := range s.h.domains {
		last := p.zone[len(p.zone)-1].at
		if n := len(p.hands); n > 0 && p.hands[n-1].at.After(last) {
			last = p.hands[n-1].at
		}
		revoked := s.h.confirms[len(s.h.confirms)-1]
		if s.latest(p, last).Before(revoked) && s.quiet(p, revoked, s.slack).Before(s.h.end) &&
			!slices.Contains(fickle, p.kind) {
			all[p.id] = p.at(s.h.end).String()
		}
	}
	return all
}
