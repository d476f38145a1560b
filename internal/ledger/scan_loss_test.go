package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// endScan makes the last step of a scan, and commits the run finally.
func (w *worker) endScan(run ledger.Run, rows ...ledger.FoundRow) ledger.Run {
	w.t.Helper()
	w.step(run, true, rows...)
	w.commitFound(run)
	w.keptEarlier(run)
	now, left := w.commitFound(run)
	if left || now.Growing || now.Incomplete {
		w.t.Errorf("run %+v, left %v", now, left)
	}
	return now
}

// TestHeaderLosesAStep has the header lose a step and the segment of its rows. The step then
// finds other rows. These exist afterwards, and those that were committed before.
func TestHeaderLosesAStep(t *testing.T) {
	for name, again := range map[string][]ledger.FoundRow{
		"nothing":    nil,
		"the same":   foundRows(0, 3),
		"fewer rows": foundRows(0, 1),
		"more rows":  foundRows(0, 5),
		"other rows": foundRows(7, 2),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run := w.scan("a")
			saved := remember(t, w.rdb)
			w.step(run, false, foundRows(0, 3)...)
			w.commitFound(run)
			saved.restore(t, w.rdb, "{run:a}")
			w.step(run, false, again...)
			now := w.endScan(run)
			rows := w.contents(now)
			for _, r := range append(foundRows(0, 3), again...) {
				if !strings.Contains(fmt.Sprint(rows), string(r.Content)) {
					t.Errorf("rows %q, want %q", rows, r.Content)
				}
			}
			if name == "the same" && len(rows) != 3 {
				t.Errorf("rows %q, want each once", rows)
			}
			for number := range now.Segments {
				w.settleAll(segment(now, number))
			}
			if now = w.sync("a").Run; !now.Ended() || now.Counts[ledger.Done] != int64(len(rows)) {
				t.Errorf("run %+v, want %d rows and its end", now, len(rows))
			}
			w.gone(run)
		})
	}
}

// TestHeaderLosesCommits has the header lose commits, but not the rows. No row is found twice.
func TestHeaderLosesCommits(t *testing.T) {
	for name, by := range map[string]func(*worker, ledger.Run){
		"commit": func(w *worker, run ledger.Run) { w.commitFound(run) },
		"sync":   func(w *worker, run ledger.Run) { w.sync(run.ID) },
		"rebuild": func(w *worker, run ledger.Run) {
			if _, err := w.Rebuild(t.Context(), tenant); err != nil {
				t.Error(err)
			}
		},
		"more rows": func(w *worker, run ledger.Run) {
			w.step(run, false, foundRows(9000, 1)...)
			w.commitFound(run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run := w.scan("a")
			w.step(run, false, foundRows(0, ledger.SegmentRows+1)...)
			saved := remember(t, w.rdb)
			for range 2 { // on a slow machine, the first commit has both segments
				w.keptEarlier(run)
				w.commitFound(run)
			}
			if now := w.get("a"); now.Segments != 2 {
				t.Fatalf("%d segments", now.Segments)
			}
			saved.restore(t, w.rdb, "{run:a}")
			by(w, run)
			if now := w.get("a"); now.Segments != 2 && name != "more rows" || now.Segments < 2 {
				t.Errorf("%d segments", now.Segments)
			}
			now := w.endScan(run)
			want := ledger.SegmentRows + 1
			if name == "more rows" {
				want++
			}
			if rows := w.contents(now); len(rows) != want {
				t.Errorf("%d rows, want %d", len(rows), want)
			}
		})
	}
}

// TestControlAfterHeaderLostASegment has the header lose a segment, and then pauses or cancels
// the run. No row of the segment is released.
func TestControlAfterHeaderLostASegment(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	saved := remember(t, w.rdb)
	w.step(run, false, foundRows(0, 3)...)
	w.commitFound(run)
	saved.restore(t, w.rdb, "{run:a}")
	w.must(w.Pause, "a")
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) > 0 {
		t.Errorf("released %v of a paused run", rows)
	}
	saved.restore(t, w.rdb, "{run:a}")
	w.must(w.Cancel, "a")
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) > 0 {
		t.Errorf("released %v of a cancelled run", rows)
	}
	if now := w.get("a"); !now.Ended() || now.Counts[ledger.Cancelled] != 3 {
		t.Errorf("run %+v", now)
	}
}

// TestSegmentOfAScanIsLost has a node lose a segment, its due times and results, or its
// commit. The next CommitFound stores them again, although the scan has found nothing since.
func TestSegmentOfAScanIsLost(t *testing.T) {
	for _, part := range []string{"segment", "results", "commit"} {
		t.Run(part, func(t *testing.T) {
			w := newWorker(t)
			run := w.scan("a")
			now, err := w.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rows := foundRows(0, 4)
			rows[1].Due, rows[2].Result = now.Add(time.Hour), invalid
			w.step(run, false, rows...)
			w.commitFound(run)
			seg := segment(run, 0)
			switch part {
			case "segment":
				memory{}.restore(t, w.rdb, ".0}")
			case "results":
				head := ledger.SegmentKey(seg, "head")
				w.rdb.HDel(t.Context(), head, "v", "flags", "not_before", "n:invalid")
				w.rdb.HSet(t.Context(), head, "awaits", "1", "settled", "0")
				for _, part := range []string{"settled", "results", "first"} {
					w.rdb.Del(t.Context(), ledger.SegmentKey(seg, part))
				}
			case "commit":
				w.rdb.HDel(t.Context(), ledger.SegmentKey(seg, "head"), "v", "flags", "not_before")
			}
			if part != "commit" {
				if p := w.sync("a"); len(p.Missing) != 1 || !p.Run.Incomplete {
					t.Errorf("progress %+v, want a missing segment", p)
				}
			}
			state, left := w.commitFound(run)
			if !left || state.Incomplete {
				t.Errorf("run %+v, left %v", state, left)
			}
			p := w.sync("a")
			if o := p.Segments[0].Open; p.Run.Counts["invalid"] != 1 || o.Queued != 2 || o.Later != 1 {
				t.Errorf("open rows %+v, counts %v", o, p.Run.Counts)
			}
			if got := numbers(w.release(seg, all)); fmt.Sprint(got) != "[0 3]" {
				t.Errorf("released %v, want rows 0 and 3", got)
			}
		})
	}
}

// TestBlocksAreRemoved checks that rows are retained for five seconds after the commit of
// their segment, and no longer.
func TestBlocksAreRemoved(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	blocks := func() int64 {
		t.Helper()
		n, err := w.rdb.LLen(t.Context(), strings.TrimSuffix(ledger.HeaderKey("a"), "header")+"found").Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 3 {
		w.step(run, false, foundRows(i, 1)...)
		w.keptEarlier(run) // and the rows have waited for long enough
		w.commitFound(run)
		if n := blocks(); n != 1 {
			t.Errorf("%d blocks after commit %d, want those of the last segment", n, i)
		}
	}
	w.keptEarlier(run)
	if _, left := w.commitFound(run); left || blocks() != 0 {
		t.Errorf("%d blocks, left %v", blocks(), left)
	}
	if rows := w.contents(w.get("a")); fmt.Sprint(rows) != "[row 0 row 1 row 2]" {
		t.Errorf("rows %q", rows)
	}
}
