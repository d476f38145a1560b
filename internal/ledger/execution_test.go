package ledger_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
)

func TestBeginAdmitsOneExecution(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	r := w.release(seg, ledger.Quota{First: 1})
	e := ledger.Execution{Token: r.Token, Nonce: ledger.NewNonce(), Session: w.session}
	for range 2 { // the answer of the first may have been lost
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

func TestBeginNeedsTheToken(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	r := w.release(seg, ledger.Quota{First: 1})
	want(t, w.begin(seg, ledger.NewToken(), 0).Receipt, ledger.RowSuperseded)
	want(t, w.begin(seg, r.Token, 1).Receipt, ledger.RowSuperseded) // was not released
	want(t, w.begin(seg, r.Token, 0).Receipt, ledger.RowAdmitted)
}

func TestReleaseThatIsNotBegunLapses(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	first := w.release(seg, ledger.Quota{First: 1})
	w.pass(seg, ledger.ReleaseTimeout)
	again := w.release(seg, ledger.Quota{First: 1}) // a row that was never begun
	if rows := numbers(again); !slices.Equal(rows, []ledger.Row{0}) {
		t.Fatalf("released %v, want row 0 again", rows)
	}
	want(t, w.begin(seg, first.Token, 0).Receipt, ledger.RowSuperseded)
	e := w.begin(seg, again.Token, 0)
	want(t, e.Receipt, ledger.RowAdmitted)
	if n := e.Rows[0].Checkpoint.Attempts; n != 0 {
		t.Errorf("%d attempts, want none: nothing was executed", n)
	}
}

func TestExecutionThatTakesTooLongLapses(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	slow, row := w.take(seg)
	w.pass(seg, ledger.ExecutionLimit)
	r := w.release(seg, ledger.Quota{Check: 1})
	e := w.begin(seg, r.Token, row)
	want(t, e.Receipt, ledger.RowAdmitted)
	if n := e.Rows[0].Checkpoint.Attempts; n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	want(t, w.settle(seg, slow, row), ledger.RowSuperseded)
	want(t, w.settle(seg, e, row), ledger.RowWritten)
}

func TestReclaim(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	seg := segment(w.submit("a", 3), 0)
	dead, row := w.take(seg)
	alive, kept := other.take(seg)
	n, _, err := w.Reclaim(t.Context(), seg, w.session)
	if err != nil || n != 1 {
		t.Fatalf("%d rows reclaimed, %v", n, err)
	}
	want(t, w.settle(seg, dead, row), ledger.RowSuperseded)
	want(t, other.settle(seg, alive, kept), ledger.RowWritten)
	r := w.release(seg, ledger.Quota{Check: 1})
	if e := w.begin(seg, r.Token, row); e.Rows[0].Checkpoint.Attempts != 0 || e.Rows[0].Checkpoint.Died != 1 {
		t.Errorf("begun %+v, want one death and no attempt", e.Rows)
	}
}

// TestReclaimAgain has a row's worker die again and again: the row is due at once the first
// time, and later and later from the second on. It loses attempts from the third on, when it is
// known to have been executed alone. Giving it back changes nothing, an end resets the count.
func TestReclaimAgain(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	die := func(died, attempts int, least, most time.Duration) {
		t.Helper()
		_, r, err := w.Reclaim(t.Context(), seg, w.session)
		if err != nil {
			t.Fatal(err)
		}
		if after := r.Due.Sub(r.Now); after < least || after > most {
			t.Errorf("due after %v, want %v to %v", after, least, most)
		}
		w.pass(seg, most)
		e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
		if c := e.Rows[0].Checkpoint; c.Died != died || c.Attempts != attempts {
			t.Errorf("%d deaths and %d attempts, want %d and %d", c.Died, c.Attempts, died, attempts)
		}
	}
	die(1, 0, 0, 0)
	die(2, 0, 700*time.Millisecond, 1200*time.Millisecond)
	die(3, 1, 1400*time.Millisecond, 2300*time.Millisecond)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.GiveBack{Note: "stopping"}})
	e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
	die(4, 2, 2800*time.Millisecond, 4500*time.Millisecond)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, CountAttempt: true}})
	e = w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
	die(1, 3, 0, 0)
}

func TestWait(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	memo := "evidence;with,any:byte\x00\xff"
	waiting := ledger.Waiting{Stage: ledger.StageReady, After: time.Hour, CountAttempt: true, Memo: []byte(memo)}
	r, err := w.Wait(t.Context(), seg, e.nonce, waiting, row)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowWritten)
	if d := r.Due.Sub(e.Now); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("the segment is due in %v, want an hour", d)
	}
	if rows := numbers(w.release(seg, all)); len(rows) > 0 {
		t.Errorf("released %v before it was due", rows)
	}
	w.pass(seg, time.Hour)
	released := w.release(seg, ledger.Quota{Ready: 1})
	again := w.begin(seg, released.Token, row)
	c := again.Rows[0].Checkpoint
	if c.Stage != ledger.StageReady || c.Attempts != 1 || string(c.Memo) != memo || c.FirstBegun.IsZero() {
		t.Errorf("checkpoint %+v", c)
	}
}

func TestWaitRefuses(t *testing.T) {
	tests := map[string]ledger.Waiting{
		"no stage":    {},
		"a long time": {Stage: ledger.StageCheck, After: ledger.MaxWait + 1},
		"a past time": {Stage: ledger.StageCheck, After: -1},
		"a long memo": {Stage: ledger.StageCheck, Memo: make([]byte, 2<<10+1)},
	}
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	for name, waiting := range tests {
		if _, err := w.Wait(t.Context(), seg, e.nonce, waiting, row); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// TestTimesFarInTheFutureCountAsPast makes rows wait, releases and begins them while Redis'
// clock is far ahead.
func TestTimesFarInTheFutureCountAsPast(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	e, waiting := w.take(seg)
	if _, err := w.Wait(t.Context(), seg, e.nonce, ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour},
		waiting); err != nil {
		t.Fatal(err)
	}
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

func TestGiveUpCountsNoAttempt(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	if _, err := w.GiveUp(t.Context(), seg, e.nonce, 0, row); err != nil {
		t.Fatal(err)
	}
	r := w.release(seg, all)
	again := w.begin(seg, r.Token, row)
	if c := again.Rows[0].Checkpoint; c.Attempts != 0 || c.FirstBegun.IsZero() {
		t.Errorf("checkpoint %+v", c)
	}
}

func TestGiveBack(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	r := w.release(seg, all)
	receipt, err := w.GiveBack(t.Context(), seg, r.Token, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	want(t, receipt, ledger.RowWritten, ledger.RowWritten)
	if rows := numbers(w.release(seg, all)); !slices.Equal(rows, []ledger.Row{0, 2}) {
		t.Errorf("released %v, want 0 and 2", rows)
	}
}

func TestReadyRowsAreReleasedBySeparateQuota(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 4), 0)
	for _, stage := range []ledger.Stage{ledger.StageReady, ledger.StageCheck} {
		e, row := w.take(seg)
		if _, err := w.Wait(t.Context(), seg, e.nonce, ledger.Waiting{Stage: stage}, row); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		quota ledger.Quota
		want  []ledger.Row
	}{
		{ledger.Quota{Ready: 9}, []ledger.Row{0}},
		{ledger.Quota{Check: 9}, []ledger.Row{1}},
		{ledger.Quota{First: 1}, []ledger.Row{2}},
		{ledger.Quota{}, nil},
	} {
		if rows := numbers(w.release(seg, tt.quota)); !slices.Equal(rows, tt.want) {
			t.Errorf("quota %+v: released %v, want %v", tt.quota, rows, tt.want)
		}
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

func TestIntent(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 2), 0)
	e, row := w.take(seg)
	intend := func(e execution) ledger.Receipt {
		r, err := w.Intend(t.Context(), seg, e.nonce, []byte("PATCH:1"), row)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want(t, intend(e), ledger.RowWritten)

	// The worker dies, and the run is paused. The row is finished all the same.
	w.must(w.Pause, "a")
	if _, _, err := w.Reclaim(t.Context(), seg, w.session); err != nil {
		t.Fatal(err)
	}
	r := w.release(seg, all)
	if rows := numbers(r); !slices.Equal(rows, []ledger.Row{row}) {
		t.Fatalf("released %v, want the row with an intent", rows)
	}
	again := w.begin(seg, r.Token, row)
	if i := again.Rows[0].Intent; i == nil || string(i.Value) != "PATCH:1" || i.At.IsZero() || i.At.After(again.Now) {
		t.Errorf("intent %+v", i)
	}
	want(t, intend(e), ledger.RowSuperseded)
	want(t, intend(again), ledger.RowWritten)

	// It is known that no request is under way, and none begins.
	if _, err := w.Withdraw(t.Context(), seg, again.nonce, row); err != nil {
		t.Fatal(err)
	}
	want(t, intend(again), ledger.RowStopped)
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
		r, err := w.Settle(t.Context(), seg, e.nonce, result, row)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, ledger.RowWritten)
		if r, err = w.Settle(t.Context(), seg, e.nonce, result, row); err != nil {
			t.Fatal(err)
		}
		want(t, r, ledger.RowEnded)
		if r, err = w.Settle(t.Context(), seg, e.nonce, ledger.Result{Outcome: "failed"}, row); err != nil {
			t.Fatal(err)
		}
		want(t, r, ledger.RowSettled)
		if got := w.rows(seg)[i].Result; got.Outcome != result.Outcome || got.Detail != result.Detail ||
			string(got.Evidence) != string(result.Evidence) {
			t.Errorf("row %d: %+v, want %+v", i, got, result)
		}
	}
	if n := w.rdb.HLen(t.Context(), ledger.SegmentKey(seg, "results")).Val(); n != 2 {
		t.Errorf("%d results stored, want those of the rows that did not simply succeed", n)
	}
}

func TestDismiss(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 4), 0)
	_, inProgress := w.take(seg)
	r, err := w.Dismiss(t.Context(), seg, ledger.Result{Outcome: ledger.Cancelled}, inProgress, 3)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowSuperseded, ledger.RowWritten)
	if rows := numbers(w.release(seg, all)); !slices.Equal(rows, []ledger.Row{1, 2}) {
		t.Errorf("released %v, want 1 and 2", rows)
	}
}

func TestDamagedRowsAreReleasedWithAnError(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	if err := w.rdb.HSet(t.Context(), ledger.SegmentKey(seg, "chunks"), "0", "damaged").Err(); err != nil {
		t.Fatal(err)
	}
	r, err := w.Release(t.Context(), seg, all)
	if err != nil || len(r.Rows) != 1 || r.Rows[0].Err == nil {
		t.Errorf("released %+v, %v, want an error with the row", r.Rows, err)
	}
}

// TestIntendFollowsTheControl intends for a row without an intent, which is taken away
// again, and for one that has one.
func TestIntendFollowsTheControl(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	plain, row := w.take(seg)
	intended, other := w.take(seg)
	w.intend(seg, intended, "PATCH", other)
	for _, tt := range []struct {
		name            string
		do              func()
		plain, intended ledger.Status
	}{
		{"in progress", func() {}, ledger.RowWritten, ledger.RowWritten},
		{"paused", func() { w.must(w.Pause, "a") }, ledger.RowStopped, ledger.RowWritten},
		{"resumed", func() { w.must(w.Resume, "a") }, ledger.RowWritten, ledger.RowWritten},
		{"cancelled", func() { w.must(w.Cancel, "a") }, ledger.RowCancelled, ledger.RowWritten},
		{"settled", func() {
			w.settle(seg, plain, row)
			w.settle(seg, intended, other)
		}, ledger.RowSettled, ledger.RowSettled},
	} {
		tt.do()
		if got := w.intend(seg, plain, "PATCH", row).Statuses[0]; got != tt.plain {
			t.Errorf("%s: a row without intent: %s, want %s", tt.name, got, tt.plain)
		}
		if got := w.intend(seg, intended, "PATCH", other).Statuses[0]; got != tt.intended {
			t.Errorf("%s: a row with an intent: %s, want %s", tt.name, got, tt.intended)
		}
		if _, err := w.Withdraw(t.Context(), seg, plain.nonce, row); err != nil {
			t.Fatal(err)
		}
	}
}
