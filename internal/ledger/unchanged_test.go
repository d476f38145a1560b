package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// TestRebuildOfManySingleRows checks that a rebuild of many waiting rows takes few round
// trips, and makes each of them due again.
func TestRebuildOfManySingleRows(t *testing.T) {
	const n = 150 // more than are inspected at once
	w := newWorker(t)
	var segs []ledger.Segment
	for i := range n {
		run, _ := w.submitRow(single(ledger.RunID(fmt.Sprint("a", i))))
		segs = append(segs, segment(run, 0))
	}
	e, row := w.take(segs[3])
	later := w.end(segs[3], e, ledger.RowEnd{Row: row,
		Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}}).Due
	if err := w.rdb.Del(t.Context(), ledger.DueKey(tenant)).Err(); err != nil {
		t.Fatal(err)
	}
	l, trips := counted(t)
	all, err := l.Rebuild(t.Context(), tenant)
	if err != nil || len(all) != n {
		t.Fatalf("rebuild: %d runs, %v", len(all), err)
	}
	if trips := trips.Load(); trips > 15 {
		t.Errorf("%d round trips", trips)
	}
	due := map[ledger.Segment]bool{}
	for {
		some, next := w.takeDue()
		for _, seg := range some {
			due[seg] = true
		}
		if len(some) == 0 {
			if !next.Equal(later) {
				t.Errorf("the next is due at %v, want %v", next, later)
			}
			break
		}
	}
	if len(due) != n-1 || due[segs[3]] {
		t.Errorf("%d segments are due, want all but the waiting one", len(due))
	}
}

// TestRebuildOfAChangedSingleRow checks that a rebuild repairs a run of one row like others if
// header and segment disagree.
func TestRebuildOfAChangedSingleRow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *worker, run ledger.Run)
		want   func(p ledger.Progress) bool
	}{
		"its segment is lost": {func(w *worker, run ledger.Run) {
			w.rdb.Del(w.t.Context(), ledger.SegmentKey(segment(run, 0), "head"))
		}, func(p ledger.Progress) bool { return len(p.Missing) == 1 && p.Run.Incomplete }},
		"a node has lost the pause of the segment": {func(w *worker, _ ledger.Run) {
			before := remember(w.t, w.rdb)
			w.must(w.Pause, "a")
			before.restore(w.t, w.rdb, ".0}")
		}, func(p ledger.Progress) bool { return p.Run.Paused }},
		"a node has lost the pause of the header": {func(w *worker, _ ledger.Run) {
			before := remember(w.t, w.rdb)
			w.must(w.Pause, "a")
			before.restore(w.t, w.rdb, "{run:a}")
		}, func(p ledger.Progress) bool { return p.Run.Paused }},
		"a node has lost the cancel of the segment": {func(w *worker, _ ledger.Run) {
			before := remember(w.t, w.rdb)
			w.must(w.Cancel, "a")
			before.restore(w.t, w.rdb, ".0}")
		}, func(p ledger.Progress) bool { return p.Run.Ended() && p.Run.Counts[ledger.Cancelled] == 1 }},
		"a node has lost the end": {func(w *worker, run ledger.Run) {
			before := remember(w.t, w.rdb)
			w.settleAll(segment(run, 0))
			before.restore(w.t, w.rdb, "{run:a}")
		}, func(p ledger.Progress) bool { return p.Run.Ended() && p.Run.Counts[ledger.Done] == 1 }},
		"a node has lost the result": {func(w *worker, run ledger.Run) {
			before := remember(w.t, w.rdb)
			w.settleAll(segment(run, 0))
			before.restore(w.t, w.rdb, ".0}")
		}, func(p ledger.Progress) bool { return !p.Run.Ended() }},
		"it has ended": {func(w *worker, run ledger.Run) { w.settleAll(segment(run, 0)) },
			func(p ledger.Progress) bool { return p.Run.Ended() && p.Run.Counts[ledger.Done] == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run, _ := w.submitRow(single("a"))
			c.change(w, run)
			for range 2 {
				all, err := w.Rebuild(t.Context(), tenant)
				if err != nil || len(all) != 1 {
					t.Fatalf("rebuild: %d runs, %v", len(all), err)
				}
				if !c.want(all[0]) {
					t.Errorf("%+v", all[0])
				}
			}
			if paused := w.get("a").Paused; paused && len(w.release(segment(run, 0), all).Rows) > 0 {
				t.Error("a row of a paused run was released")
			}
		})
	}
}

// TestSweepOfManySingleRows checks that ended single rows leave the open runs in few round
// trips, and are deleted after their retention. A row whose result was lost is open again.
func TestSweepOfManySingleRows(t *testing.T) {
	const n = 20
	w := newWorker(t)
	var before memory
	for i := range n {
		id := ledger.RunID(fmt.Sprint("a", i))
		run, _ := w.submitRow(single(id))
		if i == n-1 {
			before = remember(t, w.rdb)
		}
		w.settleAll(segment(run, 0))
		w.must(w.Finish, id)
		w.finishedEarlier(id)
	}
	last := w.get("a19")
	before.restore(t, w.rdb, string(last.Incarnation))
	l, trips := counted(t)
	if deleted, err := l.Sweep(t.Context(), tenant); err != nil || deleted != 0 {
		t.Fatalf("%d runs deleted, %v", deleted, err)
	}
	if trips := trips.Load(); trips > 2*n+20 {
		t.Errorf("%d round trips", trips)
	}
	if open := w.open(); len(open) != 1 || open[0] != "a19" {
		t.Errorf("open runs %v, want the one whose result was lost", open)
	}
	w.age(ledger.EndedKey(tenant), ledger.Retention+time.Minute)
	if deleted, err := w.Sweep(context.WithoutCancel(t.Context()), tenant); err != nil || deleted != n-1 {
		t.Errorf("%d runs deleted, %v, want %d", deleted, err, n-1)
	}
	w.wantListed(nil, []ledger.RunID{"a19"})
}
