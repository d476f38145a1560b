package dnscheck

import (
	"cmp"
	"slices"
	"time"
)

type tally struct {
	quorum                  int
	span                    bool // a quorum has to span two perspectives
	required                bool // a proof needs authenticated answers
	present, absent         votes
	unknown, pending, bogus int
	authenticated           int   // answers with AD
	confirmed               votes // those of them with the token
}

func (t *tally) add(o Observation) {
	t.pending--
	if o.Reason == ReasonDNSSEC {
		t.bogus++
	}
	if o.Authenticated && o.State != Unknown {
		t.authenticated++
	}
	switch o.State {
	case Present:
		t.present.add(o.Perspective)
		if o.Authenticated {
			t.confirmed.add(o.Perspective)
		}
	case Absent:
		t.absent.add(o.Perspective)
	default:
		t.unknown++
	}
}

func (t tally) check() (State, bool) {
	switch {
	case t.present.count > 0:
		return Present, true
	case t.absent.count >= t.quorum:
		return Absent, true
	}
	return Unknown, t.pending == 0
}

// majority is the decision of a quorum, for advice. A quorum is more than half, so that there
// cannot be two.
func (t tally) majority() (State, bool) {
	switch {
	case t.present.count >= t.quorum:
		return Present, true
	case t.absent.count >= t.quorum:
		return Absent, true
	}
	return Unknown, max(t.present.count, t.absent.count)+t.pending < t.quorum
}

// proof is the decision of a proof, which waits for each resolver.
func (t tally) proof() (State, bool) {
	state, _ := t.majority()
	if t.objection() != "" {
		state = Unknown
	}
	return state, t.pending == 0
}

// objection is the reason why nothing is proven even though a quorum sees the token, or why
// the observations do not count at all; empty: none.
func (t tally) objection() Reason {
	switch {
	case t.bogus > 0:
		return ReasonDNSSEC
	case t.present.count < t.quorum:
		return ""
	case t.present.count+t.absent.count+t.unknown+t.pending < minResolvers:
		return ReasonTooFewResolvers
	case t.authenticated > 0 && t.confirmed.count < t.quorum:
		return ReasonUnconfirmed
	case t.required && t.confirmed.count < t.quorum:
		return ReasonUnsigned
	}
	counted := t.present
	if t.required || t.authenticated > 0 {
		counted = t.confirmed
	}
	if t.span && !counted.several {
		return ReasonOnePerspective
	}
	return ""
}

// disproof is the decision of a disproof, which waits for each resolver.
func (t tally) disproof() (State, bool) {
	switch {
	case t.present.count > 0:
		return Present, t.pending == 0
	case t.absent.count >= t.quorum && (!t.span || t.absent.several):
		return Absent, t.pending == 0
	}
	return Unknown, t.pending == 0
}

// verdict returns the verdict for a state. Observations without a reason are pending.
func (t tally) verdict(state State, host string, observations []Observation) Verdict {
	done := slices.DeleteFunc(observations, func(o Observation) bool { return o.Reason == "" })
	v := Verdict{State: state, Host: host, Observations: done, Reason: reasonOf(state, done), Basis: ByResolvers}
	switch state {
	case Absent:
		v.NegativeTTL = longestNegativeTTL(done)
	case Unknown:
		v.Reason = cmp.Or(t.objection(), v.Reason)
	}
	return v
}

func longestNegativeTTL(observations []Observation) (ttl time.Duration) {
	for _, o := range observations {
		ttl = max(ttl, o.NegativeTTL)
	}
	return ttl
}

// reasonOf returns the most informative reason of the observations.
func reasonOf(state State, observations []Observation) Reason {
	seen := make(map[Reason]int)
	for _, o := range observations {
		seen[o.Reason]++
	}
	switch state {
	case Present:
		return ReasonFound
	case Absent:
		return firstOf(seen, absences)
	}
	if seen[ReasonFound] > 0 && seen[ReasonOtherValue]+seen[ReasonNoRecord]+seen[ReasonNoName] > 0 {
		return ReasonDisagree
	}
	return firstOf(seen, doubts)
}

// The reasons of Absent and of Unknown, the most informative first: of Unknown those that lie
// with the domain precede those that may lie with us.
var (
	absences = []Reason{ReasonOtherValue, ReasonNoRecord, ReasonNoName}
	doubts   = []Reason{
		ReasonServersDisagree, ReasonDNSSEC, ReasonDelegation, ReasonTooFew, ReasonLame, ReasonServFail, ReasonAlias,
		ReasonRefused, ReasonRCode, ReasonMalformed, ReasonTimeout, ReasonUnreachable,
	}
)

func firstOf(seen map[Reason]int, order []Reason) Reason {
	for _, reason := range order {
		if seen[reason] > 0 {
			return reason
		}
	}
	return ReasonMalformed // not reached: each observation has one of these reasons
}
