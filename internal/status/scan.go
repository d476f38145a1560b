package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/stamp"
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
	case r.HasAllRows(): // its row has failed
		s.Early = cmp.Or(text, "the reason is not stored")
		s.Ended = true
	default:
		s.Reason = ShownReason(text)
		s.NextTry = r.Scan.NextAt
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
		text = "sweep of " + stamp.UTC(TickAt(s.Tick))
		if s.SpreadUntil > s.Tick {
			text += ", checks until " + stamp.UTC(TickAt(s.SpreadUntil))
		}
		if s.Pending {
			text += ", pending domains too"
		}
		text += "; "
	}
	text += s.ofClient() + "organizations read: " + Grouped(s.Read)
	if s.Gone > 0 {
		text += "; gone since they were listed: " + Grouped(s.Gone)
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

// subjects returns "organizations" or "domains", whichever the scan finds.
func (s *Scan) subjects() string {
	if s.Client != "" {
		return "organizations"
	}
	return "domains"
}

// ofClient describes the search for the organizations of a client; "": it is another search.
func (s *Scan) ofClient() string {
	if s.Client == "" {
		return ""
	}
	text := fmt.Sprintf("list of the organizations with client %s, which removes nothing; with the client: %s", s.Client,
		Grouped(s.Found))
	if s.List != "" {
		text = fmt.Sprintf("removal of client %s from the %s organizations that run %s lists: %s still have it", s.Client,
			Grouped(s.Counted), s.List, Grouped(s.Found))
	}
	if s.Entitled > 0 {
		text += "; with an active app entitlement: " + Grouped(s.Entitled)
	}
	if s.Protected > 0 {
		text += "; protected, left out: " + Grouped(s.Protected)
	}
	return text + "; "
}

// LeftOut describes the organizations that the scan did not read, so that rows may be missing;
// "": it read all.
func (s *Scan) LeftOut() string {
	if s == nil || s.Complete() {
		return ""
	}
	early := ""
	missed := ""
	if s.Early != "" {
		early = "ended early: " + ShownReason(s.Early)
	}
	if s.Missed > 0 {
		missed = fmt.Sprintf("organizations not read: %s (%s)", Grouped(s.Missed), ShownReason(s.Why))
	}
	return Joined(early, missed)
}
