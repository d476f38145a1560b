package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"orgops/internal/ledger"
)

// TestRunEndsOnce settles the row of each segment twice: the run ends with the last one, once.
func TestRunEndsOnce(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1, 1, 1)
	var ended []int
	for number := range run.Segments {
		e, row := w.take(segment(run, number))
		for range 2 {
			if w.settle(segment(run, number), e, row).Ended {
				ended = append(ended, number)
			}
		}
	}
	if !slices.Equal(ended, []int{2}) {
		t.Errorf("the run ended in segments %v, want the last one", ended)
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
