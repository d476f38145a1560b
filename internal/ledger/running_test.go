package ledger_test

import (
	"slices"
	"testing"

	"orgops/internal/ledger"
)

// TestRunning reads the executions of a session in the presence of those of another one. One
// has more rows than a script reads at once.
func TestRunning(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	run := w.submit("a", 300, 3, 3)
	large, small, strange := segment(run, 0), segment(run, 1), segment(run, 2)
	first := w.release(large, ledger.Quota{First: 200})
	most := w.begin(large, first.Token, numbers(first)...)
	other.take(large)
	one, row := w.take(large)
	two, second := w.take(small)
	other.take(small)
	other.take(strange)
	gone := ledger.Segment{Tenant: tenant, Run: "gone", Incarnation: run.Incarnation, Number: 9}
	all, err := w.Running(t.Context(), w.session, gone, large, small, strange)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d executions, %v, want 3", len(all), err)
	}
	rows := map[ledger.Nonce][]ledger.Row{}
	for _, r := range all {
		if want := count(r.Nonce == two.nonce); r.Segment.Number != want {
			t.Errorf("an execution in segment %d, want %d", r.Segment.Number, want)
		}
		rows[r.Nonce] = slices.Sorted(slices.Values(r.Rows))
	}
	for nonce, want := range map[ledger.Nonce][]ledger.Row{most.nonce: numbers(first),
		one.nonce: {row}, two.nonce: {second}} {
		if !slices.Equal(rows[nonce], want) {
			t.Errorf("rows %v, want %v", rows[nonce], want)
		}
	}
}

// TestGiveBackAfterLoss gives back a row whose end Redis has lost, as listed by Running. No
// attempt is counted, and the intent stays. It has no effect once another execution has the
// row.
func TestGiveBackAfterLoss(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	if _, err := w.Intend(t.Context(), seg, e.nonce, []byte("change"), row); err != nil {
		t.Fatal(err)
	}
	saved := remember(t, w.rdb)
	want(t, w.settle(seg, e, row), ledger.RowWritten)
	saved.restore(t, w.rdb, "")
	all, err := w.Running(t.Context(), w.session, seg)
	if err != nil || len(all) != 1 {
		t.Fatalf("in progress %+v, %v", all, err)
	}
	giveBack := func(status ledger.Status) {
		t.Helper()
		r, err := w.End(t.Context(), seg, all[0].Nonce, ledger.Ends(ledger.GiveBack{}, all[0].Rows...)...)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, status)
	}
	giveBack(ledger.RowWritten)
	again := w.begin(seg, w.release(seg, ledger.Quota{Check: 1}).Token, row)
	giveBack(ledger.RowEnded)
	if b := again.Rows[0]; b.Checkpoint.Attempts != 0 || b.Intent == nil || string(b.Intent.Value) != "change" {
		t.Errorf("begun %+v, want no attempt and the intent", b)
	}
	want(t, w.settle(seg, again, row), ledger.RowWritten)
}
