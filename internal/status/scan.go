package status

import (
	"encoding/json"
	"fmt"

	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// ScanOf returns the progress of the scan that finds the run's rows; ok is false if there
// is none.
func ScanOf(r ledger.Run) (w sweep.Progress, ok bool) {
	if r.Scan == nil || json.Unmarshal(r.Scan.Progress, &w) != nil {
		return sweep.Progress{}, false
	}
	return w, true
}

// ScanState describes the progress of the scan that finds the run's rows, and why it waits;
// "": there is none.
func ScanState(r ledger.Run) string {
	w, ok := ScanOf(r)
	if !ok {
		return ""
	}
	text := sweepOf(w) + fmt.Sprintf("organizations read: %d", w.Read)
	if w.Gone > 0 {
		text += fmt.Sprintf("; gone since they were listed: %d", w.Gone)
	}
	if out := LeftOut(r); out != "" {
		text += "; " + out
	}
	switch {
	case w.Ended:
		return text
	case !r.CancelledAt.IsZero():
		return text + "; stopped by the cancel"
	case r.Scan.Note != "":
		return text + "; waits: " + r.Scan.Note + nextAt("try", r.Scan.NextAt)
	}
	return text + "; continues"
}

// LeftOut describes the organizations that the scan did not read, so that rows may be
// missing; "": it read all.
func LeftOut(r ledger.Run) string {
	w, _ := ScanOf(r)
	w.Why, w.Early = reason(w.Why), reason(w.Early)
	missed := fmt.Sprintf("organizations not read: %d (%s)", w.Missed, w.Why)
	switch {
	case w.Complete():
		return ""
	case w.Early == "":
		return missed
	case w.Missed == 0:
		return "ended early: " + w.Early
	}
	return "ended early: " + w.Early + "; " + missed
}

// sweepOf returns the tick of a sweep and until when its checks are spread, in words; "": the
// scan is not a sweep's.
func sweepOf(w sweep.Progress) string {
	if w.Tick == 0 {
		return ""
	}
	text := "sweep of " + Stamp(TickAt(w.Tick))
	if w.SpreadUntil > w.Tick {
		text += ", checks until " + Stamp(TickAt(w.SpreadUntil))
	}
	if w.Pending {
		text += ", pending domains too"
	}
	return text + "; "
}
