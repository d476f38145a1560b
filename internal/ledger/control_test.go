package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestResumeEndsAPauseOnly resumes a run that may not begin yet.
func TestResumeEndsAPauseOnly(t *testing.T) {
	w := newWorker(t)
	run := w.submitWith("a", ledger.Control{NotBefore: w.redisNow().Add(time.Hour)}, 3)
	before := w.get("a").Control
	w.must(w.Pause, "a")
	w.must(w.Resume, "a")
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) != 0 {
		t.Errorf("released %v", rows)
	}
	if c := w.get("a").Control; c != before || c == (ledger.Control{}) {
		t.Errorf("control %+v, before the pause %+v", c, before)
	}
}

// TestInterruptedCancel has a cancel killed after each of its commands: once the header is changed
// no row begins any more, and a dispatcher settles the rows.
func TestInterruptedCancel(t *testing.T) {
	f := &faults{}
	lossy := redistest.New(t)
	lossy.AddHook(f.hook())
	for n, cancelled := 0, false; n == 0 || f.disarm(); n++ {
		w, id := newWorker(t), ledger.RunID(fmt.Sprintf("run-%d", n))
		run := w.submit(id, 3, 3, 3)
		released := w.release(segment(run, 1), ledger.Quota{First: 1})
		f.arm(n, true)
		_ = ledger.New(lossy).Cancel(t.Context(), tenant, id) // fails
		if !w.get(id).Cancelled {
			if cancelled {
				t.Fatalf("killed after %d commands: not cancelled any more", n)
			}
			continue
		}
		cancelled = true
		want(t, w.begin(segment(run, 1), released.Token, 0).Receipt, ledger.RowSettled)
		w.dispatch()
		if now := w.get(id); !now.Ended() || now.Counts[ledger.Cancelled] != 9 {
			t.Errorf("killed after %d commands: run %+v, want it ended", n, now)
		}
	}
}

func TestCancel(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 20), 0)
	begun, inProgress := w.take(seg)
	intended, withIntent := w.take(seg)
	if _, err := w.Intend(t.Context(), seg, intended.nonce, []byte("PATCH"), withIntent); err != nil {
		t.Fatal(err)
	}
	if _, err := w.GiveUp(t.Context(), seg, intended.nonce, 0, withIntent); err != nil {
		t.Fatal(err)
	}
	waited, waiting := w.take(seg)
	if _, err := w.Wait(t.Context(), seg, waited.nonce, ledger.Waiting{Stage: ledger.StageCheck}, waiting); err != nil {
		t.Fatal(err)
	}
	done, settled := w.take(seg)
	w.settle(seg, done, settled)
	released := w.release(seg, ledger.Quota{First: 1})

	w.must(w.Cancel, "a")
	want(t, w.begin(seg, released.Token, numbers(released)...).Receipt, ledger.RowSettled)
	for _, row := range w.rows(seg) {
		open := row.Row == inProgress || row.Row == withIntent
		if open != (row.Phase != ledger.PhaseSettled) {
			t.Errorf("row %d is %s", row.Row, row.Phase)
		}
		if row.Phase == ledger.PhaseSettled && (row.Result.Outcome == ledger.Done) != (row.Row == settled) {
			t.Errorf("row %d: %s", row.Row, row.Result.Outcome)
		}
	}

	// The row in progress begins no request any more, and its wait settles it.
	r, err := w.Intend(t.Context(), seg, begun.nonce, []byte("PATCH"), inProgress)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowCancelled)
	if r, err = w.Wait(t.Context(), seg, begun.nonce, ledger.Waiting{Stage: ledger.StageReady}, inProgress); err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowCancelled)

	// The request that may be under way is finished, in a second attempt.
	finish := func() execution {
		again := w.release(seg, all)
		if rows := numbers(again); !slices.Equal(rows, []ledger.Row{withIntent}) {
			t.Fatalf("released %v, want %d", rows, withIntent)
		}
		e := w.begin(seg, again.Token, withIntent)
		if !e.Cancelled || e.Rows[0].Intent == nil || string(e.Rows[0].Intent.Value) != "PATCH" {
			t.Errorf("begun %+v", e.Begun)
		}
		return e
	}
	if r, err = w.GiveUp(t.Context(), seg, finish().nonce, 0, withIntent); err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowWritten)
	e := finish()
	if r := w.settle(seg, e, withIntent); !r.Ended {
		t.Error("the run has not ended")
	}
	if counts := w.get("a").Counts; counts[ledger.Done] != 2 || counts[ledger.Cancelled] != 18 {
		t.Errorf("counts %v", counts)
	}
}

func TestControlRefuses(t *testing.T) {
	w := newWorker(t)
	w.submit("ended")
	tests := []struct {
		name string
		do   func(context.Context, ledger.Tenant, ledger.RunID) error
		id   ledger.RunID
		want error
	}{
		{"cancel an ended run", w.Cancel, "ended", ledger.ErrEnded},
		{"pause an ended run", w.Pause, "ended", ledger.ErrEnded},
		{"pause no run", w.Pause, "none", ledger.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(context.WithoutCancel(t.Context()), tenant, tt.id); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestHasten makes rows due in each phase: only those that wait without an intent are.
func TestHasten(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 6), 0)
	wait := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour, Memo: []byte("memo")}
	ready := wait
	ready.Stage = ledger.StageReady
	e := w.takeRows(seg, 4)
	w.intend(seg, e, "PATCH", 2)
	w.end(seg, e, ledger.RowEnd{Row: 0, Ending: wait}, ledger.RowEnd{Row: 1, Ending: ready},
		ledger.RowEnd{Row: 2, Ending: wait}, ledger.RowEnd{Row: 3, Ending: ledger.Result{Outcome: ledger.Done}})
	busy := w.takeRows(seg, 1) // row 4
	before := w.rows(seg)
	for row, want := range []bool{true, true, false, false, false, false} {
		if waited, err := w.Hasten(t.Context(), seg, ledger.Row(row)); err != nil || waited != want {
			t.Errorf("row %d waited: %v, %v; want %v", row, waited, err, want)
		}
	}
	for row, now := range w.rows(seg) {
		was := before[row]
		if row < 2 {
			if now.Phase != ledger.PhaseWaiting || !now.Due.Before(was.Due.Add(-59*time.Minute)) {
				t.Errorf("row %d is %s, due at %v; it was due at %v", row, now.Phase, now.Due, was.Due)
			}
			now.Due = was.Due
		}
		if diff := cmp.Diff(was, now); diff != "" {
			t.Errorf("row %d has changed:\n%s", row, diff)
		}
	}
	w.end(seg, busy, ledger.RowEnd{Row: 4, Ending: ledger.Result{Outcome: ledger.Done}})
	due, _, err := w.TakeDue(t.Context(), seg.Tenant, 9)
	if err != nil || !slices.Contains(due, seg) {
		t.Errorf("due are %v, %v; want the segment among them", due, err)
	}
	rows := numbers(w.release(seg, ledger.Quota{Check: 9, Ready: 9}))
	if slices.Sort(rows); !slices.Equal(rows, []ledger.Row{0, 1}) {
		t.Errorf("released %v, want rows 0 and 1", rows)
	}
}
