package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// The step of a scanner: the first finds rows of several blocks, the second finds a settled
// row and one that is due later, the third nothing, the fourth ends the scan.
const scanSteps = 4

// stepRows returns the rows that a step finds, always the same.
func stepRows(step int64) []ledger.FoundRow {
	switch step {
	case 1:
		return largeRows()
	case 2:
		rows := foundRows(2000, 3)
		rows[1].Result = invalid
		return rows
	case scanSteps:
		return foundRows(4000, 2)
	}
	return nil
}

// largeRows returns four rows of 150 KB together, which cannot be compressed.
var largeRows = sync.OnceValue(func() []ledger.FoundRow {
	rows, random := foundRows(1000, 4), rand.NewChaCha8([32]byte{})
	for i := range rows {
		noise := make([]byte, 38<<10)
		_, _ = random.Read(noise)
		rows[i].Content = append(rows[i].Content, noise...)
	}
	return rows
})

// scanOnce makes the next step, if there is one, and commits found rows.
func scanOnce(ctx context.Context, l *ledger.Ledger, run ledger.Run) (left bool, err error) {
	s, cursor, err := l.ScanCursor(ctx, run)
	if err != nil {
		return true, err
	}
	now, err := l.Get(ctx, run.ID)
	if err != nil {
		return true, err
	}
	if want := fmt.Sprintf("cursor %d", s.Step-1); s.Step > 1 && now.Growing && string(cursor) != want {
		return true, fmt.Errorf("cursor %q at step %d, want %q", cursor, s.Step, want)
	}
	if !s.Ended {
		if _, err := l.AddStep(ctx, run, scanStep(s.Step, s.Step == scanSteps, stepRows(s.Step)...)); err != nil {
			return true, err
		}
	}
	now, left, err = l.CommitFound(ctx, run)
	return left || now.Growing, err
}

// scanAll scans to the end of the scan, and then until no step is left for now.
func scanAll(ctx context.Context, l *ledger.Ledger, run ledger.Run) error {
	for range scanSteps + 1 {
		if left, err := scanOnce(ctx, l, run); err != nil || !left {
			return err
		}
	}
	return nil
}

// complete scans to the end, executes every row and checks that the run ends with every
// found row, once or more often.
func (w *worker) complete(run ledger.Run, atLeast bool) {
	w.t.Helper()
	for range 3 {
		if err := scanAll(w.t.Context(), w.Ledger, run); err != nil {
			w.t.Fatal(err)
		}
		w.keptEarlier(run)
	}
	now := w.get(run.ID)
	if now.Growing || !now.Scan.Ended {
		w.t.Fatalf("the scan does not end: %+v, scan %+v", now, now.Scan)
	}
	var due []ledger.Segment
	for _, s := range w.segments(run.ID) {
		if !s.Closed() {
			due = append(due, s.Segment)
		}
	}
	taken, _ := w.takeDue()
	for _, seg := range due {
		if !slices.Contains(taken, seg) {
			w.t.Errorf("segment %d is not due", seg.Number)
		}
		w.settleAll(seg)
	}
	found, want := map[string]int{}, map[string]int{}
	for _, content := range w.contents(now) {
		found[content]++
	}
	for step := range int64(scanSteps + 1) {
		for _, r := range stepRows(step) {
			want[string(r.Content)]++
		}
	}
	if atLeast {
		for content := range found {
			found[content] = min(found[content], 1)
		}
	}
	if !maps.Equal(found, want) {
		w.t.Errorf("%d different rows in %d, want %d", len(found), now.Rows, len(want))
	}
	if end := w.get(run.ID); !end.Ended() || end.Counts.Settled() != end.Rows {
		w.t.Errorf("run %+v, want it ended", end)
	}
	if n, err := w.rdb.Exists(w.t.Context(), ledger.SegmentKey(segment(run, now.Segments),
		"head")).Result(); err != nil || n > 0 {
		w.t.Errorf("there is a segment %d, %v", now.Segments, err)
	}
	w.gone(run)
}

// gone deletes the run, and checks that nothing is left of it.
func (w *worker) gone(run ledger.Run) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), tenant, run.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		w.t.Fatal(err)
	}
	w.sweep()
	if keys := keysOf(w.t, run); len(keys) > 0 {
		w.t.Errorf("keys %q remain", keys)
	}
}

// stride is the distance between the commands at which something happens to a scanner, in one run
// of the tests.
var stride = 5 * redistest.Stride(7)

// someOf returns a random start of a stride.
func someOf(stride int) int { return rand.IntN(stride) }

// TestScannerIsKilled kills a scanner at each of its commands, before Redis has it or after.
// The next one continues. No row is found twice.
func TestScannerIsKilled(t *testing.T) {
	for _, answer := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the command %v", answer), func(t *testing.T) {
			w := newWorker(t)
			rdb, f := redistest.New(t), &faults{}
			rdb.AddHook(f)
			for n, struck := someOf(stride), true; struck; n += stride {
				run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
				f.arm(n, answer)
				err := scanAll(t.Context(), ledger.New(rdb), run)
				if err == nil { // the end of the scan
					w.keptEarlier(run)
					err = scanAll(t.Context(), ledger.New(rdb), run)
				}
				struck = f.disarm()
				if err != nil && !errors.Is(err, errFault) {
					t.Fatalf("killed at command %d: %v", n, err)
				}
				w.complete(run, false)
				if t.Failed() {
					t.Fatalf("killed at command %d", n)
				}
			}
		})
	}
}

// eachCommand has a scanner scan a run, once for each of its commands, calls do before that
// command, and then checks the run.
func eachCommand(t *testing.T, do func(*worker, ledger.Run), then func(*worker, ledger.Run)) {
	w := newWorker(t)
	for n, done := someOf(stride), true; done; n += stride {
		run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
		i := &interruption{after: n, do: func() { do(w, run) }}
		rdb := redistest.New(t)
		rdb.AddHook(i)
		l := ledger.New(rdb)
		err := scanAll(t.Context(), l, run)
		if err == nil {
			w.keptEarlier(run)
			err = scanAll(t.Context(), l, run)
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
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

// TestTwoScanners has a second scanner make one step, or all of them, between any two commands
// of the first.
func TestTwoScanners(t *testing.T) {
	whole := func(w *worker, run ledger.Run) { w.complete(run, false) }
	t.Run("one step", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			if _, err := scanOnce(t.Context(), w.Ledger, run); err != nil {
				t.Error(err)
			}
		}, whole)
	})
	t.Run("all steps", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			if err := scanAll(t.Context(), w.Ledger, run); err != nil {
				t.Error(err)
			}
		}, whole)
	})
	t.Run("to the end", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			for range 2 {
				if err := scanAll(t.Context(), w.Ledger, run); err != nil {
					t.Error(err)
				}
				w.keptEarlier(run)
			}
		}, whole)
	})
}

// TestScannersAtOnce runs several scanners concurrently.
func TestScannersAtOnce(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				if err := scanAll(t.Context(), w.Ledger, run); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.complete(run, false)
}

// TestCommandsDuringAScan cancels a run, deletes it, or deletes and creates it again in the
// middle of its scan.
func TestCommandsDuringAScan(t *testing.T) {
	cancel := func(w *worker, run ledger.Run) {
		if err := w.Cancel(t.Context(), tenant, run.ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
			t.Error(err)
		}
	}
	remove := func(w *worker, run ledger.Run) {
		cancel(w, run)
		w.must(w.Delete, run.ID)
	}
	ended := func(w *worker, run ledger.Run) {
		cancel(w, run) // again: the last one was not interrupted
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
			if now, err := w.Get(t.Context(), run.ID); err == nil { // the last one was not interrupted
				cancel(w, now)
			}
			w.gone(run)
		})
	})
	t.Run("create again", func(t *testing.T) {
		eachCommand(t, func(w *worker, run ledger.Run) {
			remove(w, run)
			w.scan(run.ID)
		}, func(w *worker, run ledger.Run) {
			if now := w.get(run.ID); now.Incarnation != run.Incarnation && (now.Rows > 0 || now.Scan.Step != 1) {
				t.Errorf("run %+v, scan %+v: want nothing of the former run", now, now.Scan)
			}
			cancel(w, run)
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
			w.complete(run, false)
		})
	})
}

// between is a hook that stores the content of Redis before one command, and restores it
// before a later one.
type between struct {
	mu          sync.Mutex
	n, from, to int
	save, lose  func()
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !slices.Contains(redistest.Handshake, cmd.Name()) {
			b.count()
		}
		return next(ctx, cmd)
	}
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.Contains(redistest.Handshake, cmds[0].Name()) {
			b.count()
		}
		return next(ctx, cmds)
	}
}

func (b *between) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.n {
	case b.from:
		b.save()
	case b.to:
		b.lose()
	}
	b.n++
}

// passed reports whether the later command was reached.
func (b *between) passed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n > b.to
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
				w.complete(run, false)
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
	b := &between{
		from: n, to: n + back,
		save: func() { saved = remember(w.t, w.rdb) },
		lose: func() { saved.restore(w.t, w.rdb, "") },
	}
	rdb := redistest.New(w.t)
	rdb.AddHook(b)
	if err := scanAll(w.t.Context(), ledger.New(rdb), run); err != nil {
		w.t.Errorf("scan: %v", err)
	}
	_ = rdb.Close()
	return b.passed()
}
