package ledger_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
)

func TestRowsPages(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 600), 0)
	e := w.takeRows(seg, 250)
	memo := ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 2<<10)}
	w.end(seg, e, ledger.Ends(memo, numbersOf(e)...)...)
	for _, tt := range []struct {
		from    ledger.Row
		n       int
		atLeast int
		atMost  int
	}{
		{0, 3, 3, 3},
		{0, 1000, 50, 70}, // 2 KiB each: as many as 128 KiB have
		{250, 1000, 128, 128},
		{590, 100, 10, 10},
		{600, 100, 0, 0},
		{8191, 1, 0, 0},
	} {
		rows, err := w.Rows(t.Context(), seg, tt.from, tt.n)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) < tt.atLeast || len(rows) > tt.atMost {
			t.Errorf("%d rows from %d on, want %d to %d", len(rows), tt.from, tt.atLeast, tt.atMost)
		}
		for i, row := range rows {
			if number := tt.from + ledger.Row(i); row.Row != number || row.Err != nil ||
				string(row.Content) != string(content(int(number), 1)[0]) {
				t.Errorf("row %d is %+v", number, row)
			}
		}
	}
	for _, bad := range []struct {
		from ledger.Row
		n    int
	}{{-1, 1}, {0, 0}, {ledger.SegmentRows, 1}} {
		if _, err := w.Rows(t.Context(), seg, bad.from, bad.n); err == nil {
			t.Errorf("%d rows from %d on: want an error", bad.n, bad.from)
		}
	}
}

func numbersOf(e execution) (rows []ledger.Row) {
	for _, row := range e.Rows {
		rows = append(rows, row.Row)
	}
	return rows
}

// TestDamagedRow damages the stored value or intent of a row: that row is an error, and rows
// stored elsewhere are valid.
func TestDamagedRow(t *testing.T) {
	for _, tt := range []struct{ name, part, stored string }{
		{"value", "values", "damaged"}, {"checkpoint", "values", "x;y"}, {"intent", "intents", "damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			seg := segment(w.submit("a", 5), 0)
			e := w.takeRows(seg, 5)
			w.intend(seg, e, "PATCH", 1)
			waiting := ledger.Waiting{Stage: ledger.StageCheck, Memo: []byte("memo")}
			w.end(seg, e, ledger.Ends(waiting, 0, 1, 2, 3, 4)...)
			w.store(ledger.SegmentKey(seg, tt.part), "1", tt.stored)
			named := func(err error) bool { return err != nil && strings.Contains(err.Error(), "row 1:") }
			if rows := w.rows(seg); !named(rows[1].Err) || rows[4].Err != nil {
				t.Errorf("rows %+v", rows)
			}
			w.settleDamaged(seg, named)
		})
	}
}

// settleDamaged reclaims, gives back and settles the rows.
func (w *worker) settleDamaged(seg ledger.Segment, named func(error) bool) {
	w.t.Helper()
	r := w.release(seg, all)
	if len(r.Rows) != 5 {
		w.t.Fatalf("released %v, want all rows", numbers(r))
	}
	w.begin(seg, r.Token, numbers(r)...)
	if n, _, err := w.Reclaim(w.t.Context(), seg, w.session); n != 5 || err != nil {
		w.t.Fatalf("%d rows reclaimed, %v", n, err)
	}
	r = w.release(seg, all)
	e := w.begin(seg, r.Token, 0, 1, 2, 3, 4)
	w.end(seg, e, ledger.Ends(ledger.GiveBack{Note: "note"}, 0, 1, 2, 3, 4)...)
	r = w.release(seg, all)
	e = w.begin(seg, r.Token, 0, 1, 2, 3, 4)
	if !named(e.Rows[1].Err) || e.Rows[4].Err != nil || string(e.Rows[4].Checkpoint.Memo) != "memo" {
		w.t.Errorf("begun %+v", e.Rows)
	}
	if receipt := w.settle(seg, e, 0, 1, 2, 3, 4); !receipt.Ended {
		w.t.Errorf("receipt %+v, want the run ended", receipt)
	}
}

func TestWaitingReplacesADamagedCheckpoint(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e := w.takeRows(seg, 1)
	w.store(ledger.SegmentKey(seg, "values"), "0", "damaged")
	w.end(seg, e, ledger.RowEnd{Ending: ledger.Waiting{Stage: ledger.StageReady, After: time.Hour, Memo: []byte("memo")}})
	if row := w.rows(seg)[0]; row.Err != nil || string(row.Checkpoint.Memo) != "memo" {
		t.Errorf("row %+v", row)
	}
}
