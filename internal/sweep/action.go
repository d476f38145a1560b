package sweep

import (
	"cmp"
	"fmt"
	"time"
)

// Action is the change to a verified domain whose token is gone for good.
type Action string

// The actions.
const (
	Report     Action = "report"  // the loss is notified, and nothing else
	Unroute    Action = "unroute" // use_for_organization_discovery is set to false
	SetPending Action = "pending" // the status is set to pending
)

// ParseAction reads an action's name; "" is report.
func ParseAction(name string) (Action, error) {
	switch a := Action(name); a {
	case "":
		return Report, nil
	case Report, Unroute, SetPending:
		return a, nil
	}
	return "", fmt.Errorf("want report, unroute or pending, got %.40q", name)
}

// ActionRequest is a PATCH that takes something away from a domain whose token is gone,
// or gives it back.
type ActionRequest struct {
	Action Action    `json:"action"` // Unroute or SetPending
	At     time.Time `json:"at"`     // when the request was decided
	Tick   int64     `json:"tick"`
	Since  time.Time `json:"since"` // of the absence
	Host   string    `json:"host"`
	TXT    string    `json:"txt"`
	Flag   *bool     `json:"flag,omitempty"`  // use_for_organization_discovery as it was read before
	Back   bool      `json:"back,omitempty"`  // it gives back
	DoneAt time.Time `json:"landed,omitzero"` // when the request was known to have taken effect
	// Verdict is the evidence for the request, until the history has it.
	Verdict []byte `json:"verdict,omitempty"`
}

// EffectiveAt returns the time from which reads show the request's effect, unless they are
// behind.
func (r ActionRequest) EffectiveAt() time.Time { return cmp.Or(r.DoneAt, r.At) }

// ActionRow is a row that acts on a domain, or gives back the value that was taken from it. Its
// execution decides again, by the rules and the domain's state at that time.
type ActionRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	Tick              int64  `json:"tick"`           // of the sweep that decided on it
	Back              bool   `json:"back,omitempty"` // give back
	// Finish starts no request: the result of the one in progress is read, or whether the
	// domain still exists.
	Finish bool `json:"finish,omitempty"`
}
