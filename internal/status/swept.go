package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/evidence"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// SweptDomain is the state of a discovery domain that sweeps have stored.
type SweptDomain struct {
	Tenant       string         `json:"tenant"`
	ID           string         `json:"discovery_domain_id"`
	Organization string         `json:"organization_id"`
	Domain       string         `json:"domain"`             // its name
	Sweeps       int64          `json:"sweeps"`             // that have checked it
	Sweep        time.Time      `json:"sweep,omitzero"`     // the tick of the last one of these
	State        string         `json:"state"`              // present, absent or unknown
	Reason       string         `json:"reason,omitempty"`   // of the state
	Sentence     string         `json:"sentence,omitempty"` // the same for people; empty if it is present
	Mistake      string         `json:"mistake,omitempty"`  // name of the mistake with an absent record, if known
	Values       []string       `json:"values,omitempty"`   // found instead of the token, quoted
	At           time.Time      `json:"checked_at,omitzero"`
	FirstPresent time.Time      `json:"first_present,omitzero"`
	LastPresent  time.Time      `json:"last_present,omitzero"`
	ProvenAt     time.Time      `json:"proven_at,omitzero"` // zero: the domain is unproven, and never lost
	Proof        *Findings      `json:"proof,omitempty"`
	Absence      *Absence       `json:"absence,omitempty"`  // nil: it is not known to be absent
	Decision     string         `json:"decision,omitempty"` // on an absent domain, in words
	Fix          string         `json:"fix,omitempty"`      // what to do about that; "": nothing
	Revoked      *Revocation    `json:"revoked,omitempty"`  // nil: it is not, or it was restored
	Undo         *Undo          `json:"undo,omitempty"`     // of the revocation's run
	History      []HistoryEntry `json:"history,omitempty"`  // the oldest first
}

// Absence is a [sweep.Absence].
type Absence struct {
	Since    time.Time `json:"since"`
	Tick     int64     `json:"-"`
	Last     time.Time `json:"last"`
	LastTick int64     `json:"-"`
	Checks   int       `json:"sweeps"` // that did not find the token
	Operator string    `json:"name_server_operator,omitempty"`
	Lost     time.Time `json:"lost_since,omitzero"`
}

// Revocation is a [sweep.Revocation].
type Revocation struct {
	Set     sweep.Setting `json:"set"`
	Run     string        `json:"run"`
	At      time.Time     `json:"requested_at"`
	Since   time.Time     `json:"-"`
	Flag    bool          `json:"use_for_organization_discovery"` // before
	DoneAt  time.Time     `json:"revoked_at,omitzero"`            // zero: the request has had no answer
	Verdict []byte        `json:"-"`
}

// String says when and by what the domain was revoked, and until when; "" of nil.
func (r *Revocation) String() string {
	switch {
	case r == nil:
		return ""
	case r.DoneAt.IsZero():
		return fmt.Sprintf("perhaps (%s), by a request of run %s at %s that has had no answer", r.Set, Shown(r.Run),
			stamp.UTC(r.At))
	}
	return fmt.Sprintf("%s at %s by run %s, until a sweep finds the TXT record again", r.Set, stamp.UTC(r.DoneAt),
		Shown(r.Run))
}

// HistoryEntry is an entry of a domain's history.
type HistoryEntry struct {
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Reason   string    `json:"reason,omitempty"`
	Evidence *Findings `json:"evidence,omitempty"` // by which the record was changed
}

// SweptDomainOf reads the state of the tenant's domain with that id; ok is false if none is
// stored.
func SweptDomainOf(ctx context.Context, rdb redis.Cmdable,
	name, id string) (d SweptDomain, ok bool, err error) {
	value, err := sweep.NewStore(rdb, name).Domain(ctx, id)
	if err != nil || value == nil {
		return SweptDomain{}, false, err
	}
	s, err := sweep.ReadState(value)
	if err != nil {
		return SweptDomain{}, false, fmt.Errorf("discovery domain %s of tenant %s: %w", id, name, err)
	}
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err != nil {
		return SweptDomain{}, false, err
	}
	last, err := SweepOf(ctx, rdb, name)
	if err != nil {
		return SweptDomain{}, false, err
	}
	d = SweptDomain{
		Tenant: name, ID: id, Organization: s.OrganizationID, Domain: s.Domain, Sweeps: s.Sweeps,
		State: s.State, Reason: s.Reason,
		Sentence: s.Sentence, Mistake: s.Mistake, Values: s.Values, At: s.At,
		FirstPresent: s.FirstPresent, LastPresent: s.LastPresent,
		Absence: (*Absence)(s.Absence), Revoked: (*Revocation)(s.Revoked),
	}
	if s.Revoked != nil {
		d.Undo = undoOfRevocation(name, s.Revoked.Run)
	}
	if s.Proven != nil {
		d.ProvenAt = s.Proven.At
		if proof, err := evidence.Read(s.Proven.Evidence); err == nil { // else of a newer version
			d.Proof = &Findings{Evidence: proof}
		}
	}
	if s.Tick != 0 {
		d.Sweep = TickAt(s.Tick)
	}
	if s.Absence != nil {
		tick := int64(0)
		if last != nil {
			tick = last.Summary.Tick
		}
		d.Decision, d.Fix = decision(settings.Rules(), s, tick, name)
	}
	for _, e := range s.History {
		entry := HistoryEntry{At: e.At, Event: e.What, Reason: e.Why}
		if e.Verdict != nil {
			read, err := evidence.Read(e.Verdict)
			if err != nil {
				entry.Reason = Joined(entry.Reason, fmt.Sprintf("evidence not readable: %v", err))
			} else {
				entry.Evidence = &Findings{Evidence: read}
			}
		}
		d.History = append(d.History, entry)
	}
	return d, true, nil
}

// decision returns whether an absent domain is lost, whether it may be revoked, and the remedy.
func decision(rules sweep.Rules, s sweep.DomainState, lastTick int64, tenant string) (what, fix string) {
	switch {
	case s.Proven == nil:
		return ShownReason(rules.Unfit(s, lastTick)), publishFirst
	case s.Absence.Lost.IsZero():
		return "at risk: " + ShownReason(rules.TooShort(s)), publishAgain
	}
	lost := "lost since " + stamp.UTC(s.Absence.Lost)
	if unfit := rules.Unfit(s, lastTick); unfit != "" {
		return lost + "; not to be revoked: " + ShownReason(unfit), publishAgain
	}
	return lost, reviewLost(tenant)
}

// Facts returns the domain's state and the decision on it.
func (d SweptDomain) Facts() []Fact {
	// The last sweep and its result.
	swept := "once, by the sweep of " + stamp.UTC(d.Sweep)
	switch {
	case d.Sweeps == 0:
		return facts(Fact{Name: "swept", Text: "not yet"}, Fact{Name: "proven", Text: stamp.UTC(d.ProvenAt)})
	case d.Sweeps > 1:
		swept = fmt.Sprintf("%d times, last by the sweep of %s", d.Sweeps, stamp.UTC(d.Sweep))
	}
	seen := Shown(d.State)
	if d.Reason != "" {
		seen += " (" + Shown(d.Reason) + ")"
	}
	seen += ", at " + stamp.UTC(d.At)
	if d.Sentence != "" {
		seen += ": " + ShownReason(d.Sentence)
	}

	// Since when its record is there or gone.
	present := "never seen by a sweep"
	if !d.LastPresent.IsZero() {
		present = fmt.Sprintf("from %s to %s", stamp.UTC(d.FirstPresent), stamp.UTC(d.LastPresent))
	}
	proven := "never: the domain is unproven, and neither lost nor revoked while it is"
	if !d.ProvenAt.IsZero() {
		proven = "at " + stamp.UTC(d.ProvenAt)
	}
	absent := ""
	if a := d.Absence; a != nil {
		absent = fmt.Sprintf("since %s, last confirmed at %s, by %s", stamp.UTC(a.Since), stamp.UTC(a.Last),
			CountOf(int64(a.Checks), "sweep"))
		if a.Operator != "" {
			absent += "; name servers of " + Shown(a.Operator)
		}
	}
	all := []Fact{
		{Name: "swept", Text: swept},
		{Name: "seen last", Text: seen},
		{Name: "found there", Text: ShownReason(strings.Join(d.Values, ", "))},
		{Name: "present", Text: present},
		{Name: "proven", Text: proven},
		{Name: "absent", Text: absent},
		{Name: "decision", Text: d.Decision},
		{Name: "what to do", Text: d.Fix},
		{Name: "revoked", Text: d.Revoked.String()},
	}
	return facts(append(all, d.Undo.facts()...)...)
}

// Brief returns the last sweep's result for the domain and the decision on it, in a line.
func (d SweptDomain) Brief() string {
	text := Shown(d.State)
	if d.Sentence != "" {
		text += ": " + ShownReason(d.Sentence)
	}
	switch {
	case d.Decision != "":
		text += " (" + d.Decision + ")"
	case d.State == dnscheck.Unknown.String():
		text += " (it counts neither as there nor as gone)"
	}
	return text
}
