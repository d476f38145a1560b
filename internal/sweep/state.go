package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/dnscheck"
	"orgops/internal/events"
)

// DomainState is the stored state of a discovery domain, stored from sweep to sweep as
// JSON. Times are to the second, in UTC.
type DomainState struct {
	V              int    `json:"v"`
	OrganizationID string `json:"organization_id"`
	Domain         string `json:"domain"`
	// TokenHash is that of the host and token to which the state belongs: see [HashToken].
	TokenHash string `json:"token"`
	Tick      int64  `json:"tick"`   // of the last sweep that checked the domain, a Unix second
	Sweeps    int64  `json:"sweeps"` // that checked it

	State    string    `json:"state"` // by the last sweep: present, absent or unknown
	Reason   string    `json:"reason,omitempty"`
	Sentence string    `json:"sentence,omitempty"` // for people, unless the token was present
	Mistake  string    `json:"mistake,omitempty"`  // name of the mistake with an absent record, if known
	Values   []string  `json:"values,omitempty"`   // other values found at the host, quoted and cut
	Operator string    `json:"operator,omitempty"` // of the domain's name servers, the last that was known
	At       time.Time `json:"at"`
	// FlagOmitted reports whether the record, when it was last read, omitted
	// use_for_organization_discovery.
	FlagOmitted bool `json:"flag_omitted,omitempty"`

	FirstPresent time.Time `json:"first_present,omitzero"`
	LastPresent  time.Time `json:"last_present,omitzero"`

	// Proven is the first proof of the token. Without one, which Redis may have lost, the domain is
	// unproven, and never lost: nobody knows whether its token was ever there.
	Proven  *Proof      `json:"proven,omitempty"`
	Absence *Absence    `json:"absence,omitempty"` // nil: the token is not known to be gone
	Revoked *Revocation `json:"revoked,omitempty"` // until it is undone; nil: nothing is revoked
	// Pending are the events whose notification is pending.
	Pending []events.Event `json:"pending,omitempty"`
	// History has the last entries, the oldest first.
	History []HistoryEntry `json:"history,omitempty"`
}

// Proof is a proof of a token by a sweep or a verification.
type Proof struct {
	At       time.Time `json:"at"`
	Evidence []byte    `json:"evidence"`
}

// Absence is the time in which a token is gone: from the first sweep that did not find it
// until it is found, the domain is revoked, or the domain gets another token.
type Absence struct {
	Since    time.Time `json:"since"` // of the first check of a sweep that did not find the token
	Tick     int64     `json:"tick"`  // of that sweep
	Last     time.Time `json:"last"`
	LastTick int64     `json:"last_tick"`
	Checks   int       `json:"checks"`             // sweeps that did not find it
	Operator string    `json:"operator,omitempty"` // of the domain's name servers when the absence began
	Lost     time.Time `json:"lost,omitzero"`      // when the domain was first reported as lost; zero: it was not
}

// Setting is the change by which a domain is revoked.
type Setting string

// The settings.
const (
	SetPending Setting = "pending" // the status is set to pending
	Unroute    Setting = "unroute" // use_for_organization_discovery is set to false
)

// Undone returns what a domain is again once its revocation is undone.
func (s Setting) Undone() string {
	if s == Unroute {
		return "used for discovery again"
	}
	return "verified again"
}

// Revocation is a PATCH that revokes a domain whose token is gone.
type Revocation struct {
	Set   Setting   `json:"set"`
	Run   string    `json:"run"`   // that asked for it
	At    time.Time `json:"at"`    // when the request was sent
	Since time.Time `json:"since"` // of the absence
	Flag  bool      `json:"flag"`  // use_for_organization_discovery as it was read before
	// DoneAt is when the request was known to have taken effect; zero: it may be in progress,
	// or had no answer.
	DoneAt time.Time `json:"done_at,omitzero"`
	// Verdict is the evidence for the request, until the history has it.
	Verdict []byte `json:"verdict,omitempty"`
}

// EffectiveAt returns the time from which reads show the revocation, unless they are behind.
func (r Revocation) EffectiveAt() time.Time { return cmp.Or(r.DoneAt, r.At) }

// Done reports whether the revocation is known to have taken effect; false of nil.
func (r *Revocation) Done() bool { return r != nil && !r.DoneAt.IsZero() }

// HistoryEntry is an entry of a domain's history.
type HistoryEntry struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
	// Verdict is the evidence for a change of the domain's record; nil: the record was not
	// changed.
	Verdict []byte `json:"verdict,omitempty"`
}

// stateVersion is the newest version of a state that this package reads, and the one that
// it writes.
const stateVersion = 1

// States of a token, as they are stored and counted.
var (
	statePresent = dnscheck.Present.String()
	stateAbsent  = dnscheck.Absent.String()
	stateUnknown = dnscheck.Unknown.String()
)

// Bounds of a state. A usual one has some 500 bytes.
const (
	maxHistory  = 20
	maxValues   = 3
	maxValue    = 100 // bytes of a stranger's text, before it is quoted
	maxSentence = 400 // code points
)

// ReadState decodes a stored state.
func ReadState(value []byte) (DomainState, error) {
	var s DomainState
	if err := json.Unmarshal(value, &s); err != nil {
		return s, &UnreadableError{err.Error()}
	}
	if s.V > stateVersion {
		return s,
			&UnreadableError{fmt.Sprintf("version %d, this orgops knows versions up to %d: use a newer one", s.V, stateVersion)}
	}
	return s, nil
}

// UnreadableError says that a stored state is damaged, or of a newer version.
type UnreadableError struct{ reason string }

// Error returns the reason.
func (e *UnreadableError) Error() string { return "domain state: " + e.reason }

// Clone returns a copy that shares nothing that methods of the state change in place.
func (s DomainState) Clone() DomainState {
	if s.Absence != nil {
		s.Absence = new(*s.Absence)
	}
	if s.Revoked != nil {
		s.Revoked = new(*s.Revoked)
	}
	s.History = slices.Clone(s.History)
	s.Pending = slices.Clone(s.Pending)
	return s
}

// Watched reports whether the token is gone, or the domain is revoked: [States.Watched] iterates
// over such domains.
func (s DomainState) Watched() bool { return s.Absence != nil || s.Revoked != nil }

// IsLost reports whether the last sweep found the token gone, and the domain is lost by then.
func (s DomainState) IsLost() bool {
	return s.State == stateAbsent && s.Absence != nil && !s.Absence.Lost.IsZero()
}

// AbsentFor returns how long the token has been gone: by the times of the checks or by
// the ticks of their sweeps, whichever is shorter, so that a single wrong clock does not
// end a grace period.
func (s DomainState) AbsentFor() time.Duration {
	if s.Absence == nil {
		return 0
	}
	return min(s.Absence.Last.Sub(s.Absence.Since), time.Duration(s.Absence.LastTick-s.Absence.Tick)*time.Second)
}

// IsPending reports whether a revocation has set the domain to pending.
func (s DomainState) IsPending() bool { return s.Revoked != nil && s.Revoked.Set == SetPending }

// HashToken returns a hash of host and token, which may be long.
func HashToken(host, txt string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(strings.TrimSuffix(host, ".")) + "\x00" + txt))
	return fmt.Sprintf("%x", sum[:8])
}

// isAhead reports whether the tick cannot have come yet: a clock was wrong once, and a
// state with that tick must not block later sweeps.
func isAhead(tick int64, now time.Time) bool {
	const most = time.Hour // the clocks of a fleet do not differ by more for long
	return time.Unix(tick, 0).After(now.Add(most))
}

// second returns the time as it is stored.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
