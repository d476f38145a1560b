package dnscheck

import "time"

// Evidence is a verdict for JSON. All texts are safe to show.
type Evidence struct {
	At          time.Time           `json:"at,omitzero"`            // when the verdict was reached
	State       string              `json:"state"`                  // present, absent or unknown
	Reason      string              `json:"reason"`                 // a Reason
	Sentence    string              `json:"sentence,omitempty"`     // for the customer
	Basis       string              `json:"basis"`                  // a Basis
	Note        string              `json:"note,omitempty"`         // why no name server answered
	Quorum      int                 `json:"quorum"`                 // how many resolvers have to agree
	Resolvers   int                 `json:"resolvers"`              // the number of resolvers
	NegativeTTL float64             `json:"negative_ttl,omitempty"` // seconds for which a resolver may cache the absence
	Said        []ObservationRecord `json:"observations"`           // name servers, then resolvers
}

// ObservationRecord is an observation for JSON.
type ObservationRecord struct {
	Asked         string   `json:"asked"` // the resolver, or the name server
	Authority     bool     `json:"name_server"`
	Address       string   `json:"address,omitempty"`     // of a name server
	Operator      string   `json:"operator,omitempty"`    // of a resolver
	Perspective   string   `json:"perspective,omitempty"` // of a resolver
	Transport     string   `json:"transport"`
	State         string   `json:"state"`
	Reason        string   `json:"reason"`
	Values        []string `json:"values,omitempty"` // each quoted as in Go, as printable ASCII; at most 100 bytes, then …
	MoreValues    int      `json:"more_values,omitempty"`
	Aliases       []string `json:"aliases,omitempty"`
	RCode         string   `json:"rcode,omitempty"`
	EDE           string   `json:"extended_error,omitempty"`
	Authenticated bool     `json:"authenticated"`
	NegativeTTL   float64  `json:"negative_ttl,omitempty"` // seconds
	Milliseconds  float64  `json:"took_ms"`
	Err           string   `json:"error,omitempty"`
}

// Evidence returns the verdict for JSON.
func (v Verdict) Evidence() Evidence {
	e := Evidence{
		State: v.State.String(), Reason: string(v.Reason), Sentence: v.Sentence(), Basis: string(v.Basis), Note: v.Note,
		Quorum: v.Quorum, Resolvers: v.Resolvers, NegativeTTL: v.NegativeTTL.Seconds(), Said: []ObservationRecord{},
	}
	for _, o := range v.Observations {
		e.Said = append(e.Said, o.record())
	}
	return e
}

func (o Observation) record() ObservationRecord {
	r := ObservationRecord{
		Asked: o.Resolver, Authority: o.Authority, Address: o.Address, Operator: o.Operator, Perspective: o.Perspective,
		Transport: o.Transport, State: o.State.String(), Reason: string(o.Reason), MoreValues: o.MoreValues, RCode: o.RCode, EDE: o.EDE, Authenticated: o.Authenticated,
		NegativeTTL: o.NegativeTTL.Seconds(), Milliseconds: float64(o.Took.Microseconds()) / 1000, Err: o.Err,
	}
	for _, value := range o.Values {
		r.Values = append(r.Values, shown(value, shownValue))
	}
	for _, name := range o.Aliases {
		r.Aliases = append(r.Aliases, shownHost(name))
	}
	return r
}
