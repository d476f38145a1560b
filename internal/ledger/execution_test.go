package ledger_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// TestBeginAdmitsOneExecution gives a release back, begins the next one, and repeats both as if the
// answers had been lost.
func TestBeginAdmitsOneExecution(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	former := w.release(seg, ledger.Quota{First: 1})
	for _, status := range []ledger.Status{ledger.RowWritten, ledger.RowEnded} {
		receipt, err := w.GiveBack(t.Context(), seg, former.Token, 0)
		if err != nil {
			t.Fatal(err)
		}
		want(t, receipt, status)
	}
	r := w.release(seg, ledger.Quota{First: 1})
	want(t, w.begin(seg, former.Token, 0).Receipt, ledger.RowSuperseded)
	e := ledger.Execution{Token: r.Token, Nonce: ledger.NewNonce(), Session: w.session}
	for range 2 {
		b, err := w.Begin(t.Context(), seg, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		want(t, b.Receipt, ledger.RowAdmitted)
	}
	want(t, w.begin(seg, r.Token, 0).Receipt, ledger.RowSuperseded)
	w.settle(seg, execution{nonce: e.Nonce}, 0)
	want(t, w.begin(seg, r.Token, 0).Receipt, ledger.RowSettled)
}

// TestReclaimAgain has a row's worker die again and again: the row is due at once the first
// time, and later and later from the second on. It loses attempts from the third on, when it is
// known to have been executed alone. Giving it back changes nothing but the note, an end resets the
// count and the note. The first begin stays the same.
func TestReclaimAgain(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	began := e.Now.Add(-time.Minute)
	die := func(died, attempts int, least, most time.Duration) {
		t.Helper()
		w.pass(seg, time.Duration(died)*time.Minute) // each execution has begun at another time
		_, r, err := w.Reclaim(t.Context(), seg, w.session)
		if err != nil {
			t.Fatal(err)
		}
		if after := r.Due.Sub(r.Now); after < least || after > most {
			t.Errorf("due after %v, want %v to %v", after, least, most)
		}
		w.pass(seg, most)
		e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
		if c := e.Rows[0].Checkpoint; c.Died != died || c.Attempts != attempts || !c.FirstBegun.Equal(began) {
			t.Errorf("%+v, want %d deaths, %d attempts, begun first at %v", c, died, attempts, began)
		}
	}
	die(1, 0, -time.Hour, 0)
	die(2, 0, 700*time.Millisecond, 1200*time.Millisecond)
	die(3, 1, 1400*time.Millisecond, 2300*time.Millisecond)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.GiveBack{Note: "stopping"}})
	e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
	if note := e.Rows[0].Checkpoint.Note; note != "stopping" {
		t.Errorf("note %q", note)
	}
	die(4, 2, 2800*time.Millisecond, 4500*time.Millisecond)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, CountAttempt: true}})
	e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
	die(1, 3, -time.Hour, 0)
}

// TestTimesFarInTheFutureCountAsPast makes rows wait, releases and begins them while Redis'
// clock is far ahead.
func TestTimesFarInTheFutureCountAsPast(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	e, waiting := w.take(seg)
	w.end(seg, e, ledger.RowEnd{Row: waiting, Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}})
	w.take(seg)
	w.release(seg, ledger.Quota{First: 1})
	w.pass(seg, -48*time.Hour)
	if s := w.segments("a")[0]; !s.Due.Before(e.Now) {
		t.Errorf("segment %+v: want it due now", s)
	}
	if rows := numbers(w.release(seg, all)); len(rows) != 3 {
		t.Errorf("released %v, want all rows", rows)
	}
}

// TestLargeRowsAreReleasedAFewAtATime checks that large rows are released a few at a time, and
// that none is omitted.
func TestLargeRowsAreReleasedAFewAtATime(t *testing.T) {
	w := newWorker(t)
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([][]byte, 15)
	for i := range rows {
		rows[i] = make([]byte, 100<<10)
		for at := range rows[i] {
			rows[i][at] = byte(random.Uint32()) // cannot be compressed
		}
	}
	run := w.create("a")
	sum, err := w.Stage(t.Context(), run, 0, rows)
	if err == nil {
		_, err = w.Commit(t.Context(), run, []ledger.Sum{sum})
	}
	if err != nil {
		t.Fatal(err)
	}
	seg := segment(run, 0)
	for _, stage := range []string{"first", "check"} {
		var released []ledger.Row
		for len(released) < len(rows) {
			r, err := w.Release(t.Context(), seg, all)
			if err != nil || len(r.Rows) == 0 || len(r.Rows) > 6 {
				t.Fatalf("%s: released %v, %v, want some at a time", stage, numbers(r), err)
			}
			released = append(released, numbers(r)...)
			for _, row := range r.Rows {
				if !bytes.Equal(row.Content, rows[row.Row]) {
					t.Errorf("%s: row %d has another content", stage, row.Row)
				}
			}
			e := w.begin(seg, r.Token, numbers(r)...)
			w.end(seg, e, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}, numbers(r)...)...)
		}
		w.pass(seg, time.Hour)
	}
}

func TestResults(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 4), 0)
	results := []ledger.Result{
		{Outcome: ledger.Done},
		{Outcome: ledger.Done, Evidence: []byte("\x00proof")},
		{Outcome: "refused", Detail: "host: differs", Evidence: []byte("a:b")},
		{Outcome: ledger.Cancelled},
	}
	for i, result := range results {
		e, row := w.take(seg)
		want(t, w.end(seg, e, ledger.RowEnd{Row: row, Ending: result}), ledger.RowWritten)
		want(t, w.end(seg, e, ledger.RowEnd{Row: row, Ending: result}), ledger.RowEnded)
		want(t, w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.Result{Outcome: "failed"}}), ledger.RowSettled)
		if got := w.rows(seg)[i].Result; got.Outcome != result.Outcome || got.Detail != result.Detail ||
			string(got.Evidence) != string(result.Evidence) {
			t.Errorf("row %d: %+v, want %+v", i, got, result)
		}
	}
	if n := w.rdb.HLen(t.Context(), ledger.SegmentKey(seg, "results")).Val(); n != 2 {
		t.Errorf("%d results stored, want those of the rows that did not simply succeed", n)
	}
}

func TestDamagedRowsAreReleasedWithAnError(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	w.store(ledger.SegmentKey(seg, "chunks"), "0", "damaged")
	r, err := w.Release(t.Context(), seg, all)
	if err != nil || len(r.Rows) != 1 || r.Rows[0].Err == nil {
		t.Errorf("released %+v, %v, want an error with the row", r.Rows, err)
	}
}
