package ledger_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// invalid is the result of every row for which settledRow returns true.
var invalid = ledger.Result{Outcome: "invalid", Detail: "no id", Evidence: []byte("line 7")}

func settledRow(i int) bool { return i%3 == 1 }

// fillSettled adds n rows to a new stager, a third of them with their result.
func (w *worker) fillSettled(run ledger.Run, n int, r ledger.Result) *ledger.Stager {
	w.t.Helper()
	return w.fillWith(run, content(0, n), func(s *ledger.Stager, i int, row []byte) error {
		if settledRow(i) {
			return s.AddSettled(w.t.Context(), row, r)
		}
		return s.Add(w.t.Context(), row)
	})
}

func TestAddSettled(t *testing.T) {
	for name, r := range map[string]ledger.Result{
		"with a detail": invalid,
		"large":         {Outcome: "invalid", Evidence: bytes.Repeat([]byte("x"), 9<<10)},
		"done":          {Outcome: ledger.Done},
		"cancelled":     {Outcome: ledger.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			n := redistest.Amount(400, 1000)
			settled := n / 3
			w := newWorker(t)
			run := w.commit(w.fillSettled(w.create("a"), n, r))
			seg := segment(run, 0)
			if run.Ended() || run.Counts[r.Outcome] != int64(settled) {
				t.Errorf("run %+v", run)
			}
			if s := w.segments("a")[0]; s.Settled != settled || s.Open.Queued != n-settled {
				t.Errorf("segment %+v", s)
			}
			for i, row := range w.rows(seg) {
				want := ledger.RowState{Row: ledger.Row(i), Phase: ledger.PhaseQueued}
				if settledRow(i) {
					want.Phase, want.Result = ledger.PhaseSettled, r
				}
				if fmt.Sprint(row.Phase, row.Result) != fmt.Sprint(want.Phase, want.Result) ||
					string(row.Content) != fmt.Sprint("row ", i) {
					t.Fatalf("row %d is %+v, want %+v", i, row, want)
				}
			}
			if last := w.settleAll(seg); !last.Ended {
				t.Errorf("receipt %+v, want the end", last)
			}
			want := ledger.Counts{r.Outcome: int64(settled)}
			want[ledger.Done] += int64(n - settled)
			if counts, err := w.Counts(t.Context(), run); err != nil || !maps.Equal(counts, want) {
				t.Errorf("counts %v, %v, want %v", counts, err, want)
			}
			w.remove(run)
		})
	}
}

func TestAddSettledRefusesResults(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), nil)
	for _, r := range []ledger.Result{{Outcome: "In Vain"}, {Outcome: ledger.Done, Evidence: make([]byte, 17<<10)}} {
		if err := s.AddSettled(t.Context(), []byte("row 0"), r); err == nil || s.Rows() != 0 {
			t.Errorf("%d rows, %v: want an error", s.Rows(), err)
		}
	}
}

func TestRunOfSettledRowsEndsAtItsCommit(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), nil)
	n := redistest.Amount(600, ledger.SegmentRows+1) // in two segments: the fewer, the larger
	for i, row := range content(0, n) {
		if n < ledger.SegmentRows {
			row = append(row, make([]byte, 4<<10)...)
		}
		if err := s.AddSettled(t.Context(), row, invalid); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
	if run := w.commit(s); !run.Ended() || run.Segments != 2 || run.Counts["invalid"] != int64(n) {
		t.Errorf("run %+v, want it ended", run)
	}
}
