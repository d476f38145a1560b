package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
)

// Scan is the progress of the scan that finds a run's rows.
type Scan struct {
	progress.Scan

	Reason    string    `json:"reason,omitempty"` // why it does not continue
	NextTry   time.Time `json:"next_try,omitzero"`
	Cancelled bool      `json:"-"`
}

// scanOf returns the scan that finds the run's rows; nil: there is none.
func scanOf(r ledger.Run) *Scan {
	var s Scan
	if r.Scan == nil || json.Unmarshal(r.Scan.Progress, &s.Scan) != nil {
		return nil
	}
	note := ledger.ParseNote(r.Scan.Note)
	text := string(cmp.Or(note.Outcome, ledger.Outcome(note.Memo)))
	if note.Reason != "" {
		text += ": " + note.Reason
	}
	switch s.Cancelled = !r.CancelledAt.IsZero(); {
	case s.Cancelled, s.Ended:
	case r.Sealed(): // its row has failed
		s.Early, s.Ended = cmp.Or(text, "the reason is not stored"), true
	default:
		s.Reason, s.NextTry = reason(text), r.Scan.NextAt
	}
	return &s
}

// String describes the progress, and why the scan waits; "": there is no scan.
func (s *Scan) String() string {
	if s == nil {
		return ""
	}
	text := ""
	if s.Tick != 0 {
		text = "sweep of " + Stamp(TickAt(s.Tick))
		if s.SpreadUntil > s.Tick {
			text += ", checks until " + Stamp(TickAt(s.SpreadUntil))
		}
		if s.Pending {
			text += ", pending domains too"
		}
		text += "; "
	}
	text += fmt.Sprintf("organizations read: %d", s.Read)
	if s.Gone > 0 {
		text += fmt.Sprintf("; gone since they were listed: %d", s.Gone)
	}
	if out := s.LeftOut(); out != "" {
		text += "; " + out
	}
	switch {
	case s.Ended:
		return text
	case s.Cancelled:
		return text + "; stopped by the cancel"
	case s.Reason != "":
		return text + "; waits: " + s.Reason + nextAt("try", s.NextTry)
	}
	return text + "; continues"
}

// LeftOut describes the organizations that the scan did not read, so that rows may be missing;
// "": it read all.
func (s *Scan) LeftOut() string {
	if s == nil || s.Complete() {
		return ""
	}
	early, missed := "", ""
	if s.Early != "" {
		early = "ended early: " + reason(s.Early)
	}
	if s.Missed > 0 {
		missed = fmt.Sprintf("organizations not read: %d (%s)", s.Missed, reason(s.Why))
	}
	return joined(early, missed)
}
