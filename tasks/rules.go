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
	Action Action `json:"action"`
	// Grace is how long the token has to be gone, from the first look that did not
	// see it to the last one of a sweep; 0: DefaultGrace.
	Grace time.Duration `json:"grace"`
	// AbsentChecks is how many sweeps in a row, but for those that nobody answered,
	// must have found it gone; 0: DefaultAbsentChecks.
	AbsentChecks int `json:"absent_checks"`
	// Protect are domains, with all below them, and organizations, by id, which are
	// never acted on.
	Protect []string `json:"protect,omitempty"`
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
