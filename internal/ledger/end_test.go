package ledger_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func TestLastSettleEndsTheRun(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 300, 5)
	if r := w.settleAll(segment(run, 0)); r.Ended {
		t.Error("ended with open rows")
	}
	if r := w.settleAll(segment(run, 1)); !r.Ended {
		t.Error("the last settle did not end the run")
	}
	if run := w.get("a"); !run.Ended() {
		t.Errorf("run %+v", run)
	}
	if p := w.sync("a"); p.Ended || p.Run.Counts[ledger.Done] != 305 {
		t.Errorf("ended again: %v; counts %v", p.Ended, p.Run.Counts)
	}
}

func TestRunEndsOnce(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1, 1, 1, 1)
	var ended atomic.Int64
	var wg sync.WaitGroup
	for number := range run.Segments {
		seg := segment(run, number)
		e, row := w.take(seg)
		for range 2 {
			wg.Go(func() {
				r, err := w.Settle(t.Context(), seg, e.nonce, ledger.Result{Outcome: ledger.Done}, row)
				if err != nil {
					t.Error(err)
				}
				if r.Ended {
					ended.Add(1)
				}
			})
		}
		wg.Go(func() {
			p, err := w.Sync(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			if p.Ended {
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	if w.sync("a"); ended.Load() != 1 {
		t.Errorf("ended %d times, want once", ended.Load())
	}
}

// TestSyncEndsTheRun has a worker killed after it has settled the last row of a segment.
func TestSyncEndsTheRun(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	lossy := redistest.New(t)
	f := &faults{}
	lossy.AddHook(f)
	for n := 0; w.rows(seg)[0].Phase != ledger.PhaseSettled; n++ { // until the row is settled
		f.arm(n, false)
		_, err := ledger.New(lossy).Settle(t.Context(), seg, e.nonce, ledger.Result{Outcome: ledger.Done}, row)
		if lost := f.disarm(); !lost || err == nil {
			t.Fatalf("settle, command %d: %v, connection lost: %v", n, err, lost)
		}
	}
	if w.get("a").Ended() {
		t.Fatal("the run has ended: the test shows nothing")
	}
	if p := w.sync("a"); !p.Ended {
		t.Error("sync did not end the run")
	}
}

// TestSyncReopensARun has the node of a segment lose the result of its last row.
func TestSyncReopensARun(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1, 1)
	saved := remember(t, w.rdb)
	w.settleAll(segment(run, 0))
	w.settleAll(segment(run, 1))
	saved.restore(t, w.rdb, string(run.Incarnation)+".1")
	if p := w.sync("a"); p.Run.Ended() {
		t.Error("the run has ended with an open row")
	}
	if r := w.settleAll(segment(run, 1)); !r.Ended {
		t.Error("the run has not ended again")
	}
}

func TestFinish(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3)
	if err := w.Finish(t.Context(), "a"); !errors.Is(err, ledger.ErrOpen) {
		t.Errorf("finish: %v, want %v", err, ledger.ErrOpen)
	}
	w.settleAll(segment(run, 0))
	if open := w.open(); !slices.Equal(open, []ledger.RunID{"a"}) {
		t.Errorf("open runs %q: want the one to finish", open)
	}
	for range 2 {
		w.must(w.Finish, "a")
	}
	if open := w.open(); len(open) != 0 {
		t.Errorf("open runs %q", open)
	}
	all, err := w.Runs(t.Context(), tenant)
	if err != nil || len(all) != 1 || all[0].FinishedAt.IsZero() || all[0].Counts[ledger.Done] != 3 {
		t.Errorf("runs %+v, %v", all, err)
	}
}

// TestClosedSegmentsBeyondTheCommitted loses, in the header, the commit of a segment that is
// then settled. It does not count for another one that has an open row.
func TestClosedSegmentsBeyondTheCommitted(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1, 1)
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("a"), "segments", 1, "rows", 1).Err(); err != nil {
		t.Fatal(err)
	}
	e, row := w.take(segment(run, 0))
	w.settleAll(segment(run, 1))
	w.must(w.Cancel, "a")
	if w.get("a").Ended() {
		t.Error("the run has ended with a row in progress")
	}
	if r := w.settle(segment(run, 0), e, row); !r.Ended {
		t.Error("the run has not ended")
	}
}

// open returns the ids of the open runs.
func (w *worker) open() []ledger.RunID {
	w.t.Helper()
	runs, err := w.OpenRuns(w.t.Context(), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []ledger.RunID
	for _, run := range runs {
		ids = append(ids, run.ID)
	}
	return ids
}

func TestTenants(t *testing.T) {
	w := newWorker(t)
	for _, n := range []ledger.NewRun{{ID: "a", Tenant: "one", Kind: kind}, {ID: "b", Tenant: "two", Kind: kind}} {
		if _, _, err := w.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	tenants, err := w.Tenants(t.Context())
	if err != nil || !slices.Equal(tenants, []ledger.Tenant{"one", "two"}) {
		t.Errorf("tenants %q, %v", tenants, err)
	}
}
