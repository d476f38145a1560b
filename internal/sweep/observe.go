package sweep

import (
	"fmt"
	"slices"
	"time"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/events"
	"orgops/internal/untrusted"
)

// Observation is the result of a check of a domain's token by a sweep.
type Observation struct {
	discovery.Domain // the record that was checked

	Tick     int64 // of the sweep
	Verdict  dnscheck.Verdict
	Proof    []byte // the evidence that the token was proven too; nil: it was not
	Operator string // of the name servers; "": unknown
	// Finding is the customer's mistake with an absent record; nil: none was found, or looked for.
	Finding *report.Finding
	At      time.Time
}

// Observe returns the state after the observation, and the names to count for its tick. By the
// rules the domain is lost from then on. A second observation of a tick, or one of an earlier
// tick, changes nothing.
func (s DomainState) Observe(o Observation, rules Rules) (after DomainState, counted []string) {
	// An observation of an older sweep, or a second one of the same, changes nothing.
	if o.Tick < s.Tick && !isAhead(s.Tick, o.At) {
		return s, nil
	}
	after = s.of(o)
	if o.Tick == after.Tick {
		return after, nil
	}

	// Store the observation.
	after.Tick = o.Tick
	after.At = second(o.At)
	after.Sweeps++
	after.FlagOmitted = o.Flag == nil
	after.State = o.Verdict.State.String()
	after.Reason = string(o.Verdict.Reason)
	after.Sentence = ""
	after.Mistake = ""
	after.Values = nil
	if o.Operator != "" {
		after.Operator = o.Operator
	}

	// Apply the rules. A domain is lost once it was proven and then absent for long enough.
	switch o.Verdict.State {
	case dnscheck.Present:
		if after.FirstPresent.IsZero() {
			after.FirstPresent = after.At
		}
		if after.Absence != nil {
			after.Found(o.ID, o.At)
		}
		if after.LastPresent = after.At; after.Proven == nil && o.Proof != nil {
			after.Proven = &Proof{after.At, o.Proof}
		}
	case dnscheck.Absent:
		after.describe(o)
		after.countAbsence(o)
		if a := after.Absence; a != nil && after.Proven != nil && a.Lost.IsZero() && rules.TooShort(after) == "" {
			a.Lost = after.At
			why := fmt.Sprintf("%d sweeps have found it gone, over %s: %s", a.Checks, inDays(after.AbsentFor()), after.Sentence)
			after.Note(o.At, "lost", why)
			after.notify(events.DomainLost, o.ID, o.Tick, o.At,
				events.Data{Reason: why, Mistake: after.Mistake, Since: a.Since})
		}
	default:
		after.describe(o)
	}

	// The counts of the sweep to which it adds.
	counted = []string{after.State}
	if after.IsLost() {
		counted = append(counted, countLost)
	}
	if rules.Unproven(after) {
		counted = append(counted, countUnproven)
	}
	if after.Operator != "" {
		counted = append(counted, operatorCount(after.Operator))
	}
	return after, counted
}

// of returns the state of the observed organization, domain and token. The state of
// another token is dropped except for the history and for the value taken from the
// domain: that is given back by a proof of the token that the domain has then.
func (s DomainState) of(o Observation) DomainState {
	after := s.Clone()
	hash := HashToken(o.Host, o.TXT)
	after.V = stateVersion
	if s.OrganizationID == o.OrganizationID && s.TokenHash == hash {
		after.Domain = o.Name
		return after
	}
	before := after
	after = DomainState{
		V: stateVersion, OrganizationID: o.OrganizationID, Domain: o.Name, TokenHash: hash,
		History: before.History, Pending: before.Pending, Operator: before.Operator,
	}
	if before.OrganizationID == o.OrganizationID {
		after.Revoked = before.Revoked
	}
	if before.TokenHash != "" {
		after.Note(o.At, "another token", "host or token differ from before; earlier checks no longer count")
	}
	return after
}

// countAbsence counts a sweep that did not find the token. Of a revoked domain it counts
// nothing. The absence of an unproven domain is no event.
func (s *DomainState) countAbsence(o Observation) {
	if s.Revoked != nil {
		return
	}
	if s.Absence != nil && !isAhead(s.Absence.Tick, o.At) {
		s.Absence.Checks++
		s.Absence.Last = s.At
		s.Absence.LastTick = o.Tick
		return
	}
	s.Absence = &Absence{Since: s.At, Tick: o.Tick, Last: s.At, LastTick: o.Tick, Checks: 1, Operator: s.Operator}
	s.Note(o.At, "gone", s.Sentence)
	if s.Proven != nil {
		s.notify(events.DomainAtRisk, o.ID, o.Tick, o.At,
			events.Data{Reason: s.Sentence, Mistake: s.Mistake, Since: s.Absence.Since})
	}
}

// Found clears an absence since the token is there again.
func (s *DomainState) Found(domainID string, at time.Time) {
	since := s.Absence.Since
	s.Absence = nil
	s.LastPresent = second(at)
	s.Note(at, "there again", "")
	if s.Proven != nil {
		s.notify(events.DomainFound, domainID, s.Tick, at, events.Data{Since: since, Reason: "the token is there again"})
	}
}

// describe stores the verdict for people, and the mistake with the record by its name.
func (s *DomainState) describe(o Observation) {
	sentence := o.Verdict.Sentence()
	if o.Finding != nil {
		sentence = o.Finding.Advice(o.Host)
		s.Mistake = string(o.Finding.Mistake)
	}
	s.Sentence = untrusted.Cut(sentence, maxSentence)
	for _, answer := range o.Verdict.Observations {
		for _, value := range answer.Values {
			if quoted := untrusted.QuoteFound(value, maxValue); len(s.Values) < maxValues && !slices.Contains(s.Values, quoted) {
				s.Values = append(s.Values, quoted)
			}
		}
	}
}

// The names that are counted for each lost domain, and for each that is unproven by [Rules].
const (
	countLost     = "lost"
	countUnproven = "unproven"
)

// operatorCount is the name that is counted for each domain whose name servers the operator runs.
func operatorCount(operator string) string { return "operator:" + operator }
