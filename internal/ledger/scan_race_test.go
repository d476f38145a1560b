package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// The steps of a scan: the first finds more rows than one script takes, the second finds a settled
// row and one that is listed again, the third nothing, the fourth ends the scan.
const scanSteps = 4

// stepRows returns the rows that a step finds, always the same.
func stepRows(step int64) []ledger.FoundRow {
	switch step {
	case 0:
		return largeRows()
	case 1:
		rows := foundRows(1003, 3)
		rows[1].Result = invalid
		return rows
	case scanSteps - 1:
		return foundRows(4000, 2)
	}
	return nil
}

// largeRows returns six rows of 180 KB together, which cannot be compressed.
var largeRows = sync.OnceValue(func() []ledger.FoundRow {
	rows, random := foundRows(1000, 6), rand.NewChaCha8([32]byte{})
	for i := range rows {
		noise := make([]byte, 30<<10)
		_, _ = random.Read(noise)
		rows[i].Content = append(rows[i].Content, noise...)
	}
	return rows
})

// scanAll executes the scan's row if it is due, to the end of the scan.
func scanAll(ctx context.Context, l *ledger.Ledger, run ledger.Run) error {
	s, ok, err := takeScan(ctx, l, run, ledger.NewSessionID())
	if !ok {
		return err
	}
	for ; s.step < scanSteps; s.step++ {
		status, err := l.AddStep(ctx, scanRow(run), s.nonce, scanStep(s.step, s.step == scanSteps-1, stepRows(s.step)...))
		if err != nil || status != ledger.RowWritten {
			return err
		}
	}
	_, err = l.End(ctx, scanRow(run), s.nonce, ledger.Ends(done, 0)...)
	return err
}

// complete scans to the end, executes every row and checks that the run ends with every
// found row, once.
func (w *worker) complete(run ledger.Run) {
	w.t.Helper()
	for range 2 {
		w.pass(scanRow(run), ledger.ExecutionLimit)
		if err := scanAll(w.t.Context(), w.Ledger, run); err != nil {
			w.t.Fatal(err)
		}
	}
	now := w.get(run.ID)
	if now.Growing {
		w.t.Fatalf("the scan does not end: %+v, scan %+v", now, now.Scan)
	}
	taken, _ := w.takeDue()
	for _, s := range w.segments(run.ID) {
		if s.Settled == s.Rows {
			continue
		}
		if !slices.Contains(taken, s.Segment) {
			w.t.Errorf("segment %d is not due", s.Segment.Number)
		}
		w.settleAll(s.Segment)
	}
	found, want := map[string]int{}, map[string]int{}
	for _, content := range w.contents(now) {
		number, _, _ := strings.Cut(content, "\n")
		found[number[:min(len(number), 8)]]++
	}
	for _, number := range []int{1000, 1001, 1002, 1003, 1004, 1005, 4000, 4001} {
		want[fmt.Sprint("row ", number)]++
	}
	if !maps.Equal(found, want) {
		w.t.Errorf("rows %v, want %v", found, want)
	}
	if end := w.get(run.ID); !end.Ended() || end.Counts.Settled() != end.Rows || string(end.Scan.Progress) != "after 3" {
		w.t.Errorf("run %+v, scan %+v: want it ended", end, end.Scan)
	}
	w.gone(run)
}

// gone deletes the run, and checks that nothing is left of it.
func (w *worker) gone(run ledger.Run) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), tenant, run.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		w.t.Fatal(err)
	}
	w.deleteOld()
	if keys := keysOf(w.t, run); len(keys) > 0 {
		w.t.Errorf("keys %q remain", keys)
	}
}

// stride is the distance between the commands at which something happens to a scanner, in one run
// of the tests.
var stride = 5 * redistest.Stride(7)

// someOf returns a random start of a stride.
func someOf(stride int) int { return rand.IntN(stride) }

// TestScannerIsKilled kills an execution at each of its commands, before Redis has it or after.
// The next one continues. No row is found twice.
func TestScannerIsKilled(t *testing.T) {
	for _, answer := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the command %v", answer), func(t *testing.T) {
			w := newWorker(t)
			lossy, f := faulty(t)
			for n, struck := someOf(stride), true; struck; n += stride {
				run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
				f.arm(n, answer)
				err := scanAll(t.Context(), lossy, run)
				struck = f.disarm()
				if err != nil && !errors.Is(err, errFault) {
					t.Fatalf("killed at command %d: %v", n, err)
				}
				w.complete(run)
				if t.Failed() {
					t.Fatalf("killed at command %d", n)
				}
			}
		})
	}
}

// eachCommand has a run scanned, once for each command of that, calls do before that
// command, and then checks the run.
func eachCommand(t *testing.T, do func(*worker, ledger.Run), then func(*worker, ledger.Run)) {
	w := newWorker(t)
	for n, done := someOf(stride), true; done; n += stride {
		run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
		i := &interruption{after: n, do: func() { do(w, run) }}
		rdb := redistest.New(t)
		rdb.AddHook(i.hook())
		err := scanAll(t.Context(), ledger.New(rdb), run)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrRaced) {
			t.Errorf("at command %d: %v", n, err)
		}
		done = i.done()
		_ = rdb.Close()
		then(w, run)
		if t.Failed() {
			t.Fatalf("at command %d", n)
		}
	}
}

// TestExecutionOfAScanLapses has another execution take the row over between any two commands of
// the first, and scan to the end.
func TestExecutionOfAScanLapses(t *testing.T) {
	eachCommand(t, func(w *worker, run ledger.Run) {
		w.pass(scanRow(run), ledger.ExecutionLimit)
		if err := scanAll(t.Context(), w.Ledger, run); err != nil {
			t.Error(err)
		}
	}, (*worker).complete)
}

// TestCommandsDuringAScan cancels a run, deletes it, or deletes and creates it again in the
// middle of its scan.
func TestCommandsDuringAScan(t *testing.T) {
	cancel := func(w *worker, run ledger.Run) {
		if err := w.Cancel(t.Context(), tenant, run.ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
			t.Error(err)
		}
	}
	lapse := func(w *worker, run ledger.Run) { // the scan's row, whose execution has found the run changed
		w.pass(scanRow(run), ledger.ExecutionLimit)
		if _, err := w.Release(t.Context(), scanRow(run), ledger.Quota{}); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
	}
	remove := func(w *worker, run ledger.Run) {
		cancel(w, run)
		lapse(w, run)
		w.must(w.Delete, run.ID)
	}
	ended := func(w *worker, run ledger.Run) {
		cancel(w, run) // again: the last one was not interrupted
		lapse(w, run)
		now := w.get(run.ID)
		if !now.Ended() || now.Growing || now.Counts.Settled() != now.Rows {
			t.Errorf("run %+v, want it ended", now)
		}
		for number := range now.Segments {
			if rows := numbers(w.release(segment(now, number), all)); len(rows) > 0 {
				t.Errorf("released %v of a cancelled run", rows)
			}
		}
		w.gone(run)
	}
	t.Run("cancel", func(t *testing.T) { eachCommand(t, cancel, ended) })
	t.Run("delete", func(t *testing.T) {
		eachCommand(t, remove, func(w *worker, run ledger.Run) {
			if now, err := w.Get(t.Context(), "", run.ID); err == nil { // the last one was not interrupted
				cancel(w, now)
				lapse(w, now)
			}
			w.gone(run)
		})
	})
	t.Run("create again", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			remove(w, run)
			w.scan(run.ID)
		}, func(w *worker, run ledger.Run) {
			if now := w.get(run.ID); now.Incarnation != run.Incarnation && now.Rows > 0 {
				t.Errorf("run %+v, scan %+v: want nothing of the former run", now, now.Scan)
			}
			cancel(w, run)
			lapse(w, w.get(run.ID))
			w.gone(run)
		})
	})
	t.Run("pause", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			if err := w.Pause(t.Context(), tenant, run.ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
				t.Error(err)
			}
		}, func(w *worker, run ledger.Run) {
			now := w.get(run.ID)
			for number := range now.Segments {
				if !now.Paused {
					break // the last one was not interrupted
				}
				if rows := numbers(w.release(segment(now, number), all)); len(rows) > 0 {
					t.Errorf("released %v of a paused run", rows)
				}
			}
			w.must(w.Resume, run.ID)
			w.complete(run)
		})
	})
}

// TestLossDuringAScan has Redis lose some commands, at each command of a scanner, or at some of
// them. Every row exists once in the end.
func TestLossDuringAScan(t *testing.T) {
	for _, back := range []int{1, 4, 11, 30} {
		t.Run(fmt.Sprintf("by %d commands", back), func(t *testing.T) {
			w := newWorker(t)
			far := 5 * redistest.Stride(5)
			for n, reached := someOf(far), true; reached; n += far {
				run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
				reached = w.lossAt(run, n, back)
				w.complete(run)
				if t.Failed() {
					t.Fatalf("lost from command %d on", n)
				}
			}
		})
	}
}

// lossAt has a scanner scan, with a loss of some commands. It reports whether it took place.
func (w *worker) lossAt(run ledger.Run, n, back int) bool {
	w.t.Helper()
	var saved memory
	i := &interruption{after: n}
	i.do = func() {
		if saved == nil {
			saved, i.after = remember(w.t, w.rdb), back-1
			return
		}
		saved.restore(w.t, w.rdb, "")
	}
	rdb := redistest.New(w.t)
	rdb.AddHook(i.hook())
	if err := scanAll(w.t.Context(), ledger.New(rdb), run); err != nil && !errors.Is(err, ledger.ErrRaced) {
		w.t.Errorf("scan: %v", err)
	}
	_ = rdb.Close()
	return i.done()
}
