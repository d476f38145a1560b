package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// single returns a run of one row.
func single(id ledger.RunID) ledger.NewRun {
	return ledger.NewRun{ID: id, Tenant: tenant, Kind: kind}
}

// submitRow submits "row 0".
func (w *worker) submitRow(n ledger.NewRun) (ledger.Run, bool) {
	w.t.Helper()
	run, created, err := w.SubmitRow(w.t.Context(), n, []byte("row 0"))
	if err != nil {
		w.t.Fatalf("submit %s: %v", n.ID, err)
	}
	return run, created
}

// wantListed checks the lists of the tenant.
func (w *worker) wantListed(runs, singles []ledger.RunID) {
	w.t.Helper()
	all, err := w.Runs(w.t.Context(), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	var have []ledger.RunID
	for _, run := range all {
		have = append(have, run.ID)
	}
	entries, err := w.OpenSingles(w.t.Context(), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	var rows []ledger.RunID
	for _, e := range entries {
		rows = append(rows, e.ID)
	}
	if !slices.Equal(have, runs) || !slices.Equal(rows, singles) {
		w.t.Errorf("runs %v and single rows %v, want %v and %v", have, rows, runs, singles)
	}
}

func TestSubmitRow(t *testing.T) {
	w := newWorker(t)
	l, trips := counted(t)
	n := single("a")
	n.Label = "signup"
	run, created, err := l.SubmitRow(t.Context(), n, []byte("row 0"))
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	trips.Store(0)
	if _, _, err := l.SubmitRow(t.Context(), single("b"), []byte("row 0")); err != nil {
		t.Fatal(err)
	}
	if n := trips.Load(); n > 3 { // the tenant's name, the row, the wake
		t.Errorf("%d round trips, want 3 at most", n)
	}
	w.must(w.Cancel, "b")
	w.must(w.Delete, "b")
	w.submit("many", 1)
	w.wantListed([]ledger.RunID{"many"}, []ledger.RunID{"a"})
	if stored := w.get("a"); stored.Rows != 1 || stored.Growing || !stored.Single || stored.Label != "signup" {
		t.Errorf("run %+v", stored)
	}
	due, _ := w.takeDue()
	if !slices.Contains(due, segment(run, 0)) {
		t.Fatalf("due %v, want the row", due)
	}
	e, row := w.take(segment(run, 0))
	if r := w.settle(segment(run, 0), e, row); !r.Ended {
		t.Error("the run has not ended")
	}
	if _, created := w.submitRow(n); created || !w.get("a").Ended() {
		t.Error("the row that was executed was submitted again")
	}
	w.remove(run)
	w.wantListed([]ledger.RunID{"many"}, nil)
}

// TestSubmitRowMismatch submits another row under an id. Nothing changes.
func TestSubmitRowMismatch(t *testing.T) {
	w := newWorker(t)
	w.submitRow(single("a"))
	w.submit("many", 1)
	for name, c := range map[string]struct {
		run    ledger.NewRun
		row    string
		member string
	}{
		"row":             {single("a"), "row 1", "content"},
		"kind":            {ledger.NewRun{ID: "a", Tenant: tenant, Kind: "domain:update"}, "row 0", "kind"},
		"run of one row":  {single("many"), "row 0", "content"},
		"run, other kind": {ledger.NewRun{ID: "many", Tenant: tenant, Kind: "domain:update"}, "row 0", "kind"},
	} {
		before := remember(t, w.rdb)
		_, _, err := w.SubmitRow(t.Context(), c.run, []byte(c.row))
		if e, ok := errors.AsType[*ledger.MismatchError](err); !ok || string(e.Member) != c.member {
			t.Errorf("another %s: %v, want a mismatch of the %s", name, err, c.member)
		}
		after := remember(t, w.rdb)
		for key := range after {
			if !reflect.DeepEqual(before[key], after[key]) {
				t.Errorf("another %s: %s has changed", name, key)
			}
		}
	}
}

// TestSubmitRowInterrupted loses the connection at each command, before or after Redis has
// it. Either the row is accepted, or nothing of it is stored. It is then submitted again, and
// executed once.
func TestSubmitRowInterrupted(t *testing.T) {
	w := newWorker(t)
	l, f := faulty(t)
	for n, lost := 0, true; lost; n++ {
		for _, answer := range []bool{false, true} {
			id := ledger.RunID(fmt.Sprintf("a-%d-%t", n, answer))
			f.arm(n, answer)
			_, _, err := l.SubmitRow(t.Context(), single(id), []byte("row 0"))
			if lost = f.disarm(); lost && err == nil {
				if n < 2 { // the last command is the wake, whose loss costs a second
					t.Errorf("command %d: no error", n)
				}
			}
			stored, err := w.Run(t.Context(), tenant, id)
			if accepted := err == nil && !stored.Staged() && stored.Rows == 1; accepted != (n > 1 || n == 1 && answer) {
				t.Errorf("command %d, answer lost %v: run %+v, %v", n, answer, stored, err)
			}
			if keys := redistest.Keys(t, "*:run:"+string(id)+":*"); len(keys) > 0 && err != nil {
				t.Errorf("command %d, answer lost %v: keys %q remain", n, answer, keys)
			}
			w.submitRow(single(id))
			due, _ := w.takeDue()
			seg := segment(w.get(id), 0)
			if !slices.Contains(due, seg) {
				t.Fatalf("command %d, answer lost %v: due %v, want the row", n, answer, due)
			}
			if r := w.settleAll(seg); !r.Ended {
				t.Errorf("command %d, answer lost %v: the run has not ended", n, answer)
			}
		}
	}
}

// TestSubmitRowAfterALoss has Redis go back to before each command of a submission. The row is
// submitted again, and can be executed.
func TestSubmitRowAfterALoss(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		w := newWorker(t)
		var saved memory
		l, i := interrupted(t, n, func() { saved = remember(t, w.rdb) })
		if _, _, err := l.SubmitRow(t.Context(), single("a"), []byte("row 0")); err != nil {
			t.Fatal(err)
		}
		if done = !i.done(); !done {
			saved.restore(t, w.rdb, "")
		}
		run, _ := w.submitRow(single("a"))
		w.wantListed(nil, []ledger.RunID{"a"})
		if r := w.settleAll(segment(run, 0)); !r.Ended {
			t.Errorf("lost from command %d on: the run has not ended", n)
		}
		w.must(w.Delete, "a")
	}
}

// TestSubmitRowThatIsStopped submits a row again that was cancelled or paused, and one that
// may not start yet. It does not start.
func TestSubmitRowThatIsStopped(t *testing.T) {
	later := single("a")
	later.NotBefore = time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		run  ledger.NewRun
		stop func(w *worker)
	}{
		"cancelled": {single("a"), func(w *worker) { w.must(w.Cancel, "a") }},
		"paused":    {single("a"), func(w *worker) { w.must(w.Pause, "a") }},
		"postponed": {later, func(*worker) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run, _ := w.submitRow(c.run)
			c.stop(w)
			for range 2 {
				if rows := numbers(w.release(segment(run, 0), all)); len(rows) != 0 {
					t.Fatalf("released %v, want none", rows)
				}
				if _, created := w.submitRow(c.run); created {
					t.Error("created again")
				}
			}
		})
	}
}

// TestBatchWait submits rows that wait for others: the index has them all as due at the
// next multiple of the wait. A row without a wait is due at once.
func TestBatchWait(t *testing.T) {
	const wait = time.Hour
	w := newWorker(t)
	submit := func(id ledger.RunID, wait time.Duration) ledger.Run {
		t.Helper()
		run, _, err := w.SubmitRow(t.Context(), ledger.NewRun{
			ID: id, Tenant: w.tenant, Kind: "test", Description: ledger.Description{Group: "org_1", BatchWait: wait},
		}, []byte("row"))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	run := submit("a", wait)
	at := run.CreatedAt.Truncate(wait).Add(wait)
	submit("b", wait)
	for range 2 {
		if due, next := w.takeDue(); len(due) > 0 || !next.Equal(at) {
			t.Errorf("due %v, next %v, want %v", due, next, at)
		}
	}
	c := submit("c", 0)
	if due, _ := w.takeDue(); len(due) != 1 || due[0].Run != c.ID {
		t.Errorf("due %v, want run c", due)
	}
}
