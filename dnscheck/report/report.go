// Package report has the results of checks and proofs, and the mistakes that a diagnosis finds, in
// the form in which they are stored and shown. It sends no query: package dnscheck makes them.
package report

import "time"

// The states of a token, as evidence has them.
const (
	Present = "present" // the token is there
	Absent  = "absent"  // the zone denies the token
	Unknown = "unknown" // there is no reliable answer
)

// Evidence is a verdict for JSON. All texts are safe to show.
type Evidence struct {
	At       time.Time `json:"at,omitzero"`        // when the verdict was reached
	State    string    `json:"state"`              // present, absent or unknown
	Reason   string    `json:"reason"`             // a Reason
	Sentence string    `json:"sentence,omitempty"` // for the customer
	Basis    string    `json:"basis"`              // a Basis
	Note     string    `json:"note,omitempty"`     // why no name server answered
	// Perspectives has each one's answer, by more than half of its resolvers, if any is named.
	Perspectives map[string]string `json:"perspectives,omitempty"`
	Quorum       int               `json:"quorum"`                 // how many resolvers have to agree
	Resolvers    int               `json:"resolvers"`              // the number of resolvers
	NegativeTTL  float64           `json:"negative_ttl,omitempty"` // seconds for which a resolver may cache the absence
	Said         []Observation     `json:"observations"`           // name servers, then resolvers
}

// Observation is an observation for JSON.
type Observation struct {
	Asked         string   `json:"asked"` // the resolver, or the name server
	Authority     bool     `json:"name_server"`
	Address       string   `json:"address,omitempty"`     // of a name server
	Operator      string   `json:"operator,omitempty"`    // of a resolver
	Perspective   string   `json:"perspective,omitempty"` // of a resolver
	Transport     string   `json:"transport"`
	State         string   `json:"state"`
	Reason        string   `json:"reason"`
	Values        []string `json:"values,omitempty"` // quoted as printable ASCII without links, at most 100 bytes, then …
	MoreValues    int      `json:"more_values,omitempty"`
	Aliases       []string `json:"aliases,omitempty"`
	RCode         string   `json:"rcode,omitempty"`
	EDE           string   `json:"extended_error,omitempty"`
	Authenticated bool     `json:"authenticated"`
	NegativeTTL   float64  `json:"negative_ttl,omitempty"` // seconds
	Milliseconds  float64  `json:"took_ms"`
	Err           string   `json:"error,omitempty"`
}
