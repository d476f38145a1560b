package ledger_test

import (
	"testing"

	"orgops/internal/ledger"
)

// TestCancelFreesMemory checks that a cancel leaves only results: at once, or, if rows are in
// progress, with the last of them.
func TestCancelFreesMemory(t *testing.T) {
	for name, inProgress := range map[string]bool{"no row in progress": false, "rows in progress": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			seg := segment(w.submit("a", 6), 0)
			e := w.takeRows(seg, 4)
			w.end(seg, e, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck, Memo: []byte("memo")}, 0, 1)...)
			w.release(seg, ledger.Quota{First: 1})
			if !inProgress {
				w.settle(seg, e, 2, 3)
			}
			w.must(w.Cancel, "a")
			if inProgress {
				w.settle(seg, e, 2, 3)
			}
			for _, part := range []string{
				"first", "check", "ready", "values", "released", "running", "executions",
			} {
				if n := w.rdb.Exists(t.Context(), ledger.SegmentKey(seg, part)).Val(); n > 0 {
					t.Errorf("%s is left", part)
				}
			}
			if left := w.inProgress(); len(left) > 0 {
				t.Errorf("in progress are %v", left)
			}
			if counts := w.get("a").Counts; counts[ledger.Cancelled] != 4 || counts[ledger.Done] != 2 {
				t.Errorf("counts %v", counts)
			}
		})
	}
}
