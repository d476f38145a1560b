package ledger_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// takeRows releases and begins n rows that were never begun before.
func (w *worker) takeRows(seg ledger.Segment, n int) execution {
	w.t.Helper()
	r := w.release(seg, ledger.Quota{First: n})
	if len(r.Rows) != n {
		w.t.Fatalf("%d rows released, want %d", len(r.Rows), n)
	}
	return w.begin(seg, r.Token, numbers(r)...)
}

// intend stores an intent for rows.
func (w *worker) intend(seg ledger.Segment, e execution, intent string, rows ...ledger.Row) ledger.Receipt {
	w.t.Helper()
	r, err := w.Intend(w.t.Context(), seg, e.nonce, []byte(intent), rows...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// end ends an execution.
func (w *worker) end(seg ledger.Segment, e execution, ends ...ledger.RowEnd) ledger.Receipt {
	w.t.Helper()
	r, err := w.End(w.t.Context(), seg, e.nonce, ends...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestEndManyRows checks that endings of more than 250 rows, or of many bytes, are divided
// among scripts.
func TestEndManyRows(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 600), 0)
	e1, e2, e3 := w.takeRows(seg, 250), w.takeRows(seg, 250), w.takeRows(seg, 100)
	var ends []ledger.RowEnd
	for row := range ledger.Row(600) {
		ends = append(ends, ledger.RowEnd{
			Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, Memo: bytes.Repeat([]byte{byte(row)}, 1000)},
		})
	}
	for i, e := range []execution{e1, e2, e3} {
		r := w.end(seg, e, ends...)
		if n := written(r); n != []int{250, 250, 100}[i] || len(r.Statuses) != 600 {
			t.Errorf("%d of %d rows written", n, len(r.Statuses))
		}
	}
	for i, row := range w.rows(seg) {
		if m := row.Checkpoint.Memo; len(m) != 1000 || m[0] != byte(i) {
			t.Fatalf("row %d has a memo of %d bytes", i, len(m))
		}
	}
}

func written(r ledger.Receipt) (n int) {
	for _, s := range r.Statuses {
		n += flag(s == ledger.RowWritten)
	}
	return n
}

func TestEndRefuses(t *testing.T) {
	tests := map[string]ledger.RowEnd{
		"no ending":       {},
		"no stage":        {Ending: ledger.Waiting{}},
		"a long time":     {Ending: ledger.Waiting{Stage: ledger.StageCheck, After: ledger.MaxWait + 1}},
		"a past time":     {Ending: ledger.GiveBack{After: -1}},
		"a long memo":     {Ending: ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 2<<10+1)}},
		"a long note":     {Ending: ledger.GiveBack{Note: string(make([]byte, 201))}},
		"no outcome":      {Ending: ledger.Result{}},
		"no possible row": {Row: -1, Ending: ledger.GiveBack{}},
	}
	w := newWorker(t)
	seg := segment(w.submit("a", 2), 0)
	e := w.takeRows(seg, 2)
	for name, bad := range tests {
		if _, err := w.End(t.Context(), seg, e.nonce, ledger.RowEnd{Row: 1, Ending: ledger.GiveBack{}}, bad); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if p := w.rows(seg)[1].Phase; p != ledger.PhaseInProgress {
		t.Errorf("row 1 is %s: want nothing written", p)
	}
}

func TestIntendReturnsItsTime(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	r := w.intend(seg, e, "PATCH", row)
	if i := w.rows(seg)[row].Intent; i == nil || !i.At.Equal(r.Now) {
		t.Errorf("intent %+v, want its time %v", i, r.Now)
	}
}

// TestDueOfReceipt checks that a receipt has the earliest time at which a row left open by the
// call is due, also if several scripts ended the rows.
func TestDueOfReceipt(t *testing.T) {
	const rows = 140 // more than one script ends
	for name, first := range map[string]ledger.Row{"in the first script": 0, "in the last": rows - 1} {
		w := newWorker(t)
		seg := segment(w.submit(ledger.RunID(fmt.Sprint("a", first)), rows+1), 0)
		e := w.takeRows(seg, rows+1)
		if r := w.end(seg, e, ledger.RowEnd{Row: rows, Ending: ledger.Result{Outcome: ledger.Done}}); !r.Due.IsZero() {
			t.Errorf("%s: due %v after a row was settled, want no time", name, r.Due)
		}
		var ends []ledger.RowEnd
		for row := range ledger.Row(rows) {
			after := 2 * time.Hour
			if row == first {
				after = time.Hour
			}
			ends = append(ends, ledger.RowEnd{Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, After: after}})
		}
		if d := w.end(seg, e, ends...).Due.Sub(e.Now); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("%s: due in %v, want an hour", name, d)
		}
	}
}
