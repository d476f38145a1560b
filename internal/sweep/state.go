package sweep

import (
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
	// Host and TXT are the host and token to check between two sweeps. They are stored
	// while the domain is watched.
	Host   string `json:"host,omitempty"`
	TXT    string `json:"txt,omitempty"`
	Tick   int64  `json:"tick"`   // of the last sweep that checked the domain, a Unix second
	Sweeps int64  `json:"sweeps"` // that checked it

	State    string    `json:"state"` // by the last sweep: present, absent or unknown
	Reason   string    `json:"reason,omitempty"`
	Sentence string    `json:"sentence,omitempty"` // for people, unless the token was present
	Values   []string  `json:"values,omitempty"`   // other values found at the host, quoted and cut
	Operator string    `json:"operator,omitempty"` // of the domain's name servers, the last that was known
	At       time.Time `json:"at"`
	// FlagOmitted reports whether the record, when it was last read, omitted
	// use_for_organization_discovery.
	FlagOmitted bool `json:"flag_omitted,omitempty"`

	FirstPresent time.Time `json:"first_present,omitzero"`
	LastPresent  time.Time `json:"last_present,omitzero"`

	Absence    *Absence       `json:"absence,omitempty"` // nil: the token is not known to be gone
	InProgress *ActionRequest `json:"acting,omitempty"`  // a request that may be in progress, or had no response
	Taken      *ActionRequest `json:"taken,omitempty"`   // the flag or status that an action has taken away, until it is given back
	// Pending are the events whose notification is pending.
	Pending []events.Event `json:"untold,omitempty"`
	// History has the last entries, the oldest first.
	History []HistoryEntry `json:"past,omitempty"`
}

// Absence is the time in which a token is gone: from the first sweep that did not find it
// until it is found, the domain is acted on, or the domain gets another token.
type Absence struct {
	Since    time.Time `json:"since"` // of the first check of a sweep that did not find the token
	Tick     int64     `json:"tick"`  // of that sweep
	Last     time.Time `json:"last"`
	LastTick int64     `json:"last_tick"`
	Checks   int       `json:"checks"`             // sweeps that did not find it
	Operator string    `json:"operator,omitempty"` // of the domain's name servers when the absence began
	Reported time.Time `json:"reported,omitzero"`  // when the loss was notified without another action
	// ReportedAs is the tenant's action at that time; "": report.
	ReportedAs Action `json:"reported_as,omitempty"`
}

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
		return s, &UnreadableError{fmt.Sprintf("version %d, this orgops knows versions up to %d: use a newer one", s.V, stateVersion)}
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
	s.History, s.Pending = slices.Clone(s.History), slices.Clone(s.Pending)
	return s
}

// Watched reports whether the end of a sweep has something to decide about the domain, and
// whether it is checked between two sweeps.
func (s DomainState) Watched() bool {
	return s.Absence != nil || s.InProgress != nil || s.Taken != nil
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

// TookStatus reports whether an action has set the domain to pending.
func (s DomainState) TookStatus() bool { return s.Taken != nil && s.Taken.Action == SetPending }

// Withheld returns why nothing is given back even if the token is there; "": it is given
// back after a proof. While the record omits the flag, a PATCH of the flag could
// overwrite a change by hand, and a PATCH of the status alone leaves the flag to the
// platform's default.
func (s DomainState) Withheld() string {
	switch {
	case s.Taken == nil, s.Taken.Action == SetPending && !s.FlagOmitted:
		return ""
	case s.Taken.Flag == nil:
		return "the record had no use_for_organization_discovery when the domain was acted on, so its earlier value is unknown: set it in the tenant by hand"
	case s.Taken.Action == Unroute && s.FlagOmitted:
		return "the record has no use_for_organization_discovery: it is restored once the record has it; or set it in the tenant by hand"
	}
	return ""
}

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
