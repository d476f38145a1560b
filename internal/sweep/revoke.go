package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Bounds of what is revoked at once.
const (
	// leastMax and maxShare are the default of the most revocations in that time: so many, or
	// that share of the tenant's domains if it is more.
	leastMax = 20
	maxShare = 0.01
	// Domains of one name-server operator are revoked only by its name if at least
	// togetherLeast of them, and togetherShare of all its domains, are absent, lost or not yet:
	// the cause is then rather the operator than each of the owners.
	togetherLeast = 5
	togetherShare = 0.1
)

// RevokeRow is a row that revokes a domain, or undoes that.
type RevokeRow struct {
	OrganizationID    string  `json:"organization_id"`
	DiscoveryDomainID string  `json:"discovery_domain_id"`
	Set               Setting `json:"set"`
	// Grace and AbsentChecks are the rules' at least.
	Grace        time.Duration `json:"absent_for_ns,omitempty"`
	AbsentChecks int           `json:"sweeps,omitempty"`
	Max          int64         `json:"max,omitempty"` // revocations of the tenant in BrakeTime
	Undo         bool          `json:"undo,omitempty"`
}

// Selection selects the domains of a tenant to revoke. Call Add for each watched domain, then
// Select once.
type Selection struct {
	Rules        Rules
	Organization string   // the only one; "": all
	Operators    []string // whose domains may go together
	Summary      Summary  // of the last complete sweep
	// Counts are those of its tick.
	Counts map[string]int64
	At     time.Time

	all []Candidate
}

// Candidate is a watched domain.
type Candidate struct {
	ID string
	DomainState
	Operator string // of its name servers; "": unknown
	Unfit    string // why it is not revoked; "": it is
}

// OperatorShare says how many domains of a name-server operator are absent.
type OperatorShare struct {
	Operator string `json:"operator"`      // "": unknown
	Chosen   int64  `json:"to_be_revoked"` // of its domains
	Absent   int64  `json:"absent"`        // or revoked in the last BrakeTime
	Domains  int64  `json:"domains"`
	Together bool   `json:"needs_operator"` // its domains go only by its name
}

// Summary is the result of a complete sweep: one that has read every organization of the tenant.
// It is stored as JSON.
type Summary struct {
	Tick          int64     `json:"tick"`
	Run           string    `json:"run"`
	At            time.Time `json:"ended_at"`      // of its run
	Organizations int64     `json:"organizations"` // that were read
	Present       int64     `json:"present"`
	Absent        int64     `json:"absent"`
	Unknown       int64     `json:"unknown"`
	Lost          int64     `json:"lost"`     // of the absent
	Unproven      int64     `json:"unproven"` // of the absent: gone for as long as lost ones, but never proven
}

// Domains returns how many domains the sweep has checked.
func (s Summary) Domains() int64 { return s.Present + s.Absent + s.Unknown }

// Max returns the most revocations in BrakeTime unless a command names another number.
func (s Summary) Max() int64 { return max(leastMax, int64(maxShare*float64(s.Domains()))) }

// Add adds a domain.
func (s *Selection) Add(id string, d DomainState) {
	c := Candidate{ID: id, DomainState: d, Operator: d.Operator, Unfit: s.Rules.Unfit(d, s.Summary.Tick)}
	if d.Absence != nil {
		c.Operator = cmp.Or(d.Absence.Operator, d.Operator)
	}
	s.all = append(s.all, c)
}

// Select returns the candidates, first those that are revoked, and the operators of these.
// Domains of all organizations count for an operator, also those that were revoked lately, so
// that many small submissions are like a large one.
func (s *Selection) Select() ([]Candidate, []OperatorShare) {
	// How many domains of each DNS operator are absent, those revoked lately included: many at once
	// have a cause at the operator.
	shares := map[string]*OperatorShare{}
	for _, c := range s.all {
		lately := c.Revoked != nil && s.At.Sub(c.Revoked.At) < BrakeTime
		if !lately && c.Absence == nil {
			continue
		}
		if shares[c.Operator] == nil {
			shares[c.Operator] = &OperatorShare{Operator: c.Operator}
		}
		shares[c.Operator].Absent++
	}
	for name, share := range shares {
		share.Domains = max(s.Counts[operatorCount(name)], share.Absent)
		share.Together = name != "" && share.Absent >= togetherLeast &&
			float64(share.Absent) >= togetherShare*float64(share.Domains)
	}

	// The domains of the organization. Those of such an operator are unfit unless it is named.
	var chosen []Candidate
	for _, c := range s.all {
		if s.Organization != "" && c.OrganizationID != s.Organization {
			continue
		}
		if share := shares[c.Operator]; c.Unfit == "" && share.Together && !slices.Contains(s.Operators, c.Operator) {
			c.Unfit = fmt.Sprintf("%d of %d domains of operator %s are absent: the cause may be the operator", share.Absent,
				share.Domains, c.Operator)
		} else if c.Unfit == "" {
			share.Chosen++
		}
		chosen = append(chosen, c)
	}

	// Fit ones first; operators with many first.
	slices.SortFunc(chosen, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(min(len(a.Unfit), 1), min(len(b.Unfit), 1)), cmp.Compare(a.Operator, b.Operator),
			cmp.Compare(a.ID, b.ID))
	})
	var all []OperatorShare
	for _, share := range shares {
		if share.Chosen > 0 || share.Together {
			all = append(all, *share)
		}
	}
	slices.SortFunc(all, func(a, b OperatorShare) int {
		return cmp.Or(cmp.Compare(b.Chosen, a.Chosen), cmp.Compare(a.Operator, b.Operator))
	})
	return chosen, all
}
