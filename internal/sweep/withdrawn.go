package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/internal/discovery"
	"orgops/internal/events"
	"orgops/internal/stamp"
)

// RecordRead is a domain's record as it was read from the API.
type RecordRead struct {
	discovery.Domain // of one that is gone, the ids alone

	Gone bool // there is none
	At   time.Time
}

const (
	// readLag is how long a read may show a record as it was before a change.
	readLag = 5 * time.Minute
	// withdrawn begins the entry of a history.
	withdrawn = "withdrawn: "
)

// sentences say how a domain was withdrawn.
var sentences = map[string]string{
	"gone":          "it does not exist any more",
	"another token": "it has another host or token",
	"pending":       "it is pending",
}

// withdrawnBy returns how the record contradicts the proof of a state: the domain is pending, gone,
// or has another token; "": it does not, or orgops has changed it.
func (s DomainState) withdrawnBy(r RecordRead) string {
	if s.Proven == nil || s.OrganizationID != r.OrganizationID || s.Revoked != nil {
		return ""
	}
	last := s.Proven.At
	if s.LastPresent.After(last) {
		last = s.LastPresent
	}
	switch {
	case r.At.Sub(last) < readLag: // the read may be older than the verification
		return ""
	case r.Gone:
		return "gone"
	case HashToken(r.Host, r.TXT) != s.TokenHash:
		return "another token"
	case !r.IsVerified():
		return "pending"
	}
	return ""
}

// MayBeWithdrawn reports whether [States.Notice] may return a sentence about the record.
func (s DomainState) MayBeWithdrawn(r RecordRead, since time.Time) bool {
	return s.withdrawnBy(r) != "" || s.noticedSince(since) != ""
}

// noticedSince returns the sentence of a domain that was noticed since then as withdrawn.
func (s DomainState) noticedSince(since time.Time) string {
	for _, e := range s.History {
		if strings.HasPrefix(e.What, withdrawn) && !e.At.Before(second(since)) {
			return e.Why
		}
	}
	return ""
}

// Notice compares a record with the proof that is stored of its domain. If others have set a domain
// to pending that was verified here, deleted it or given it another token, it stores and notifies
// that once, and returns a sentence about it; "": they have not. A call that is repeated returns
// the same sentence if that was noticed at since or later, but for a domain that is gone, whose
// state is deleted.
func (s *States) Notice(ctx context.Context, r RecordRead, since time.Time) (why string, err error) {
	state, raw, err := s.Read(ctx, r.ID)
	if err != nil || raw == nil {
		return "", err
	}
	if why := state.noticedSince(since); why != "" {
		return why, nil
	}
	what := state.withdrawnBy(r)
	if what == "" {
		return "", nil
	}
	why = fmt.Sprintf("it was proven at %s and verified, but others have changed it: %s",
		stamp.UTC(state.Proven.At), sentences[what])

	// The attention first: a second call does not come here once the state has it.
	if err := s.Store.CountWithdrawn(ctx, r.ID, r.At); err != nil {
		return "", err
	}
	_, err = s.Change(ctx, r.ID, func(after *DomainState) {
		if after.withdrawnBy(r) == "" {
			return
		}
		after.Proven = nil
		after.Absence = nil
		after.Note(r.At, withdrawn+what, why)
		after.notify(events.DomainWithdrawn, r.ID, after.Tick, r.At, events.Data{Reason: why})
	})
	if err == nil && r.Gone {
		err = s.DeleteState(ctx, r.ID)
	}
	return why, err
}

// NoticeRead is Notice for a row that is about something else: a state that cannot be read, or that
// another process changes, does not keep it from its work.
func (s *States) NoticeRead(ctx context.Context, r RecordRead) error {
	_, err := s.Notice(ctx, r, r.At)
	_, unreadable := errors.AsType[*UnreadableError](err)
	if unreadable || errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// SetToPending stores that a run has set a domain to pending that was proven: its proof does not
// count any more.
func (s *States) SetToPending(ctx context.Context, id, run string, at time.Time) error {
	state, raw, err := s.Read(ctx, id)
	if err == nil {
		_, err = s.change(ctx, id, state, raw, func(after *DomainState) (counted []string) {
			if after.Proven == nil || after.Revoked != nil {
				return nil
			}
			if after.IsLost() {
				counted = []string{countRevoked}
			}
			after.Proven = nil
			after.Absence = nil
			after.Note(at, "pending", "set by run "+run)
			return counted
		})
	}
	if _, unreadable := errors.AsType[*UnreadableError](err); unreadable {
		return nil
	}
	return err
}
