package sweep

import (
	"fmt"
	"slices"
	"time"

	"orgops/internal/events"
	"orgops/internal/untrusted"
)

const historyRestored = "restored"

// RevokedAt stores that the request of the revocation has taken effect, by its answer or a later
// read.
func (s *DomainState) RevokedAt(at time.Time) {
	r := s.Revoked
	verdict := r.Verdict
	r.DoneAt = second(at)
	r.Verdict = nil
	s.Absence = nil
	s.noteVerdict(at, "revoked: "+string(r.Set), "by run "+r.Run, verdict)
}

// Restored stores that the revocation is undone, after a proof at that time.
func (s *DomainState) Restored(domainID string, at time.Time, proof []byte) {
	data := events.Data{Reason: "the token is there again, and the domain was restored"}
	if s.Revoked != nil {
		data.Action = string(s.Revoked.Set)
		data.Since = s.Revoked.Since
	}
	s.Revoked = nil
	s.Absence = nil
	s.LastPresent = second(at)
	s.noteVerdict(at, historyRestored, "the token is there again", proof)
	s.notify(events.DomainFound, domainID, s.Tick, at, data)
}

// RestoredAt reports whether the history has a restoration by a proof of that time.
func (s DomainState) RestoredAt(at time.Time) bool {
	return slices.ContainsFunc(s.History, func(e HistoryEntry) bool {
		return e.What == historyRestored && e.At.Equal(second(at))
	})
}

// Clear drops the absence and the revocation, which is no longer undone.
func (s *DomainState) Clear(at time.Time, what, why string) {
	s.Absence = nil
	s.Revoked = nil
	s.Note(at, what, why)
}

// Note adds an entry to the history.
func (s *DomainState) Note(at time.Time, what, why string) {
	s.History = append(s.History, HistoryEntry{At: second(at), What: what, Why: untrusted.Cut(why, maxSentence)})
	if more := len(s.History) - maxHistory; more > 0 {
		s.History = s.History[more:]
	}
}

// noteVerdict adds an entry about a change of the domain's record, with the evidence for it.
func (s *DomainState) noteVerdict(at time.Time, what, why string, verdict []byte) {
	s.Note(at, what, why)
	s.History[len(s.History)-1].Verdict = verdict
}

// notify adds a pending event. Its id is derived from domain and time, so that executions
// that make the same change of the same state make the same event.
func (s *DomainState) notify(typ, domainID string, tick int64, at time.Time, data events.Data) {
	data.OrganizationID = s.OrganizationID
	data.DiscoveryDomainID = domainID
	data.Domain = s.Domain
	data.Tick = tick
	s.Pending = append(s.Pending, events.Event{ID: fmt.Sprintf("%s-%s-%d", typ, domainID, at.Unix()), Type: typ,
		At: second(at), Data: data})
}
