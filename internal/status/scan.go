package status

import (
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/runs"
	"orgops/internal/sweep"
)

// ScanOf returns the progress of the scan that finds the run's rows; ok is false if there
// is none.
func ScanOf(r runs.Run) (w sweep.Progress, ok bool) {
	if r.Scan == nil || json.Unmarshal(r.Scan.Progress, &w) != nil {
		return sweep.Progress{}, false
	}
	return w, true
}

// LeftOut returns what the scan has left out of the run, in words: rows may be missing.
// "": nothing.
func LeftOut(r runs.Run) string {
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

// ScanState returns the progress of the scan that finds the run's rows, and what it waits
// for, in words; "": there is none.
func ScanState(r runs.Run) string {
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
		return text + "; waits: " + r.Scan.Note + nextAt("try", r.Scan.Next)
	}
	return text + "; continues"
}

// sweepOf returns the tick of a sweep and until when its checks are spread, in words; "": the
// scan is not a sweep's.
func sweepOf(w sweep.Progress) string {
	if w.Tick == 0 {
		return ""
	}
	text := "sweep of " + stamp(TickAt(w.Tick))
	if w.SpreadUntil > w.Tick {
		text += ", checks until " + stamp(TickAt(w.SpreadUntil))
	}
	if w.Pending {
		text += ", pending domains too"
	}
	return text + "; "
}

// nextAt says when something is done next, if that is known.
func nextAt(what string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (next %s %s)", what, stamp(at))
}

// longestReason is the most characters of a reason that are shown.
const longestReason = 500

// reason caps a reason, in which the API may be quoted, and escapes what would not
// print.
func reason(text string) string { return shown(text, longestReason) }
