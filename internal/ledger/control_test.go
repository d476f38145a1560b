package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
)

// TestPostponedRun: a run that may not begin yet is due at its time. The end of a pause leaves that
// time, and a cancelled run is no longer paused.
func TestPostponedRun(t *testing.T) {
	w := newWorker(t)
	at := w.redisNow().Add(20 * time.Hour)
	seg := segment(w.submitWith("a", ledger.Control{NotBefore: at}, 3), 0)
	if due, next := w.takeDue(); len(due) > 0 || !next.Equal(at) {
		t.Errorf("due %v, next %v, want %v", due, next, at)
	}
	w.must(w.Pause, "a")
	if c := w.get("a").Control; !c.Paused || c.NotBefore.IsZero() {
		t.Errorf("paused and postponed: %+v", c)
	}
	w.must(w.Resume, "a")
	if r := w.release(seg, all); len(r.Rows) > 0 || !r.Due.Equal(at) {
		t.Errorf("released %v, due %v, want %v", numbers(r), r.Due, at)
	}
	if c := w.get("a").Control; c.Paused || !c.NotBefore.Equal(at) {
		t.Errorf("resumed: %+v", c)
	}
	w.must(w.Pause, "a")
	w.must(w.Cancel, "a")
	if c := w.get("a").Control; c.Paused || !c.Cancelled || !c.NotBefore.Equal(at) {
		t.Errorf("cancelled: %+v", c)
	}
}

// TestInterruptedCancel has a cancel killed after each of its commands: once the header is changed
// no row begins any more, and a dispatcher settles the rows.
func TestInterruptedCancel(t *testing.T) {
	lossy, f := faulty(t)
	for n, cancelled := 0, false; n == 0 || f.disarm(); n++ {
		w, id := newWorker(t), ledger.RunID(fmt.Sprintf("run-%d", n))
		run := w.submit(id, 3, 3, 3)
		released := w.release(segment(run, 1), ledger.Quota{First: 1})
		f.arm(n, true)
		_ = lossy.Cancel(t.Context(), tenant, id) // fails
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
	w.intend(seg, intended, "PATCH", withIntent)
	w.end(seg, intended, ledger.RowEnd{Row: withIntent, Ending: ledger.GiveBack{}})
	waited, waiting := w.take(seg)
	w.end(seg, waited, ledger.RowEnd{Row: waiting, Ending: ledger.Waiting{Stage: ledger.StageCheck}})
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
	want(t, w.intend(seg, begun, "PATCH", inProgress), ledger.RowCancelled)
	want(t, w.end(seg, begun, ledger.RowEnd{Row: inProgress, Ending: ledger.Waiting{Stage: ledger.StageReady}}),
		ledger.RowCancelled)

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
	want(t, w.end(seg, finish(), ledger.RowEnd{Row: withIntent, Ending: ledger.GiveBack{}}), ledger.RowWritten)
	if r := w.settle(seg, finish(), withIntent); !r.Ended {
		t.Error("the run has not ended")
	}
	if counts := w.get("a").Counts; counts[ledger.Done] != 2 || counts[ledger.Cancelled] != 18 {
		t.Errorf("counts %v", counts)
	}
	if err := w.Pause(t.Context(), tenant, "a"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("pause an ended run: %v, want %v", err, ledger.ErrEnded)
	}
	if err := w.Pause(t.Context(), tenant, "none"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("pause no run: %v, want %v", err, ledger.ErrNotFound)
	}
}

// TestMakeDue makes rows due in each phase: only those that wait without an intent are, and not
// after a failure, or after a death of their worker. One in progress is due again once its
// execution has ended.
func TestMakeDue(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 8), 0)
	wait := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour, Memo: []byte("memo")}
	ready, failed := wait, wait
	ready.Stage = ledger.StageReady
	failed.CountAttempt = true
	e := w.takeRows(seg, 5)
	w.intend(seg, e, "PATCH", 2)
	w.end(seg, e, ledger.RowEnd{Row: 0, Ending: wait}, ledger.RowEnd{Row: 1, Ending: ready},
		ledger.RowEnd{Row: 2, Ending: wait}, ledger.RowEnd{Row: 3, Ending: ledger.Result{Outcome: ledger.Done}},
		ledger.RowEnd{Row: 4, Ending: failed})
	for _, q := range []ledger.Quota{{First: 1}, {Check: 1}} { // row 5 dies with its worker: the second time it waits
		r := w.release(seg, q)
		w.begin(seg, r.Token, numbers(r)...)
		if n, _, err := w.Reclaim(t.Context(), seg, w.session); n != 1 || err != nil {
			t.Fatalf("%d rows reclaimed, %v", n, err)
		}
	}
	busy := w.takeRows(seg, 1) // row 6
	before := w.rows(seg)
	for row, want := range []ledger.Status{ledger.RowWritten, ledger.RowWritten, ledger.RowSuperseded, ledger.RowSettled,
		ledger.RowFailing, ledger.RowFailing, ledger.RowWritten, ledger.RowSuperseded} {
		if got, err := w.MakeDue(t.Context(), seg, ledger.Row(row), time.Time{}); err != nil || got != want {
			t.Errorf("row %d: %s, %v; want %s", row, got, err, want)
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
	w.end(seg, busy, ledger.RowEnd{Row: 6, Ending: wait})
	due, _, err := w.TakeDue(t.Context(), seg.Tenant, 9)
	if err != nil || !slices.Contains(due, seg) {
		t.Errorf("due are %v, %v; want the segment among them", due, err)
	}
	rows := numbers(w.release(seg, ledger.Quota{Check: 9, Ready: 9}))
	if slices.Sort(rows); !slices.Equal(rows, []ledger.Row{0, 1, 6}) {
		t.Errorf("released %v, want rows 0, 1 and 6", rows)
	}
}

// TestMakeDueByATime has rows due by a time: one that waits for a later one, one that waits for an
// earlier one, one in progress for which an earlier time is requested too, and one whose execution
// fails after the request. A row that is released begins by itself.
func TestMakeDueByATime(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 5), 0)
	wait := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}
	soon, failed := wait, wait
	soon.After = 10 * time.Minute
	failed.CountAttempt = true
	e := w.takeRows(seg, 4)
	w.end(seg, e, ledger.RowEnd{Row: 0, Ending: wait}, ledger.RowEnd{Row: 1, Ending: soon})
	w.release(seg, ledger.Quota{First: 1}) // row 4
	by := time.Now().Add(20 * time.Minute).Truncate(time.Millisecond)
	for row, want := range []ledger.Status{ledger.RowWritten, ledger.RowWritten, ledger.RowWritten, ledger.RowWritten,
		ledger.RowDue} {
		for _, by := range []time.Time{by, by.Add(time.Minute)} {
			if got, err := w.MakeDue(t.Context(), seg, ledger.Row(row), by); err != nil || got != want {
				t.Errorf("row %d: %s, %v; want %s", row, got, err, want)
			}
		}
	}
	w.end(seg, e, ledger.RowEnd{Row: 2, Ending: wait}, ledger.RowEnd{Row: 3, Ending: failed})
	rows := w.rows(seg)
	for row, want := range []time.Duration{20 * time.Minute, 10 * time.Minute, 20 * time.Minute, time.Hour} {
		if got := rows[row].Due.Sub(by.Add(-20 * time.Minute)); got.Round(5*time.Minute) != want {
			t.Errorf("row %d is due in %s, want %s", row, got, want)
		}
	}
	if !rows[0].Due.Equal(by) {
		t.Errorf("row 0 is due at %s, want %s", rows[0].Due, by)
	}
}
