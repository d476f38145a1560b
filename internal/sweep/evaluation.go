package sweep

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of what may happen to a tenant at once.
const (
	// The breaker opens if more than breakerShare of the organizations that a sweep has
	// read, and at least breakerLeast of them, have a domain that is newly gone, or due.
	breakerShare = 0.05
	breakerLeast = 20
	// Domains of one name-server operator are held back if at least togetherLeast of them,
	// and togetherShare of all domains of that operator, went absent within togetherWithin
	// of each other: the cause is then rather the operator than each of the owners.
	togetherLeast  = 5
	togetherShare  = 0.1
	togetherWithin = 36 * time.Hour
)

// Breaker stops all actions on a tenant's domains, stored as JSON. The evaluation of a sweep
// opens it; only an operator closes it.
type Breaker struct {
	// ID is the run of the sweep that opened it, or that held domains back.
	ID   string    `json:"id,omitempty"`
	Open bool      `json:"open"`
	At   time.Time `json:"at,omitzero"` // when it opened
	Why  string    `json:"why,omitempty"`
	// Confirmed is when an operator last confirmed that the absent domains are gone: an
	// absence that began before is neither counted nor held back.
	Confirmed time.Time `json:"confirmed,omitzero"`
}

// Summary is the result of the last sweep of all organizations, stored as JSON.
type Summary struct {
	Tick          int64     `json:"tick"`
	Run           string    `json:"run"`
	At            time.Time `json:"at"`
	Organizations int64     `json:"organizations"` // that were read
	Present       int64     `json:"present"`
	Absent        int64     `json:"absent"`
	Unknown       int64     `json:"unknown"`
	Newly         int64     `json:"newly_absent"` // domains whose absence began with this sweep
	AtRisk        int64     `json:"at_risk"`      // absent for too short a time, or without an answer this time
	Acted         int64     `json:"acted"`        // for which an action was submitted
	Held          int64     `json:"held"`         // held back: see Why
	Protected     int64     `json:"protected"`
	Unreadable    int64     `json:"unreadable,omitempty"` // whose state cannot be read: nothing is decided on them
	Why           string    `json:"why,omitempty"`        // why not all due domains were acted on
}

// String returns the summary for people.
func (s Summary) String() string {
	text := fmt.Sprintf("%d present, %d absent (%d newly), %d unknown: %d at risk, %d to be acted on, %d held back, %d protected",
		s.Present, s.Absent, s.Newly, s.Unknown, s.AtRisk, s.Acted, s.Held, s.Protected)
	if s.Why != "" {
		text += "; " + s.Why
	}
	return text
}

// Evaluation assesses the watched domains of a tenant at the end of a sweep, or as if one
// had just ended. Call Add or AddUnreadable for each watched domain, then Decide once.
type Evaluation struct {
	Rules   Rules
	Breaker Breaker
	// Tick is the sweep's; 0: each domain is assessed by the last sweep that checked it.
	Tick int64
	// Run is the sweep's. An operator confirms it to close the breaker.
	Run string
	// Organizations is the number that the sweep has read, and Tally has its counts.
	Organizations int64
	Tally         map[string]int64
	// Complete is set if the sweep has read every organization of the tenant.
	Complete bool
	// Early is why the sweep has not reached all organizations; "": it has.
	Early string
	At    time.Time

	candidates []Candidate
	byOperator map[string][]time.Time // when absences began, by operator of the name servers
	unreadable int
}

// Candidate is an assessed domain.
type Candidate struct {
	ID, OrganizationID, Domain string
	Assessment
	Held string // why a due domain is held back; "": it is acted on
	// Missed is set if the sweep has reached all organizations without finding the domain.
	Missed bool

	back     bool // the request in progress gives back
	since    time.Time
	operator string
	newly    bool
}

// Add adds a domain. Its state is not stored, since there may be many.
func (e *Evaluation) Add(id string, s DomainState) {
	c := Candidate{ID: id, OrganizationID: s.OrganizationID, Domain: s.Domain, Assessment: e.Rules.Assess(s)}
	if e.Tick != 0 && s.Tick != e.Tick {
		c.Missed = e.Complete && (s.Tick < e.Tick || isAhead(s.Tick, e.At))
		if c.Status == StatusDue {
			c.Assessment = Assessment{Status: StatusUnsure, Reason: "this sweep has not checked it"}
		}
	}
	c.back = s.InProgress != nil && s.InProgress.Back
	if a := s.Absence; a != nil {
		c.since, c.operator, c.newly = a.Since, a.Operator, a.Tick == s.Tick && (e.Tick == 0 || e.Tick == s.Tick)
		if a.Operator != "" {
			if e.byOperator == nil {
				e.byOperator = map[string][]time.Time{}
			}
			e.byOperator[a.Operator] = append(e.byOperator[a.Operator], a.Since)
		}
	}
	e.candidates = append(e.candidates, c)
}

// AddUnreadable adds a domain whose state cannot be read. It is not acted on. Since it may
// have gone absent together with others, it counts as one that did, of an organization of
// its own: domains that are left out must not let the others be acted on. Without another
// domain it holds back nothing.
func (e *Evaluation) AddUnreadable() { e.unreadable++ }

// Decide returns the decision on each domain in the order of Add, the breaker from now on,
// and the summary of the sweep.
func (e *Evaluation) Decide() (candidates []Candidate, breaker Breaker, summary Summary) {
	for _, since := range e.byOperator {
		slices.SortFunc(since, time.Time.Compare)
	}
	breaker = e.breaker()
	summary = Summary{
		Tick: e.Tick, Run: e.Run, At: second(e.At), Organizations: e.Organizations,
		Present: e.Tally[statePresent], Absent: e.Tally[stateAbsent], Unknown: e.Tally[stateUnknown], Unreadable: int64(e.unreadable), Why: e.Early,
	}
	if e.unreadable > 0 && summary.Why == "" {
		summary.Why = fmt.Sprintf("the states of %d domains cannot be read: see the log of the worker", e.unreadable)
	}
	for i := range e.candidates {
		c := &e.candidates[i]
		if c.Status == StatusDue {
			c.Held = e.held(*c, breaker)
		}
		summary.count(*c)
		if c.Held != "" && !breaker.Open {
			breaker.ID, breaker.Why = e.Run, c.Held
		}
	}
	return e.candidates, breaker, summary
}

func (s *Summary) count(c Candidate) {
	if c.newly {
		s.Newly++
	}
	switch {
	case c.Held != "":
		s.Held++
		s.Why = c.Held
	case c.Status == StatusDue:
		s.Acted++
	case c.Status == StatusAtRisk, c.Status == StatusUnsure:
		s.AtRisk++
	case c.Status == StatusProtected:
		s.Protected++
	}
}

// breaker returns the breaker after this sweep. It opens if domains of too many
// organizations are newly gone, or due, at once. Absences that an operator has confirmed
// are not counted.
func (e *Evaluation) breaker() Breaker {
	b := e.Breaker
	if b.Open {
		return b
	}
	if e.Complete || e.Tick == 0 { // a sweep of one organization does not show what others have held back
		b.ID, b.Why = "", ""
	}
	newly, due := map[string]bool{}, map[string]bool{}
	for _, c := range e.candidates {
		if c.since.Before(b.Confirmed) {
			continue
		}
		if c.newly {
			newly[c.OrganizationID] = true
		}
		if c.Status == StatusDue && e.heldWithOthers(c, b) == "" {
			due[c.OrganizationID] = true
		}
	}
	for _, m := range []struct {
		organizations int
		what          string
	}{{len(newly), "are newly gone"}, {len(due), "are to be acted on at once"}} {
		n := e.withUnreadable(m.organizations, e.Organizations)
		if n >= breakerLeast && float64(n) > breakerShare*float64(e.Organizations) {
			b.Open, b.ID, b.At = true, e.Run, second(e.At)
			b.Why = fmt.Sprintf("the tokens of %d of the %d organizations that were swept %s", n, e.Organizations, m.what) + unreadableAmong(n-m.organizations)
			return b
		}
	}
	return b
}

// withUnreadable returns the count n of the most that there can be, with the domains whose
// state cannot be read; 0 stays 0.
func (e *Evaluation) withUnreadable(n int, most int64) int {
	if n == 0 {
		return 0
	}
	return max(n, int(min(int64(n+e.unreadable), most)))
}

// unreadableAmong says how many of a count are domains whose state cannot be read.
func unreadableAmong(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", counting %d domains whose state cannot be read", n)
}

// held returns why a due domain is held back; "": it is not.
func (e *Evaluation) held(c Candidate, b Breaker) string {
	switch {
	case b.Open:
		return "the breaker is open: " + b.Why
	case e.Early != "":
		return e.Early
	}
	return e.heldWithOthers(c, b)
}

// heldWithOthers returns why a domain is held back that went absent together with others
// of its name-server operator; "": it is not.
func (e *Evaluation) heldWithOthers(c Candidate, b Breaker) string {
	if c.operator == "" || c.since.Before(b.Confirmed) {
		return ""
	}
	went := e.byOperator[c.operator]
	first, _ := slices.BinarySearchFunc(went, c.since.Add(-togetherWithin), time.Time.Compare)
	past, _ := slices.BinarySearchFunc(went, c.since.Add(togetherWithin+1), time.Time.Compare)
	read := past - first
	of := max(e.Tally[operatorCount(c.operator)], int64(read))
	n := e.withUnreadable(read, of)
	if n >= togetherLeast && float64(n) >= togetherShare*float64(of) {
		return fmt.Sprintf("%d of the %d domains whose name servers are run by %.100q went absent together", n, of, c.operator) + unreadableAmong(n-read)
	}
	return ""
}
