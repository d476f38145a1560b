package sweep

import (
	"slices"
	"strconv"
	"time"

	"orgops/dnscheck"
	"orgops/internal/events"
)

// Observation is the result of a check of a domain's token by a sweep.
type Observation struct {
	DomainID, OrganizationID string
	Domain                   string // name of the domain
	Host, TXT                string // that were checked
	Tick                     int64  // of the sweep
	Verdict                  dnscheck.Verdict
	Operator                 string // of the name servers; "": unknown
	FlagOmitted              bool   // the record omits use_for_organization_discovery
	At                       time.Time
}

// Observe returns the state after the observation, and the names to count for its tick.
// A second observation of a tick, or one of an earlier tick, changes nothing.
func (s DomainState) Observe(o Observation) (after DomainState, counted []string) {
	if o.Tick < s.Tick && !isAhead(s.Tick, o.At) {
		return s, nil
	}
	after = s.of(o)
	if o.Tick == after.Tick {
		return after, nil
	}
	after.Tick, after.At, after.Sweeps = o.Tick, second(o.At), after.Sweeps+1
	after.FlagOmitted = o.FlagOmitted
	after.State, after.Reason = o.Verdict.State.String(), string(o.Verdict.Reason)
	after.Sentence, after.Values = "", nil
	if o.Operator != "" {
		after.Operator = o.Operator
	}
	switch o.Verdict.State {
	case dnscheck.Present:
		if after.FirstPresent.IsZero() {
			after.FirstPresent = after.At
		}
		if after.Absence != nil {
			after.returned(o.DomainID, o.Tick, o.At)
		}
		after.LastPresent = after.At
	case dnscheck.Absent:
		after.describe(o.Verdict)
		after.countAbsence(o)
	default:
		after.describe(o.Verdict)
	}
	counted = []string{after.State}
	if after.Operator != "" {
		counted = append(counted, operatorCount(after.Operator))
	}
	return after, counted
}

// of returns the state of the observed organization, domain and token. The state of
// another token is dropped except for the history and for the value taken from the
// domain: that is given back by a proof of the token that the domain has then.
func (s DomainState) of(o Observation) DomainState {
	after, hash := s.Clone(), HashToken(o.Host, o.TXT)
	after.V = stateVersion
	if s.OrganizationID == o.OrganizationID && s.TokenHash == hash {
		after.Domain, after.Host, after.TXT = o.Domain, o.Host, o.TXT
		return after
	}
	before := after
	after = DomainState{
		V: stateVersion, OrganizationID: o.OrganizationID, Domain: o.Domain, TokenHash: hash, Host: o.Host, TXT: o.TXT,
		History: before.History, Pending: before.Pending, Operator: before.Operator,
	}
	if before.OrganizationID == o.OrganizationID {
		after.Taken, after.InProgress = before.Taken, before.InProgress
	}
	if before.TokenHash != "" {
		after.Note(o.At, "another token", "host or token differ from before; earlier checks no longer count")
	}
	return after
}

// countAbsence counts a sweep that did not find the token. After an action it counts
// nothing.
func (s *DomainState) countAbsence(o Observation) {
	if s.Taken != nil {
		return
	}
	if s.Absence != nil && !isAhead(s.Absence.Tick, o.At) {
		s.Absence.Checks++
		s.Absence.Last, s.Absence.LastTick = s.At, o.Tick
		return
	}
	s.Absence = &Absence{Since: s.At, Tick: o.Tick, Last: s.At, LastTick: o.Tick, Checks: 1, Operator: s.Operator}
	s.Note(o.At, "gone", s.Sentence)
	s.notify(events.DomainAtRisk, o.DomainID, o.Tick, o.At, events.Data{Reason: s.Sentence, Since: s.Absence.Since})
}

// returned clears an absence since the token is there again.
func (s *DomainState) returned(domainID string, tick int64, at time.Time) {
	since := s.Absence.Since
	s.Absence = nil
	s.LastPresent = second(at)
	s.Note(at, "there again", "")
	s.notify(events.DomainRestored, domainID, tick, at, events.Data{Since: since, Reason: "the token is there again"})
}

// describe stores the verdict for people.
func (s *DomainState) describe(v dnscheck.Verdict) {
	s.Sentence = events.Cut(v.Sentence(), maxSentence)
	for _, o := range v.Observations {
		for _, value := range o.Values {
			if len(value) > maxValue {
				value = value[:maxValue] + "…"
			}
			if quoted := strconv.QuoteToASCII(value); len(s.Values) < maxValues && !slices.Contains(s.Values, quoted) {
				s.Values = append(s.Values, quoted)
			}
		}
	}
}

// operatorCount is the name that is counted for each domain whose name servers the operator runs.
func operatorCount(operator string) string { return "operator:" + operator }

// longestBetween is how long after the last sweep's check the checks between two sweeps
// continue.
const longestBetween = 8 * 24 * time.Hour

// NotBetween reports whether a check between two sweeps at that time would do nothing, so
// that it need not be submitted.
func (s DomainState) NotBetween(at time.Time) bool {
	return s.IdleBetween(at) != "" && len(s.Pending) == 0 // the check would notify pending events
}

// IdleBetween returns why a check between two sweeps at that time does nothing, whatever
// its answer; "": it may clear the absence, give back the taken value, or store why not.
func (s DomainState) IdleBetween(at time.Time) string {
	switch {
	case !s.Watched():
		return "nothing is wrong any more"
	case at.Sub(s.At) > longestBetween:
		return "waiting for the next sweep"
	case s.Host == "" || s.TXT == "":
		return "the state has no host and token: waiting for the next sweep"
	case s.Absence != nil:
		return ""
	case s.Taken == nil:
		return "waiting for the result of an action on the domain"
	case s.TookStatus() && s.Withheld() != "" && s.noted(historyWithheld, s.Withheld()): // only a sweep reads the flag again
		return "not restored: " + s.Withheld()
	}
	return ""
}

// FoundBetween clears the absence, since a check between two sweeps has found the token. It was
// made by the state checked, and proves nothing about another token, or about a state that a
// later sweep has replaced: same reports whether the state is still that one.
func (s *DomainState) FoundBetween(domainID string, checked DomainState, at time.Time) (same bool) {
	if s.OrganizationID != checked.OrganizationID || s.TokenHash != checked.TokenHash || s.Tick != checked.Tick {
		return false
	}
	if s.Absence != nil {
		s.returned(domainID, s.Tick, at)
	}
	return true
}
