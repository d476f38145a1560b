package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func (w *worker) takeDue() ([]ledger.Segment, time.Time) {
	w.t.Helper()
	due, next, err := w.TakeDue(w.t.Context(), w.tenant, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return due, next
}

func (w *worker) hint(seg ledger.Segment, due time.Time) {
	w.t.Helper()
	if err := w.Hint(w.t.Context(), w.tenant, ledger.Hint{Segment: seg, Due: due}); err != nil {
		w.t.Fatal(err)
	}
}

func TestCommittedSegmentsAreDue(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3, 4)
	due, next := w.takeDue()
	if !slices.Contains(due, segment(run, 0)) || !slices.Contains(due, segment(run, 1)) || len(due) != 2 ||
		!next.IsZero() {
		t.Errorf("due %v, next %v, want both segments", due, next)
	}
	if due, _ := w.takeDue(); len(due) != 0 {
		t.Errorf("due %v, want each segment taken once", due)
	}
}

func TestHintsWhileASegmentIsInspected(t *testing.T) {
	now := time.Now()
	early, late := now.Add(time.Hour).Truncate(time.Millisecond).UTC(),
		now.Add(2*time.Hour).Truncate(time.Millisecond).UTC()
	tests := []struct {
		name            string
		hint, put, want time.Time
	}{
		{"no hint", time.Time{}, late, late},
		{"no hint, nothing due", time.Time{}, time.Time{}, time.Time{}},
		{"an earlier hint", early, late, early},
		{"a later hint", late, early, early},
		{"a hint, nothing due otherwise", late, time.Time{}, late},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			seg := segment(w.submit("a", 3), 0)
			w.takeDue()
			w.hint(seg, tt.hint)
			w.hint(seg, tt.put)
			if _, next := w.takeDue(); !next.Equal(tt.want) {
				t.Errorf("next due %v, want %v", next, tt.want)
			}
		})
	}
}

func TestHintsOnlyLowerDueTimes(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	w.hint(seg, time.Now().Add(time.Hour))
	if due, _ := w.takeDue(); !slices.Equal(due, []ledger.Segment{seg}) {
		t.Errorf("due %v, want the segment in spite of the later hint", due)
	}
}

// TestRebuild loses the whole index, or has its dispatcher die with segments that it had
// taken. A run of one row that the index has for later is not read again: 100,000 of these
// would keep a dispatcher from releasing.
func TestRebuild(t *testing.T) {
	w := newWorker(t)
	waiting := segment(w.submit("a", 1), 0)
	e, row := w.take(waiting)
	r, err := w.Wait(t.Context(), waiting, e.nonce, ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}, row)
	if err != nil {
		t.Fatal(err)
	}
	w.takeDue()
	w.hint(waiting, r.Due)
	queued := segment(w.submit("b", 1), 0)
	w.create("staged")
	w.submit("ended")
	for name, tt := range map[string]struct {
		lose func()
		runs int
	}{
		"the index":      {func() { w.rdb.Del(t.Context(), ledger.DueKey(tenant)) }, 4},
		"the dispatcher": {func() { w.takeDue() }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tt.lose()
			all, err := w.Rebuild(t.Context(), tenant)
			if err != nil || len(all) != tt.runs {
				t.Fatalf("%d runs, %v, want %d", len(all), err, tt.runs)
			}
			due, next := w.takeDue()
			if !slices.Equal(due, []ledger.Segment{queued}) {
				t.Errorf("due %v, want %s", due, queued)
			}
			w.hint(queued, time.UnixMilli(1))
			if !next.Equal(r.Due) {
				t.Errorf("next due %v, want %v", next, r.Due)
			}
		})
	}
}

// TestRebuildRemovesEntriesThatLeadNowhere has entries in the index, due in a year, of deleted
// or finished runs. A run that cannot be read retains its entry.
func TestRebuildRemovesEntriesThatLeadNowhere(t *testing.T) {
	w := newWorker(t)
	later := time.Now().Add(365 * 24 * time.Hour)
	for _, id := range []ledger.RunID{"deleted", "finished", "open"} {
		run := w.submit(id, 2)
		w.takeDue()
		w.hint(segment(run, 0), later)
	}
	w.must(w.Pause, "open")
	for _, id := range []ledger.RunID{"deleted", "finished"} {
		w.must(w.Cancel, id)
		w.must(w.Finish, id)
	}
	w.must(w.Delete, "deleted")
	rebuild := func() error {
		_, err := w.Rebuild(t.Context(), tenant)
		return err
	}
	entries := func() int { return int(w.rdb.ZCard(t.Context(), ledger.DueKey(tenant)).Val()) }
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("open"), "rows", "many").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rebuild(); err == nil || entries() != 3 {
		t.Errorf("rebuild: %v, %d entries, want an error and all 3", err, entries())
	}
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("open"), "rows", 2).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rebuild(); err != nil || entries() != 1 {
		t.Errorf("rebuild: %v, %d entries, want that of the open run", err, entries())
	}
}

// TestRebuildKeepsNewEntries commits a run before each command of a rebuild. It stays due.
func TestRebuildKeepsNewEntries(t *testing.T) {
	w := newWorker(t)
	w.submit("open", 2)
	for n, done := 0, true; done; n++ {
		var run ledger.Run
		i := &interruption{after: n, do: func() { run = w.submit(ledger.RunID(fmt.Sprintf("run-%d", n)), 1) }}
		interrupted := redistest.New(t)
		interrupted.AddHook(i)
		if _, err := ledger.New(interrupted).Rebuild(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if done = i.done(); !done {
			break
		}
		if due, _ := w.takeDue(); !slices.Contains(due, segment(run, 0)) {
			t.Errorf("command %d: due %v, want the run's segment", n, due)
		}
		w.must(w.Cancel, run.ID)
		w.must(w.Delete, run.ID)
	}
}

func TestControlsMakeSegmentsDue(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	w.must(w.Pause, "a")
	w.takeDue()
	w.hint(seg, w.release(seg, all).Due)
	if due, next := w.takeDue(); len(due) > 0 || !next.IsZero() {
		t.Errorf("due %v, next %v, want none while the run is paused", due, next)
	}
	w.must(w.Resume, "a")
	if due, _ := w.takeDue(); !slices.Equal(due, []ledger.Segment{seg}) {
		t.Errorf("due %v, want the segment", due)
	}
}

func TestPostponedRunIsDueAtItsTime(t *testing.T) {
	w := newWorker(t)
	at := w.redisNow().Add(48 * time.Hour)
	seg := segment(w.submitWith("a", ledger.Control{NotBefore: at}, 3), 0)
	if due, next := w.takeDue(); len(due) > 0 || !next.Equal(at) {
		t.Errorf("due %v, next %v, want %v", due, next, at)
	}
	if r := w.release(seg, all); len(r.Rows) > 0 || !r.Due.Equal(at) {
		t.Errorf("released %v, due %v, want %v", numbers(r), r.Due, at)
	}
}

// TestStoppedSegmentIsDueWithItsIntents checks that a stopped segment is due when one of its
// rows with an intent is.
func TestStoppedSegmentIsDueWithItsIntents(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	e := w.takeRows(seg, 2)
	w.intend(seg, e, "PATCH", 0)
	waiting := func(after time.Duration) ledger.Waiting {
		return ledger.Waiting{Stage: ledger.StageCheck, After: after}
	}
	w.end(seg, e, ledger.RowEnd{Row: 0, Ending: waiting(time.Hour)}, ledger.RowEnd{Row: 1, Ending: waiting(0)})
	w.must(w.Pause, "a")
	if r := w.release(seg, all); len(r.Rows) > 0 || r.Due.Sub(r.Now) < 50*time.Minute {
		t.Errorf("released %v, due in %v, want in an hour", numbers(r), r.Due.Sub(r.Now))
	}
	w.pass(seg, time.Hour)
	if r := w.release(seg, ledger.Quota{}); r.Due.After(r.Now) {
		t.Errorf("due in %v, want now", r.Due.Sub(r.Now))
	}
	if r := w.release(seg, all); !slices.Equal(numbers(r), []ledger.Row{0}) {
		t.Errorf("released %v, want row 0", numbers(r))
	}
}
