package tasks

import (
	"encoding/json"
	"fmt"
	"time"

	"orgops/dnscheck"
)

// Memory is what is remembered of a discovery domain from sweep to sweep, kept as
// JSON. Times are to the second, in UTC.
type Memory struct {
	V              int    `json:"v"`
	OrganizationID string `json:"organization_id"`
	Domain         string `json:"domain"`
	Token          string `json:"token"` // a hash of host and token: what is remembered is of these
	Tick           int64  `json:"tick"`  // of the sweep that was the last to look, a Unix second
	Sweeps         int64  `json:"sweeps"`

	State    string    `json:"state"` // what was seen last: present, absent or unknown
	Reason   string    `json:"reason,omitempty"`
	Sentence string    `json:"sentence,omitempty"` // of an absence, for people; safe to show
	Values   []string  `json:"values,omitempty"`   // that stood in the token's place, quoted and cut
	At       time.Time `json:"at"`

	FirstPresent time.Time `json:"first_present,omitzero"`
	LastPresent  time.Time `json:"last_present,omitzero"`

	Absence *Absence `json:"absence,omitempty"` // the token is gone, as far as is known
	Acting  *Acting  `json:"acting,omitempty"`  // a request that may be under way
	Taken   *Acting  `json:"taken,omitempty"`   // what was taken away, and not given back yet
	// Untold are the notices that may not have been told yet.
	Untold []Notice `json:"untold,omitempty"`
	// Past are the last events, the oldest first.
	Past []Event `json:"past,omitempty"`
}

// Absence is a token's being gone, from the first sweep that has seen it on, until it
// is seen again, was acted on, or is another.
type Absence struct {
	Since    time.Time `json:"since"` // the first look of a sweep that did not see the token
	Tick     int64     `json:"tick"`  // of that sweep
	Last     time.Time `json:"last"`
	Checks   int       `json:"checks"`             // sweeps that did not see it
	Operator string    `json:"operator,omitempty"` // who ran the domain's name servers when it began
	Reported time.Time `json:"reported,omitzero"`  // it was told that the domain is lost, where that is all that is done
}

// Acting is what is, or was, done to a domain.
type Acting struct {
	Action Action    `json:"action"`
	At     time.Time `json:"at"`
	Tick   int64     `json:"tick"`
	Host   string    `json:"host"`
	TXT    string    `json:"txt"`
	Flag   *bool     `json:"flag,omitempty"` // use_for_organization_discovery before
	Back   bool      `json:"back,omitempty"` // it is being given back
}

// Event is a line of a domain's history.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// memoryVersion is the newest form of a memory that this orgops reads, and the one
// that it writes.
const memoryVersion = 1

// ReadMemory reads what is remembered of a domain.
func ReadMemory(value []byte) (Memory, error) {
	var m Memory
	if err := json.Unmarshal(value, &m); err != nil {
		return m, fmt.Errorf("what is remembered of the domain: %w", err)
	}
	if m.V > memoryVersion {
		return m, fmt.Errorf("what is remembered of the domain is of version %d, this orgops knows versions up to %d: use a newer one", m.V, memoryVersion)
	}
	return m, nil
}

// Names of a tenant's states.
const (
	StateJudged  = "judged"  // Judged, of the last sweep
	StateBreaker = "breaker" // Breaker
)

// Judged is what the last sweep that was judged has come to, kept as JSON.
type Judged struct {
	Tick          int64     `json:"tick"`
	Run           string    `json:"run"`
	At            time.Time `json:"at"`
	Organizations int64     `json:"organizations"` // that were read
	Present       int64     `json:"present"`
	Absent        int64     `json:"absent"`
	Unknown       int64     `json:"unknown"`
	Newly         int64     `json:"newly_absent"` // domains whose absence began with this sweep
	AtRisk        int64     `json:"at_risk"`      // absent, and not for long enough
	Acted         int64     `json:"acted"`        // for which an action was begun
	Held          int64     `json:"held"`         // not acted on: the breaker, or their operator's others went with them
	Protected     int64     `json:"protected"`
	Why           string    `json:"why,omitempty"` // why nothing, or not all, was acted on
}

// Breaker stops all actions on a tenant's domains, kept as JSON. It is opened by the
// judging of a sweep, and closed by an operator alone.
type Breaker struct {
	// ID is that of the sweep's run that opened it, or held domains back.
	ID   string    `json:"id,omitempty"`
	Open bool      `json:"open"`
	At   time.Time `json:"at,omitzero"` // when it opened
	Why  string    `json:"why,omitempty"`
	// Confirmed is when an operator has last said that what is gone is gone: an
	// absence that began before is neither counted nor held back any more.
	Confirmed time.Time `json:"confirmed,omitzero"`
}

// most events, and values, that are remembered of a domain.
const (
	mostEvents = 20
	mostValues = 3
)

// sawOf tells states of a look as they are remembered.
func sawOf(s dnscheck.State) string { return s.String() }
