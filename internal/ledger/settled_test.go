package ledger_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

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

// TestSettledAt: a row has the time at which its work was done, to the second, also if Redis'
// clock is ahead in that moment; one that a cancel settles has none.
func TestSettledAt(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 300)
	seg := segment(run, 0)
	e, first := w.take(seg)
	w.settle(seg, e, first)
	settled := w.rows(seg)[first].SettledAt
	if off := w.redisNow().Sub(settled); off < 0 || off > 10*time.Second {
		t.Errorf("row %d was settled at %s, %s before", first, settled, off)
	}
	var last ledger.Row
	for range 3 { // a row behind others that are open
		e, last = w.take(seg)
	}
	done := ledger.Result{Outcome: "unchanged", Detail: "was verified before"}
	at := w.redisNow().Add(-time.Hour).Truncate(time.Second)
	w.end(seg, e, ledger.RowEnd{Row: last, Ending: done, Now: at})
	w.must(w.Cancel, "a")
	for _, row := range w.rows(seg) {
		want := map[ledger.Row]time.Time{first: settled, last: at}[row.Row]
		if !row.SettledAt.Equal(want) {
			t.Errorf("row %d was settled at %s, want %s", row.Row, row.SettledAt, want)
		}
	}
	found := map[int64]time.Time{}
	for row, err := range w.Each(t.Context(), run, ledger.WithResult, 2) { // a page that begins elsewhere
		if err != nil {
			t.Fatal(err)
		}
		found[row.Item] = row.SettledAt
	}
	if !found[int64(last)].Equal(at) {
		t.Errorf("row %d was settled at %s, want %s", last, found[int64(last)], at)
	}
}

// TestSingleSettledAt: a row that was submitted by itself has the time of its run's end.
func TestSingleSettledAt(t *testing.T) {
	w := newWorker(t)
	run, _, err := w.SubmitRow(t.Context(), ledger.NewRun{ID: "one", Tenant: tenant, Kind: kind}, []byte("row 0"))
	if err != nil {
		t.Fatal(err)
	}
	seg := segment(run, 0)
	w.settleAll(seg)
	got, want := w.rows(seg)[0].SettledAt, w.get("one").EndedAt.Truncate(time.Second)
	if !got.Equal(want) || want.IsZero() {
		t.Errorf("settled at %s, want %s", got, want)
	}
}
