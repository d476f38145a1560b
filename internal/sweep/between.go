package sweep

import "time"

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
