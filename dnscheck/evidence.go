package dnscheck

import (
	"slices"
	"time"
)

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
	More        int                 `json:"more_observations,omitempty"`
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

// Cuts is the number of levels of [Evidence.Cut].
const Cuts = 5

// Cut shortens the evidence, the more the higher the level, 1 to [Cuts]: first values beyond the
// third and all aliases but the last, then long texts, then repeated observations.
func (e Evidence) Cut(level int) Evidence {
	cuts := [Cuts]struct{ values, text, said int }{{3, 120, 16}, {1, 120, 16}, {1, 60, 16}, {0, 60, 8}, {0, 30, 1}}
	cut := cuts[level-1]
	e.Sentence, e.Note = "", capped(e.Note, cut.text)
	e.Said = slices.Clone(e.Said)
	e.dropObservations(len(e.Said) - cut.said)
	for i := range e.Said {
		o := &e.Said[i]
		if more := len(o.Values) - cut.values; more > 0 {
			o.Values, o.MoreValues = o.Values[:cut.values], o.MoreValues+more
		}
		if last := len(o.Aliases) - 1; last >= 0 {
			o.Aliases = []string{capped(o.Aliases[last], cut.text)}
		}
		for _, text := range []*string{&o.Asked, &o.Operator, &o.EDE, &o.Err} {
			*text = capped(*text, cut.text)
		}
	}
	return e
}

// dropObservations removes n observations: first those equal to an earlier one, of resolvers to
// one of the same operator and perspective, and then the last ones.
func (e *Evidence) dropObservations(n int) {
	for i := len(e.Said) - 1; i >= 0 && n > 0; i-- {
		if slices.ContainsFunc(e.Said[:i], e.Said[i].isLike) {
			e.Said = slices.Delete(e.Said, i, i+1)
			e.More++
			n--
		}
	}
	if n > 0 {
		e.Said = e.Said[:len(e.Said)-n]
		e.More += n
	}
}

func (o ObservationRecord) isLike(other ObservationRecord) bool {
	return o.State == other.State && o.Reason == other.Reason && o.Authority == other.Authority &&
		o.Operator == other.Operator && o.Perspective == other.Perspective
}
