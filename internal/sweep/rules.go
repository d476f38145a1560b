package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Defaults of the rules.
const (
	DefaultGrace        = 7 * 24 * time.Hour
	DefaultAbsentChecks = 3
)

// Rules decide when a domain whose token is gone is acted on, and how. The zero value
// reports, after the defaults.
type Rules struct {
	Action Action
	// Grace is how long the token must be gone, from the first check of a sweep that did
	// not find it to the last one; 0: DefaultGrace.
	Grace time.Duration
	// AbsentChecks is how many sweeps in a row must have found the token gone; sweeps
	// without an answer are not counted. 0: DefaultAbsentChecks.
	AbsentChecks int
	// Protect lists domains, each with its subdomains, and ids of organizations that are
	// never acted on.
	Protect []string
}

// ActionOn returns the action on the domain once it is due. It is report if the record
// omits use_for_organization_discovery: the value that a PATCH replaces is then unknown and
// cannot be given back.
func (r Rules) ActionOn(s DomainState) Action {
	if s.FlagOmitted {
		return Report
	}
	return r.complete().Action
}

// Omission returns why the domain is only reported, and what to do; "": its record has its
// flag, or the rules only report.
func (r Rules) Omission(s DomainState) string {
	action := r.complete().Action
	if r.ActionOn(s) == action {
		return ""
	}
	return fmt.Sprintf("Only reported: the record has no use_for_organization_discovery, and %s could turn that on or off by the platform's default; "+
		"set the flag explicitly once, or use absent-action report", action)
}

// withOmission appends the omission, if any, to a reason.
func (r Rules) withOmission(why string, s DomainState) string {
	if omission := r.Omission(s); omission != "" {
		why += ". " + omission
	}
	return why
}

func (r Rules) complete() Rules {
	r.Action, r.Grace, r.AbsentChecks = cmp.Or(r.Action, Report), cmp.Or(r.Grace, DefaultGrace), cmp.Or(r.AbsentChecks, DefaultAbsentChecks)
	return r
}

// protects reports whether the domain is never acted on.
func (r Rules) protects(organization, domain string) bool {
	domain = strings.TrimSuffix(domain, ".")
	return slices.ContainsFunc(r.Protect, func(p string) bool {
		p = strings.TrimSuffix(p, ".")
		return p == organization || strings.EqualFold(p, domain) || len(domain) > len(p) && strings.EqualFold(domain[len(domain)-len(p)-1:], "."+p)
	})
}

// Status is the status of a domain by the rules.
type Status string

// The statuses.
const (
	StatusPresent    Status = "present"   // the token is not known to be gone
	StatusAtRisk     Status = "at_risk"   // the token is gone, but not for long enough
	StatusUnsure     Status = "unsure"    // it is gone for long enough, but the last check had no answer
	StatusProtected  Status = "protected" // the domain is never acted on
	StatusDue        Status = "due"       // the domain is to be acted on
	StatusReported   Status = "reported"  // its loss was notified, and no other action follows
	StatusTaken      Status = "taken"     // something was taken away
	StatusInProgress Status = "acting"    // a request may be in progress, or had no response
)

// Assessment is a domain's status by the rules.
type Assessment struct {
	Status    Status
	NotBefore time.Time // of StatusAtRisk: the domain is not acted on before
	Reason    string    // for people
}

// Assess returns the status of a domain with that state. A domain is due only if the last
// sweep found its token absent: a check without an answer neither counts nor acts.
func (r Rules) Assess(s DomainState) Assessment {
	rules := r.complete()
	a, gone := s.Absence, s.AbsentFor()
	switch {
	case s.InProgress != nil:
		return Assessment{Status: StatusInProgress, Reason: "waiting for the result of a request"}
	case s.Taken != nil:
		if why := s.Withheld(); why != "" {
			return Assessment{Status: StatusTaken, Reason: "it was acted on; not restored: " + why}
		}
		return Assessment{Status: StatusTaken, Reason: "it was acted on; restored once the record is there again"}
	case a == nil:
		return Assessment{Status: StatusPresent}
	case rules.protects(s.OrganizationID, s.Domain):
		return Assessment{Status: StatusProtected, Reason: "it is protected"}
	case !a.Reported.IsZero() && (s.FlagOmitted || cmp.Or(a.ReportedAs, Report) == rules.Action):
		return Assessment{Status: StatusReported, Reason: rules.withOmission("its loss was notified at "+a.Reported.Format(time.RFC3339), s)}
	case a.Checks < rules.AbsentChecks || gone < rules.Grace:
		return Assessment{
			Status: StatusAtRisk, NotBefore: a.Since.Add(rules.Grace),
			Reason: fmt.Sprintf("%d of %d sweeps have found it gone, over %s of %s", a.Checks, rules.AbsentChecks, inDays(gone), inDays(rules.Grace)),
		}
	case s.State != stateAbsent:
		return Assessment{Status: StatusUnsure, Reason: "the last sweep had no answer"}
	}
	return Assessment{Status: StatusDue, Reason: rules.withOmission(fmt.Sprintf("%d sweeps have found it gone, over %s", a.Checks, inDays(gone)), s)}
}

// inDays formats a duration for people.
func inDays(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return d.Round(time.Second).String()
}
