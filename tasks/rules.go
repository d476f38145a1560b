package tasks

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is what is done to a verified domain whose token is gone for good.
type Action string

// The actions.
const (
	ActReport  Action = "report"  // it is told, and nothing else
	ActUnroute Action = "unroute" // use_for_organization_discovery is set to false
	ActPending Action = "pending" // the status is set to pending
)

// ParseAction reads an action's name; empty is report.
func ParseAction(name string) (Action, error) {
	switch a := Action(name); a {
	case "":
		return ActReport, nil
	case ActReport, ActUnroute, ActPending:
		return a, nil
	}
	return "", fmt.Errorf("want report, unroute or pending, got %.40q", name)
}

// Defaults of the rules.
const (
	DefaultGrace        = 7 * 24 * time.Hour
	DefaultAbsentChecks = 3
)

// Rules says when a domain that has lost its token is acted on, and how. The zero
// value reports after the defaults.
type Rules struct {
	Action Action
	// Grace is how long the token has to be gone, from the first look that did not
	// see it to the last one of a sweep; 0: DefaultGrace.
	Grace time.Duration
	// AbsentChecks is how many sweeps in a row, but for those that nobody answered,
	// must have found it gone; 0: DefaultAbsentChecks.
	AbsentChecks int
	// Protect are domains, with all below them, and organizations, by id, which are
	// never acted on.
	Protect []string
}

// ActionOn returns the action on the domain once it is due: report where its record omits
// use_for_organization_discovery, since the value that a PATCH replaces is not known then,
// and cannot be given back.
func (r Rules) ActionOn(m Memory) Action {
	if m.FlagOmitted {
		return ActReport
	}
	return r.complete().Action
}

// omission returns why the domain is only reported, and what to do; empty: its record
// says its flag, or the rules only report.
func (r Rules) omission(m Memory) string {
	action := r.complete().Action
	if r.ActionOn(m) == action {
		return ""
	}
	return fmt.Sprintf("Only reported: the record has no use_for_organization_discovery, and %s could turn that on or off by the platform's default; "+
		"set the flag explicitly once, or use absent-action report", action)
}

// because appends the omission, if any, to a reason.
func (r Rules) because(why string, m Memory) string {
	if omission := r.omission(m); omission != "" {
		why += ". " + omission
	}
	return why
}

func (r Rules) complete() Rules {
	if r.Action == "" {
		r.Action = ActReport
	}
	if r.Grace <= 0 {
		r.Grace = DefaultGrace
	}
	if r.AbsentChecks <= 0 {
		r.AbsentChecks = DefaultAbsentChecks
	}
	return r
}

// protects says whether nothing is ever done to the domain.
func (r Rules) protects(organization, domain string) bool {
	return slices.ContainsFunc(r.Protect, func(p string) bool {
		p = strings.TrimSuffix(p, ".")
		return p == organization || sameName(p, domain) || len(domain) > len(p) && strings.EqualFold(domain[len(domain)-len(p)-1:], "."+p)
	})
}

// Standing of a domain by the rules.
const (
	StandsWell      = "present"   // nothing is the matter, as far as is known
	StandsAtRisk    = "at_risk"   // its token is gone, and not for long enough
	StandsUnsure    = "unsure"    // for long enough, but the last look had no answer
	StandsProtected = "protected" // it is never acted on
	StandsDue       = "due"       // it is to be acted on
	StandsReported  = "reported"  // its loss was told, and that is all that is done
	StandsTaken     = "taken"     // something was taken away
	StandsActing    = "acting"    // a request of ours may be under way, or have had no answer
)

// Stands is how a domain stands by the rules.
type Stands struct {
	As   string
	From time.Time // of StandsAtRisk: before then it is not acted on
	Why  string    // in a sentence's words
}

// Decide says how a domain stands that is remembered so. Only what the last look of a
// sweep saw to be absent is due: what nobody could say neither counts nor acts.
func (r Rules) Decide(m Memory) Stands {
	rules := r.complete()
	a := m.Absence
	gone := m.goneFor()
	switch {
	case m.Acting != nil:
		return Stands{As: StandsActing, Why: "waiting for the result of a request"}
	case m.Taken != nil:
		if why := m.Withheld(); why != "" {
			return Stands{As: StandsTaken, Why: "it was acted on; not restored: " + why}
		}
		return Stands{As: StandsTaken, Why: "it was acted on; restored once the record is there again"}
	case a == nil:
		return Stands{As: StandsWell}
	case rules.protects(m.OrganizationID, m.Domain):
		return Stands{As: StandsProtected, Why: "it is protected"}
	case !a.Reported.IsZero() && (m.FlagOmitted || a.reportedAs() == rules.Action):
		return Stands{As: StandsReported, Why: rules.because("its loss was notified at "+a.Reported.Format(time.RFC3339), m)}
	case a.Checks < rules.AbsentChecks || gone < rules.Grace:
		return Stands{As: StandsAtRisk, From: a.Since.Add(rules.Grace), Why: fmt.Sprintf("%d of %d sweeps have found it gone, over %s of %s", a.Checks, rules.AbsentChecks, inDays(gone), inDays(rules.Grace))}
	case m.State != "absent":
		return Stands{As: StandsUnsure, Why: "the last sweep had no answer"}
	}
	return Stands{As: StandsDue, Why: rules.because(fmt.Sprintf("%d sweeps have found it gone, over %s", a.Checks, inDays(gone)), m)}
}

func (a Absence) reportedAs() Action {
	if a.ReportedAs == "" {
		return ActReport
	}
	return a.ReportedAs
}

// inDays writes a time as people say it.
func inDays(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return d.Round(time.Second).String()
}

// Bounds of what may happen to a tenant at once.
const (
	// breakerShare of the organizations that a sweep has read, and at least
	// breakerLeast of them, may have a domain that is newly gone, or due: more opens
	// the breaker.
	breakerShare = 0.05
	breakerLeast = 20
	// togetherLeast domains of one name-server operator, if they are togetherShare of
	// those of that operator, that went absent within together of each other are held
	// back: it is rather the operator than each of their owners.
	togetherLeast = 5
	togetherShare = 0.1
	together      = 36 * time.Hour
)

// Sitting judges the domains of a tenant at the end of a sweep, or as if one had just
// ended. Each attended domain is added, and Decide is called once after the last.
type Sitting struct {
	Rules   Rules
	Breaker Breaker
	// Tick is the sweep's; 0: every domain is judged by the last sweep that looked at it.
	Tick int64
	// Run is the sweep's, for whoever closes the breaker.
	Run string
	// Organizations is how many the sweep has read, and Tally what it has counted.
	Organizations int64
	Tally         map[string]int64
	// Whole says that the sweep has read every organization of the tenant.
	Whole bool
	// Early is why the sweep has not come to all organizations; empty: it has.
	Early string
	At    time.Time

	cases      []Case
	byOperator map[string][]time.Time // when absences began, by who ran the name servers
}

// Case is a domain that was judged.
type Case struct {
	ID, OrganizationID, Domain string
	Stands
	Held string // why nothing is done although it is due; empty: it is done
	// Missed says that the sweep has come to all organizations, and not upon it.
	Missed bool

	back     bool // what is under way gives it back
	since    time.Time
	operator string
	newly    bool
}

// Add adds a domain. What is remembered of it is not kept: there may be many.
func (s *Sitting) Add(id string, m Memory) {
	c := Case{ID: id, OrganizationID: m.OrganizationID, Domain: m.Domain, Stands: s.Rules.Decide(m)}
	if s.Tick != 0 && m.Tick != s.Tick {
		c.Missed = s.Whole
		if c.As == StandsDue {
			c.Stands = Stands{As: StandsUnsure, Why: "this sweep has not checked it"}
		}
	}
	c.back = m.Acting != nil && m.Acting.Back
	if a := m.Absence; a != nil {
		c.since, c.operator, c.newly = a.Since, a.Operator, a.Tick == m.Tick && (s.Tick == 0 || s.Tick == m.Tick)
		if a.Operator != "" {
			if s.byOperator == nil {
				s.byOperator = map[string][]time.Time{}
			}
			s.byOperator[a.Operator] = append(s.byOperator[a.Operator], a.Since)
		}
	}
	s.cases = append(s.cases, c)
}

// Decide returns what becomes of each domain, the breaker as it is from now on, and
// what the sweep has come to.
func (s *Sitting) Decide() (cases []Case, breaker Breaker, judged Judged) {
	for _, since := range s.byOperator {
		slices.SortFunc(since, time.Time.Compare)
	}
	breaker = s.breaker()
	judged = Judged{
		Tick: s.Tick, Run: s.Run, At: second(s.At), Organizations: s.Organizations,
		Present: s.Tally["present"], Absent: s.Tally["absent"], Unknown: s.Tally["unknown"], Why: s.Early,
	}
	for i := range s.cases {
		c := &s.cases[i]
		if c.newly {
			judged.Newly++
		}
		if c.As == StandsDue {
			c.Held = s.held(*c, breaker)
		}
		switch {
		case c.Held != "":
			judged.Held++
			judged.Why = c.Held
			if !breaker.Open {
				breaker.ID, breaker.Why = s.Run, c.Held
			}
		case c.As == StandsDue:
			judged.Acted++
		case c.As == StandsAtRisk, c.As == StandsUnsure:
			judged.AtRisk++
		case c.As == StandsProtected:
			judged.Protected++
		}
	}
	return s.cases, breaker, judged
}

// breaker is the breaker after this sweep: it opens where the domains of too many
// organizations are newly gone, or due, at once. What an operator has confirmed is
// not counted.
func (s *Sitting) breaker() Breaker {
	b := s.Breaker
	if b.Open {
		return b
	}
	if s.Whole || s.Tick == 0 { // one of a single organization says nothing of what others have held back
		b.ID, b.Why = "", ""
	}
	newly, due := map[string]bool{}, map[string]bool{}
	for _, c := range s.cases {
		if c.since.Before(b.Confirmed) {
			continue
		}
		if c.newly {
			newly[c.OrganizationID] = true
		}
		if c.As == StandsDue && s.heldWithOthers(c, b) == "" {
			due[c.OrganizationID] = true
		}
	}
	for _, m := range []struct {
		organizations int
		what          string
	}{{len(newly), "are newly gone"}, {len(due), "are to be acted on at once"}} {
		if m.organizations >= breakerLeast && float64(m.organizations) > breakerShare*float64(s.Organizations) {
			b.Open, b.ID, b.At = true, s.Run, second(s.At)
			b.Why = fmt.Sprintf("the tokens of %d of the %d organizations that were swept %s", m.organizations, s.Organizations, m.what)
			return b
		}
	}
	return b
}

// held says why nothing is done about a domain that is due.
func (s *Sitting) held(c Case, b Breaker) string {
	switch {
	case b.Open:
		return "the breaker is open: " + b.Why
	case s.Early != "":
		return s.Early
	}
	return s.heldWithOthers(c, b)
}

// heldWithOthers says why nothing is done about a domain that went absent together with
// others of its name-server operator.
func (s *Sitting) heldWithOthers(c Case, b Breaker) string {
	if c.operator == "" || c.since.Before(b.Confirmed) {
		return ""
	}
	went := s.byOperator[c.operator]
	first, _ := slices.BinarySearchFunc(went, c.since.Add(-together), time.Time.Compare)
	past, _ := slices.BinarySearchFunc(went, c.since.Add(together+1), time.Time.Compare)
	n := past - first
	of := max(s.Tally[operatorWord(c.operator)], int64(n))
	if n >= togetherLeast && float64(n) >= togetherShare*float64(of) {
		return fmt.Sprintf("%d of the %d domains whose name servers are run by %.100q went absent together", n, of, c.operator)
	}
	return ""
}
