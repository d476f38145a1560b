package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

func createWalk(t *testing.T, l *runs.Ledger, id string) {
	t.Helper()
	if _, created, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default", Walk: &runs.Walk{Told: []byte("begun")}}); err != nil || !created {
		t.Fatalf("create %s: created %v, %v", id, created, err)
	}
}

// found are rows that tell their number, from first up to past.
func found(first, past int) (rows [][]byte) {
	for i := first; i < past; i++ {
		rows = append(rows, fmt.Appendf(nil, "row %d", i))
	}
	return rows
}

// step makes the walk's next step, which adds n rows.
func step(t *testing.T, l *runs.Ledger, id string, n int) {
	t.Helper()
	at, _, stored, _, _, err := l.WalkAt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	against, err := l.WalkStep(t.Context(), id, 0, at, fmt.Appendf(nil, "told %d", at), fmt.Appendf(nil, "cursor %d", at), found(int(stored), int(stored)+n), "record", nil)
	if err != nil || against != "" {
		t.Fatalf("step %d: against it is %q, %v", at, against, err)
	}
}

// TestWalkSteps adds rows by steps whose ends are those of chunks, before and behind
// them, and reads them back.
func TestWalkSteps(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	total := 0
	for i, n := range []int{0, 1, 998, 1, 1, 0, 999, 2500, 0, 7} {
		step(t, l, "a", n)
		at, enqueued, stored, told, cursor, err := l.WalkAt(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if at != int64(i+1) || enqueued != int64(total) || stored != int64(total+n) || string(told) != fmt.Sprint("told ", i) || string(cursor) != fmt.Sprint("cursor ", i) {
			t.Errorf("after step %d: next %d, enqueued %d, stored %d, told %q, cursor %q", i, at, enqueued, stored, told, cursor)
		}
		total += n
		rows, err := l.Rows(t.Context(), "a", 0, total+1)
		if diff := cmp.Diff(found(0, total), rows); err != nil || diff != "" {
			t.Fatalf("after step %d: %v, rows (-want +got):\n%s", i, err, diff)
		}
	}
	if r := get(t, l, "a"); !r.Walking() || r.Rows() != int64(total) || !r.SilentSince(time.Now().Add(time.Hour)).IsZero() {
		t.Errorf("run %+v: want it walking with %d rows, and nobody silent", r, total)
	}
	if err := l.Seal(t.Context(), "a", int64(total)); err != nil {
		t.Fatal(err)
	}
	if r := get(t, l, "a"); r.Walking() || r.Total != int64(total) {
		t.Errorf("run %+v: want it sealed with %d rows", r, total)
	}
}

// TestWalkStepOnce: a step that was made is not made again, by whomever, nor one
// after the seal.
func TestWalkStepOnce(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	step(t, l, "a", 3)
	stale := func(at int64) {
		t.Helper()
		against, err := l.WalkStep(t.Context(), "a", 0, at, []byte("told"), []byte("cursor"), found(0, 5), "record", nil)
		if err != nil || against != runs.StaleStep {
			t.Errorf("step %d: against it is %q, %v", at, against, err)
		}
	}
	stale(0)
	stale(2)
	if err := l.Seal(t.Context(), "a", 3); err != nil {
		t.Fatal(err)
	}
	stale(1)
	if rows, err := l.Rows(t.Context(), "a", 0, 10); err != nil || len(rows) != 3 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestWalkStepKeeps: what is kept of a row is told like any mark, and dropped with it.
func TestWalkStepKeeps(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	step(t, l, "a", 2)
	if _, err := l.WalkStep(t.Context(), "a", 0, 1, []byte("t"), []byte("c"), found(2, 4), "record", [][]byte{nil, []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	marks := func(item int64) string {
		t.Helper()
		_, kept, _, err := l.Standing(t.Context(), "a", kind, 0, []int64{item})
		if err != nil {
			t.Fatal(err)
		}
		return string(kept["record"])
	}
	for item, want := range []string{"", "", "", "kept"} {
		if got := marks(int64(item)); got != want {
			t.Errorf("row %d: kept %q, want %q", item, got, want)
		}
	}
	settle(t, l, "a", "done", "", 3)
	if got := marks(3); got != "" {
		t.Errorf("settled, %q is still kept", got)
	}
}

// TestWalkStopped: what is said of the run stands against a step too.
func TestWalkStopped(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	step(t, l, "a", 3)
	against := func(n int, want string) {
		t.Helper()
		got, err := l.WalkStep(t.Context(), "a", generation(t, l, "a", n), 1, []byte("t"), []byte("c"), found(3, 4), "record", nil)
		if err != nil || got != want {
			t.Errorf("against a step of generation %d is %q, want %q; %v", n, got, want, err)
		}
	}
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	against(0, runs.DropPaused)
	if todo, err := l.Resume(t.Context(), "a"); err != nil || !todo {
		t.Fatal(todo, err)
	}
	against(0, runs.DropSuperseded)
	if err := l.Resumed(t.Context(), "a", generation(t, l, "a", 1)); err != nil {
		t.Fatal(err)
	}
	if rows, err := l.Cancel(t.Context(), "a"); err != nil || rows != 3 {
		t.Fatal(rows, err)
	}
	against(1, runs.DropCancelled)
	if r := get(t, l, "a"); !r.Ended() || r.Walking() || r.Total != 3 {
		t.Errorf("run %+v", r)
	}
}

// TestWalkIsNobodysToFinish: a run whose rows a walk finds waits for no producer; of
// others nothing has changed.
func TestWalkIsNobodysToFinish(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	create(t, l, "b")
	if open, err := l.Unsettled(t.Context()); err != nil || !slices.Equal(open, []string{"a"}) {
		t.Errorf("unsettled are %q, %v", open, err)
	}
	if err := l.Repair(t.Context(), "b"); !errors.Is(err, runs.ErrUnsealed) {
		t.Errorf("repair of a run that is submitted: %v", err)
	}
	if _, _, _, _, _, err := l.WalkAt(t.Context(), "b"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("the walk of a run that is submitted: %v", err)
	}
	if _, err := l.WalkStep(t.Context(), "b", 0, 0, nil, nil, found(0, 1), "record", nil); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("a step of it: %v", err)
	}
	if err := l.NoteWalk(t.Context(), "b", 0, "x", time.Time{}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("a note on it: %v", err)
	}
	if err := l.Repair(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if r := get(t, l, "a"); r.Generation != r.First+1 || !r.Repairing() {
		t.Errorf("run %+v", r)
	}
}

func TestWalkNotes(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	next := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := l.NoteWalk(t.Context(), "a", 0, "paced: later\x1b", next); err != nil {
		t.Fatal(err)
	}
	if err := l.NoteLost(t.Context(), "a", 0, true); err != nil {
		t.Fatal(err)
	}
	if r := get(t, l, "a"); r.Walk.Note != `paced: later\x1b` || !r.Walk.Next.Equal(next) || r.Walk.LostAt.IsZero() || r.Lost != 0 {
		t.Errorf("walk %+v, lost rows %d", r.Walk, r.Lost)
	}
	step(t, l, "a", 1)
	if r := get(t, l, "a"); r.Walk.Note != "" || !r.Walk.LostAt.IsZero() {
		t.Errorf("after a step: walk %+v", r.Walk)
	}
}

// TestWalkIsForgotten: of a run that is deleted nothing is left, and one that was
// cancelled needs to know no more where its walk was.
func TestWalkIsForgotten(t *testing.T) {
	l, _ := newLedger(t)
	createWalk(t, l, "a")
	step(t, l, "a", 3)
	if err := l.Seal(t.Context(), "a", 3); err != nil {
		t.Fatal(err)
	}
	settle(t, l, "a", "done", "", 0, 1, 2)
	if err := l.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	createWalk(t, l, "b")
	step(t, l, "b", 3)
	if _, err := l.Cancel(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*{run:a}*", "*{run:b}:walk"} {
		if left := redistest.Keys(t, pattern); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}
