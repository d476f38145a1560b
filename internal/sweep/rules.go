package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/dnscheck/dnsname"
)

// Defaults of the rules.
const (
	DefaultGrace        = 7 * 24 * time.Hour
	DefaultAbsentChecks = 3
)

// Rules decide when a domain whose token is gone is lost, and which domains may be revoked.
type Rules struct {
	// Grace is how long the token must be gone, from the first check of a sweep that did
	// not find it to the last one; 0: DefaultGrace.
	Grace time.Duration
	// AbsentChecks is how many sweeps in a row must have found the token gone; sweeps
	// without an answer are not counted. 0: DefaultAbsentChecks.
	AbsentChecks int
	// Protect lists domains, each with its subdomains, and ids of organizations that are
	// never revoked.
	Protect []string
}

// Tightened returns the rules with a longer grace and more sweeps, if these are more.
func (r Rules) Tightened(grace time.Duration, checks int) Rules {
	r.Grace = max(cmp.Or(r.Grace, DefaultGrace), grace)
	r.AbsentChecks = max(cmp.Or(r.AbsentChecks, DefaultAbsentChecks), checks)
	return r
}

// TooShort returns why an absence does not suffice; "": it does.
func (r Rules) TooShort(s DomainState) string {
	rules := r.Tightened(0, 0)
	a := s.Absence
	gone := s.AbsentFor()
	if a == nil {
		return "the token is not known to be gone"
	}
	if a.Checks < rules.AbsentChecks || gone < rules.Grace {
		return fmt.Sprintf("%d of %d sweeps have found it gone, over %s of %s", a.Checks, rules.AbsentChecks,
			inDays(gone), inDays(rules.Grace))
	}
	return ""
}

// Unproven reports whether the last sweep found the token of a domain gone that would be lost by
// then if its token had ever been proven.
func (r Rules) Unproven(s DomainState) bool {
	return s.State == stateAbsent && s.Proven == nil && r.TooShort(s) == ""
}

// unproven is why a domain is never lost.
const unproven = "unproven: its token was never proven, so its absence proves nothing"

// Unfit returns why a domain with that state is not revoked; "": it qualifies. complete is the
// tick of the last complete sweep; 0: there was none. If a later sweep, which may still be in
// progress, has checked the domain, the state is that sweep's: it must have found the token gone
// too.
func (r Rules) Unfit(s DomainState, complete int64) string {
	switch {
	case s.Revoked != nil && s.Revoked.DoneAt.IsZero():
		return "a request of run " + s.Revoked.Run + " may have revoked it"
	case s.Revoked != nil:
		return "it was revoked by run " + s.Revoked.Run
	case s.Absence == nil:
		return r.TooShort(s)
	case s.Proven == nil:
		return unproven
	case r.protects(s.OrganizationID, s.Domain):
		return "it is protected"
	case s.State != stateAbsent:
		return "the last sweep had no answer"
	case complete == 0 || s.Tick < complete || s.Absence.Tick > complete:
		return "the last complete sweep has not found it gone"
	case r.TooShort(s) != "":
		return r.TooShort(s)
	case s.FlagOmitted:
		return "its record has no use_for_organization_discovery, so what a change would replace is not known: set it explicitly once"
	}
	return ""
}

// protects reports whether the domain is never revoked.
func (r Rules) protects(organization, domain string) bool {
	name := dnsname.Key(domain)
	return slices.ContainsFunc(r.Protect, func(p string) bool {
		protected := dnsname.Key(p)
		return p == organization || name == protected || strings.HasSuffix(name, "."+protected)
	})
}

// inDays formats a duration for people.
func inDays(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return d.Round(time.Second).String()
}
