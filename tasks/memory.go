package tasks

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orgops/dnscheck"
)

// Memory is what is remembered of a discovery domain from sweep to sweep, kept as
// JSON. Times are to the second, in UTC.
type Memory struct {
	V              int    `json:"v"`
	OrganizationID string `json:"organization_id"`
	Domain         string `json:"domain"`
	Token          string `json:"token"` // a hash of host and token: what is remembered is of these
	Tick           int64  `json:"tick"`  // of the last sweep that has looked, a Unix second
	Sweeps         int64  `json:"sweeps"`

	State    string    `json:"state"` // what that one has seen: present, absent or unknown
	Reason   string    `json:"reason,omitempty"`
	Sentence string    `json:"sentence,omitempty"` // for people, unless the token was there
	Values   []string  `json:"values,omitempty"`   // that stood in the token's place, quoted and cut
	Operator string    `json:"operator,omitempty"` // who runs the domain's name servers, as far as was ever known
	At       time.Time `json:"at"`
	// FlagOmitted says that the record, as it was read last, omits
	// use_for_organization_discovery.
	FlagOmitted bool `json:"flag_omitted,omitempty"`

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

// Absence is a token's being gone: from the first sweep that has seen so until it is
// there again, the domain is acted on, or has another token.
type Absence struct {
	Since    time.Time `json:"since"` // the first look of a sweep that did not see the token
	Tick     int64     `json:"tick"`  // of that sweep
	Last     time.Time `json:"last"`
	LastTick int64     `json:"last_tick"`
	Checks   int       `json:"checks"`             // sweeps that did not see it
	Operator string    `json:"operator,omitempty"` // who ran the domain's name servers when it began
	Reported time.Time `json:"reported,omitzero"`  // it was told that the domain is lost, and nothing else is done about it
	// ReportedAs is the action that was the tenant's then; empty: report.
	ReportedAs Action `json:"reported_as,omitempty"`
}

// Acting is what is being done, or was done, to a domain whose token is gone.
type Acting struct {
	Action Action    `json:"action"` // ActUnroute or ActPending
	At     time.Time `json:"at"`
	Tick   int64     `json:"tick"`
	Since  time.Time `json:"since"` // of the absence
	Host   string    `json:"host"`
	TXT    string    `json:"txt"`
	Flag   *bool     `json:"flag,omitempty"`  // use_for_organization_discovery as it was read before
	Back   bool      `json:"back,omitempty"`  // it is being given back
	Landed time.Time `json:"landed,omitzero"` // when it was known to be done
	// Verdict is the evidence that the request goes by, until its event has it.
	Verdict []byte `json:"verdict,omitempty"`
}

// landedAt is from when on the record reads as it was left, but for reads that are
// behind.
func (in Acting) landedAt() time.Time {
	if in.Landed.IsZero() {
		return in.At
	}
	return in.Landed
}

// Event is a line of a domain's history.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
	// Verdict is the evidence by which the domain's record was changed, for ReadEvidence;
	// nil: it was not.
	Verdict []byte `json:"verdict,omitempty"`
}

// memoryVersion is the newest form of a memory that this orgops reads, and the one
// that it writes.
const memoryVersion = 1

// Bounds of what is remembered of a domain: a usual memory has some 500 bytes, and the
// longest, with a verdict of mostProof bytes at each event, 40 kilobytes.
const (
	mostEvents    = 20
	mostValues    = 3
	longestValue  = 100 // bytes of what strangers wrote, before it is quoted
	longestReason = 400 // runes of a sentence
)

// ReadMemory reads what is remembered of a domain.
func ReadMemory(value []byte) (Memory, error) {
	var m Memory
	if err := json.Unmarshal(value, &m); err != nil {
		return m, fmt.Errorf("domain state: %w", err)
	}
	if m.V > memoryVersion {
		return m, fmt.Errorf("domain state: version %d, this orgops knows versions up to %d: use a newer one", m.V, memoryVersion)
	}
	return m, nil
}

// clone is a copy that shares nothing that is changed in place.
func (m Memory) clone() Memory {
	if m.Absence != nil {
		m.Absence = new(*m.Absence)
	}
	m.Past = append([]Event(nil), m.Past...)
	m.Untold = append([]Notice(nil), m.Untold...)
	return m
}

// attended says whether the end of a sweep has anything to decide about the domain.
func (m Memory) attended() bool { return m.Absence != nil || m.Acting != nil || m.Taken != nil }

// goneFor is how long the token has been gone, by the looks of sweeps: their times, and
// those of their ticks, whichever is shorter. The former are by the clocks of the workers
// that looked, the latter by two clocks each, so that no single wrong one ends a grace.
func (m Memory) goneFor() time.Duration {
	if m.Absence == nil {
		return 0
	}
	return min(m.Absence.Last.Sub(m.Absence.Since), time.Duration(m.Absence.LastTick-m.Absence.Tick)*time.Second)
}

// tookStatus says whether we have set the domain to pending.
func (m Memory) tookStatus() bool { return m.Taken != nil && m.Taken.Action == ActPending }

// Withheld returns why nothing is given back even if the token is there; empty: it is
// given back after a proof. While the record omits the flag, a PATCH of the flag could
// overwrite a change by hand, and a PATCH of the status alone leaves the flag to the
// platform's default.
func (m Memory) Withheld() string {
	switch {
	case m.Taken == nil, m.Taken.Action == ActPending && !m.FlagOmitted:
		return ""
	case m.Taken.Flag == nil:
		return "the record had no use_for_organization_discovery when the domain was acted on, so its earlier value is unknown: set it in the tenant by hand"
	case m.Taken.Action == ActUnroute && m.FlagOmitted:
		return "the record has no use_for_organization_discovery: it is restored once the record has it; or set it in the tenant by hand"
	}
	return ""
}

// tokenOf stands for host and token, which may be as long as strangers like.
func tokenOf(host, txt string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(strings.TrimSuffix(host, ".")) + "\x00" + txt))
	return fmt.Sprintf("%x", sum[:8])
}

// sighted is what a look of a sweep, or between two of them, has seen of a domain.
type sighted struct {
	id                   string // the discovery domain's
	organization, domain string
	token                string // see tokenOf
	tick                 int64
	between              bool // between two sweeps: it may clear an absence, and nothing else
	verdict              dnscheck.Verdict
	operator             string // who runs the name servers; empty: not known
	flagOmitted          bool   // the record does not say use_for_organization_discovery
	at                   time.Time
}

// seen returns what is remembered after a look, and the words to count for its tick.
// A look of a tick that has been remembered, or of one before, changes nothing.
func (m Memory) seen(s sighted) (after Memory, counted []string) {
	if s.tick < m.Tick && !isAhead(m.Tick, s.at) {
		return m, nil
	}
	after = m.of(s)
	switch {
	case s.between && s.verdict.State == dnscheck.Present && after.Absence != nil:
		after.back(s)
		return after, nil
	case s.between, s.tick == after.Tick:
		return after, nil
	}
	after.Tick, after.At, after.Sweeps = s.tick, second(s.at), after.Sweeps+1
	after.FlagOmitted = s.flagOmitted
	after.State, after.Reason = s.verdict.State.String(), string(s.verdict.Reason)
	after.Sentence, after.Values = "", nil
	if s.operator != "" {
		after.Operator = s.operator
	}
	switch s.verdict.State {
	case dnscheck.Present:
		if after.FirstPresent.IsZero() {
			after.FirstPresent = after.At
		}
		if after.Absence != nil {
			after.back(s)
		}
		after.LastPresent = after.At
	case dnscheck.Absent:
		after.tell(s.verdict)
		after.gone(s)
	default:
		after.tell(s.verdict)
	}
	counted = []string{after.State}
	if after.Operator != "" {
		counted = append(counted, operatorWord(after.Operator))
	}
	return after, counted
}

// isAhead says of a tick that it cannot have come yet: a clock was wrong once, and what
// has that tick must not stand in the way until it comes.
func isAhead(tick int64, now time.Time) bool {
	const most = time.Hour // beyond which no two clocks of a fleet are apart for long
	return time.Unix(tick, 0).After(now.Add(most))
}

// of is what is remembered of this organization's domain with this token: of others
// it is forgotten, but for the history, and for what we took away from this domain: that
// is given back by a proof of the token that it has then.
func (m Memory) of(s sighted) Memory {
	after := m.clone()
	after.V = memoryVersion
	if after.OrganizationID == s.organization && after.Token == s.token {
		after.Domain = s.domain
		return after
	}
	before := after
	after = Memory{V: memoryVersion, OrganizationID: s.organization, Domain: s.domain, Token: s.token, Past: before.Past, Untold: before.Untold, Operator: before.Operator}
	if before.OrganizationID == s.organization {
		after.Taken, after.Acting = before.Taken, before.Acting
	}
	if before.Token != "" {
		after.note(s.at, "another token", "host or token differ from before; earlier checks no longer count")
	}
	return after
}

// gone counts an absence. One of a domain that was taken away already counts nothing.
func (m *Memory) gone(s sighted) {
	if m.Taken != nil {
		return
	}
	if m.Absence != nil && !isAhead(m.Absence.Tick, s.at) {
		m.Absence.Checks++
		m.Absence.Last, m.Absence.LastTick = m.At, s.tick
		return
	}
	m.Absence = &Absence{Since: m.At, Tick: s.tick, Last: m.At, LastTick: s.tick, Checks: 1, Operator: m.Operator}
	m.note(s.at, "gone", m.Sentence)
	m.untold(s, NoticeAtRisk, NoticeData{Reason: m.Sentence, Since: m.Absence.Since})
}

// back clears an absence: the token is there again.
func (m *Memory) back(s sighted) {
	since := m.Absence.Since
	m.Absence = nil
	m.LastPresent = second(s.at)
	m.note(s.at, "there again", "")
	m.untold(s, NoticeRestored, NoticeData{Since: since, Reason: "the token is there again"})
}

// restored remembers that what was taken away has been given back, after a proof.
func (m *Memory) restored(s sighted, proof []byte) {
	data := NoticeData{Reason: "the token is there again, and the domain was restored"}
	if m.Taken != nil {
		data.Action, data.Since = string(m.Taken.Action), m.Taken.Since
	}
	m.Taken, m.Acting, m.Absence = nil, nil, nil
	m.LastPresent = second(s.at)
	m.noteActed(s.at, eventGivenBack, "the token is there again", proof)
	m.untold(s, NoticeRestored, data)
}

// tell keeps what was found, for people.
func (m *Memory) tell(v dnscheck.Verdict) {
	m.Sentence = cutRunes(v.Sentence(), longestReason)
	for _, o := range v.Observations {
		for _, value := range o.Values {
			if len(value) > longestValue {
				value = value[:longestValue] + "…"
			}
			if quoted := strconv.QuoteToASCII(value); len(m.Values) < mostValues && !slices.Contains(m.Values, quoted) {
				m.Values = append(m.Values, quoted)
			}
		}
	}
}

// Events that are looked for in the history.
const (
	eventGivenBack = "restored"
	eventWithheld  = "not restored"
)

// has says whether the history has that event of that time.
func (m Memory) has(what string, at time.Time) bool {
	return slices.ContainsFunc(m.Past, func(e Event) bool { return e.What == what && e.At.Equal(second(at)) })
}

// note adds a line to the history.
func (m *Memory) note(at time.Time, what, why string) {
	m.Past = append(m.Past, Event{At: second(at), What: what, Why: cutRunes(why, longestReason)})
	if more := len(m.Past) - mostEvents; more > 0 {
		m.Past = m.Past[more:]
	}
}

// noteActed adds a line about a change of the domain's record, and the evidence for it.
func (m *Memory) noteActed(at time.Time, what, why string, verdict []byte) {
	m.note(at, what, why)
	m.Past[len(m.Past)-1].Verdict = verdict
}

// noteOnce adds a line to the history, in place of the last line if that is about the same:
// a reason that changes each time must not push out what was done.
func (m *Memory) noteOnce(at time.Time, what, why string) {
	why = cutRunes(why, longestReason)
	if n := len(m.Past); n > 0 && m.Past[n-1].What == what {
		if m.Past[n-1].Why == why {
			return
		}
		m.Past = m.Past[:n-1]
	}
	m.note(at, what, why)
}

// untold adds a notice that is to be told once this is remembered. Its id is that of
// the moment: whoever comes to the same end from the same memory tells the same.
func (m *Memory) untold(s sighted, typ string, data NoticeData) {
	data.OrganizationID, data.DiscoveryDomainID, data.Domain, data.Tick = m.OrganizationID, s.id, m.Domain, s.tick
	m.Untold = append(m.Untold, Notice{ID: fmt.Sprintf("%s-%s-%d", typ, s.id, s.at.Unix()), Type: typ, At: second(s.at), Data: data})
}

// operatorWord counts the domains of an operator.
func operatorWord(operator string) string { return "operator:" + operator }

// second is a time as it is remembered.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func cutRunes(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
