package evidence_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// TestReadOpen: an open row says why, in words that are safe to show.
func TestReadOpen(t *testing.T) {
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	since := time.Unix(1_800_000_000, 0).UTC()
	noted := func(note, text string) ledger.RowState {
		return ledger.RowState{Checkpoint: ledger.Checkpoint{Note: note, Memo: []byte(text)}}
	}
	for name, c := range map[string]struct {
		row    ledger.RowState
		reason string
		noted  bool
		next   time.Time
	}{
		"queued":   {row: ledger.RowState{Phase: ledger.PhaseQueued}},
		"released": {row: ledger.RowState{Phase: ledger.PhaseReleased}, reason: "released to a worker"},
		"in progress": {row: ledger.RowState{Phase: ledger.PhaseInProgress, Since: since},
			reason: "in progress since " + since.Format(time.RFC3339)},
		"in progress, with the reason of the execution before": {
			row:    ledger.RowState{Phase: ledger.PhaseInProgress, Checkpoint: noted("", "transient\x00503\x00").Checkpoint},
			reason: "transient: 503", noted: true},
		"given back without a note":   {row: ledger.RowState{Phase: ledger.PhaseWaiting, Due: before}},
		"waiting for its first begin": {row: ledger.RowState{Phase: ledger.PhaseWaiting, Due: later}, next: later},
		"left open by an execution": {
			row:    ledger.RowState{Due: before, Checkpoint: noted("", "transient\x00503\x00own").Checkpoint},
			reason: "transient: 503", noted: true, next: before},
		"an outcome without a reason": {row: noted("", "transient\x00\x00"), reason: "transient", noted: true},
		"another form":                {row: noted("", "own")},
		"a note rather than a reason": {row: noted("the worker stops", "transient\x00503\x00"),
			reason: "the worker stops", noted: true},
		"damaged": {row: ledger.RowState{Err: errors.New("row 1: damaged"), Checkpoint: noted("note", "").Checkpoint},
			reason: "row 1: damaged", noted: true},
		"a hostile reason": {row: noted("", "transient\x00a\x1b[31m\u202e\x00"), reason: `transient: a\x1b[31m\u202e`,
			noted: true},
		"a hostile note":  {row: noted("a\nb", ""), reason: `a\nb`, noted: true},
		"a hostile error": {row: ledger.RowState{Err: errors.New("a\nb")}, reason: `a\nb`, noted: true},
		"a reason that is too long": {row: noted(strings.Repeat("x", 501), ""), reason: strings.Repeat("x", 500) + "…",
			noted: true},
	} {
		open := evidence.ReadOpen(tasks.TypeUpdate, c.row)
		if open.Reason != c.reason || open.Noted != c.noted || !open.Next.Equal(c.next) {
			t.Errorf("%s: %q, noted %v, next %v; want %q, %v, %v", name, open.Reason, open.Noted, open.Next, c.reason, c.noted,
				c.next)
		}
	}
}
