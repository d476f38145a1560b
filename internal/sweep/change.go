package sweep

import (
	"fmt"
	"slices"
	"time"

	"orgops/internal/events"
)

// Entries of the history that are looked up.
const (
	historyRestored = "restored"
	historyWithheld = "not restored"
)

// TookAway stores that the request in progress took something away, by the record that its
// response or a later read has shown. If the record has another host or token by then, those
// are needed to give it back.
func (s *DomainState) TookAway(domainID string, at time.Time, host, txt string) {
	done := *s.InProgress
	verdict := done.Verdict
	done.DoneAt, done.Verdict = second(at), nil
	s.Taken, s.InProgress, s.Absence = &done, nil, nil
	s.TokenHash, s.Host, s.TXT = HashToken(host, txt), host, txt
	s.noteVerdict(at, "acted on: "+string(done.Action), s.Sentence, verdict)
	s.notify(events.DomainLost, domainID, done.Tick, done.At, events.Data{Reason: s.Sentence, Since: done.Since, Action: string(done.Action)})
}

// Report stores that the loss of the domain is notified, instead of the action, and why.
func (s *DomainState) Report(domainID string, at time.Time, action Action, why string) {
	s.Absence = new(*s.Absence)
	s.Absence.Reported, s.Absence.ReportedAs = second(at), action
	s.Note(at, "reported", why)
	s.notify(events.DomainLost, domainID, s.Tick, second(at), events.Data{Reason: why, Since: s.Absence.Since, Action: string(Report)})
}

// Restored stores that the taken value is given back, after a proof at that time.
func (s *DomainState) Restored(domainID string, at time.Time, proof []byte) {
	data := events.Data{Reason: "the token is there again, and the domain was restored"}
	if s.Taken != nil {
		data.Action, data.Since = string(s.Taken.Action), s.Taken.Since
	}
	s.Taken, s.InProgress, s.Absence = nil, nil, nil
	s.LastPresent = second(at)
	s.noteVerdict(at, historyRestored, "the token is there again", proof)
	s.notify(events.DomainRestored, domainID, s.Tick, at, data)
}

// RestoredAt reports whether the history has a restoration by a proof of that time.
func (s DomainState) RestoredAt(at time.Time) bool {
	return slices.ContainsFunc(s.History, func(e HistoryEntry) bool { return e.What == historyRestored && e.At.Equal(second(at)) })
}

// NotRestored stores why the taken value is not given back. A reason that is repeated
// or changes takes one entry of the history.
func (s *DomainState) NotRestored(at time.Time, why string) { s.NoteOnce(at, historyWithheld, why) }

// Clear drops the absence and the taken value, which is no longer given back.
func (s *DomainState) Clear(at time.Time, what, why string) {
	s.Absence, s.Taken = nil, nil
	s.Note(at, what, why)
}

// Note adds an entry to the history.
func (s *DomainState) Note(at time.Time, what, why string) {
	s.History = append(s.History, HistoryEntry{At: second(at), What: what, Why: events.Cut(why, maxSentence)})
	if more := len(s.History) - maxHistory; more > 0 {
		s.History = s.History[more:]
	}
}

// noteVerdict adds an entry about a change of the domain's record, with the evidence for it.
func (s *DomainState) noteVerdict(at time.Time, what, why string, verdict []byte) {
	s.Note(at, what, why)
	s.History[len(s.History)-1].Verdict = verdict
}

// NoteOnce adds an entry to the history, or replaces the last one if that is of the same
// event: a reason that changes each time must not displace earlier entries.
func (s *DomainState) NoteOnce(at time.Time, what, why string) {
	if s.noted(what, why) {
		return
	}
	if n := len(s.History); n > 0 && s.History[n-1].What == what {
		s.History = s.History[:n-1]
	}
	s.Note(at, what, why)
}

// noted reports whether the last entry of the history is of that event and reason.
func (s DomainState) noted(what, why string) bool {
	n := len(s.History)
	return n > 0 && s.History[n-1].What == what && s.History[n-1].Why == events.Cut(why, maxSentence)
}

// notify adds a pending event. Its id is derived from domain and time, so that executions
// that make the same change of the same state make the same event.
func (s *DomainState) notify(typ, domainID string, tick int64, at time.Time, data events.Data) {
	data.OrganizationID, data.DiscoveryDomainID, data.Domain, data.Tick = s.OrganizationID, domainID, s.Domain, tick
	s.Pending = append(s.Pending, events.Event{ID: fmt.Sprintf("%s-%s-%d", typ, domainID, at.Unix()), Type: typ, At: second(at), Data: data})
}
