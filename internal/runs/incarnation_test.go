package runs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"orgops/internal/runs"
)

// TestRunsOfOneIDShareNoGeneration: whatever its id, each run has generations of its
// own, so that the ids of its tasks are taken by no other run's.
func TestRunsOfOneIDShareNoGeneration(t *testing.T) {
	l, _ := newLedger(t)
	var firsts []int
	for range 20 {
		create(t, l, "nightly")
		firsts = append(firsts, get(t, l, "nightly").First)
		cancel(t, l, "nightly")
		if err := l.Delete(t.Context(), "nightly"); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(firsts)
	if len(slices.Compact(slices.Clone(firsts))) != len(firsts) {
		t.Errorf("first generations: %d", firsts)
	}
}

// TestTasksOfAnEarlierRun: for a task that is left of a run, another run of the same
// id is not there, whatever the task does.
func TestTasksOfAnEarlierRun(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	old := get(t, l, "a").Generation
	cancel(t, l, "a")
	if err := l.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	createWalk(t, l, "a")
	step(t, l, "a", 3)

	ctx := t.Context()
	for name, call := range map[string]func() error{
		"standing": func() error { _, _, _, err := l.Standing(ctx, "a", kind, old, []int64{0}); return err },
		"settle":   func() error { return l.Settle(ctx, "a", kind, old, []int64{0, 1}, "done", "") },
		"settle one": func() error {
			_, err := l.SettleRow(ctx, "a", kind, old, 0, "post", nil, "done", "", nil)
			return err
		},
		"note":   func() error { return l.Note(ctx, "a", old, []int64{0}, "late", time.Time{}) },
		"looked": func() error { return l.Looked(ctx, "a", 0, old, "late", time.Time{}, nil, nil) },
		"begin":  func() error { _, err := l.Begin(ctx, "a", 0, old, "post", []byte("x"), nil); return err },
		"amend":  func() error { _, err := l.Amend(ctx, "a", 0, old, "post", nil, []byte("x")); return err },
		"step": func() error {
			_, err := l.WalkStep(ctx, "a", old, 1, []byte("told"), nil, found(3, 4), "record", nil)
			return err
		},
		"note on the walk": func() error { return l.NoteWalk(ctx, "a", old, "late", time.Time{}) },
	} {
		if err := call(); !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	open, err := l.OpenRows(ctx, "a", 10)
	if err != nil || len(open) != 3 || open[0].Reason != "" {
		t.Errorf("open rows %+v, %v", open, err)
	}
	if r := get(t, l, "a"); r.Settled != 0 || r.Stored != 3 || r.Walk.Note != "" || len(marks(t, l, "a", 0)) != 0 {
		t.Errorf("run %+v, marks %v: want it untouched", r, marks(t, l, "a", 0))
	}
}
