package ledger_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"orgops/internal/ledger"
)

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
	}
	wg.Wait()
	if ended.Load() != 1 {
		t.Errorf("ended %d times, want once", ended.Load())
	}
}

func TestFinish(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3)
	if err := w.Finish(t.Context(), tenant, "a"); !errors.Is(err, ledger.ErrOpen) {
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
