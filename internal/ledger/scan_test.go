package ledger_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// scan creates a run whose rows are found by a scan.
func (w *worker) scan(id ledger.RunID) ledger.Run {
	w.t.Helper()
	run, _, err := w.Create(w.t.Context(), ledger.NewRun{ID: id, Tenant: w.tenant, Kind: kind,
		Scan: []byte("nothing yet")})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// foundRows returns found rows from a number on.
func foundRows(first, n int) []ledger.FoundRow {
	rows := make([]ledger.FoundRow, n)
	for i, row := range content(first, n) {
		rows[i].Content = row
	}
	return rows
}

// step makes the next step of a scan, which must succeed.
func (w *worker) step(run ledger.Run, last bool, rows ...ledger.FoundRow) {
	w.t.Helper()
	s, _, err := w.ScanCursor(w.t.Context(), run)
	made := false
	if err == nil {
		made, err = w.AddStep(w.t.Context(), run, scanStep(s.Step, last, rows...))
	}
	if err != nil || !made {
		w.t.Fatalf("step %d: made %v, %v", s.Step, made, err)
	}
}

func scanStep(number int64, last bool, rows ...ledger.FoundRow) ledger.ScanStep {
	return ledger.ScanStep{
		Number: number, Progress: fmt.Appendf(nil, "after %d", number), Cursor: fmt.Appendf(nil, "cursor %d", number),
		Rows: rows, Last: last,
	}
}

func (w *worker) commitFound(run ledger.Run) (now ledger.Run, left bool) {
	w.t.Helper()
	now, left, err := w.CommitFound(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	return now, left
}

// keptEarlier moves the times at which segments were committed and rows were found far back.
func (w *worker) keptEarlier(run ledger.Run) {
	w.t.Helper()
	if err := ledger.AgeScan(w.t.Context(), w.rdb, run, time.Hour); err != nil {
		w.t.Fatal(err)
	}
}

// contents returns the contents of all rows of a run, by segment.
func (w *worker) contents(run ledger.Run) (all []string) {
	w.t.Helper()
	for number := range run.Segments {
		for _, row := range w.rows(segment(run, number)) {
			all = append(all, string(row.Content))
		}
	}
	return all
}

func TestScan(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	if run.Staged() || !run.Growing || run.Segments != 0 || run.Scan == nil ||
		string(run.Scan.Progress) != "nothing yet" || run.Scan.Step != 1 {
		t.Fatalf("run %+v, scan %+v", run, run.Scan)
	}
	if _, cursor, err := w.ScanCursor(t.Context(), run); err != nil || cursor != nil {
		t.Errorf("cursor %q, %v", cursor, err)
	}
	if now, left := w.commitFound(run); left || now.Segments != 0 || now.Ended() {
		t.Errorf("run %+v, left %v", now, left)
	}
	w.step(run, false, foundRows(0, 3)...)
	s, cursor, err := w.ScanCursor(t.Context(), run)
	if err != nil || s.Step != 2 || string(s.Progress) != "after 1" || string(cursor) != "cursor 1" || s.Ended {
		t.Errorf("scan %+v, cursor %q, %v", s, cursor, err)
	}
	if due, _ := w.takeDue(); len(due) > 0 {
		t.Errorf("due %v before the commit", due)
	}
	now, left := w.commitFound(run)
	if left || now.Rows != 3 || now.Segments != 1 || !now.Growing || now.Reserved != 1 {
		t.Errorf("run %+v, left %v", now, left)
	}
	if due, _ := w.takeDue(); !slices.Equal(due, []ledger.Segment{segment(run, 0)}) {
		t.Errorf("due %v, want the segment", due)
	}
	w.settleAll(segment(run, 0))
	if w.get("a").Ended() {
		t.Error("the run has ended before its scan")
	}
	w.step(run, true, foundRows(3, 2)...)
	if made, err := w.AddStep(t.Context(), run, scanStep(3, false)); err != nil || made {
		t.Errorf("a step after the last: %v, %v", made, err)
	}
	if now, left = w.commitFound(run); left || now.Growing || !now.Scan.Ended || now.Rows != 5 {
		t.Errorf("run %+v, left %v", now, left)
	}
	if last := w.settleAll(segment(run, 1)); !last.Ended {
		t.Error("the run has not ended")
	}
	if now, left = w.commitFound(run); left || !now.Ended() || now.Counts[ledger.Done] != 5 {
		t.Errorf("run %+v, left %v", now, left)
	}
	if want := "[row 0 row 1 row 2 row 3 row 4]"; fmt.Sprint(w.contents(now)) != want {
		t.Errorf("rows %q, want %s", w.contents(now), want)
	}
	if now, left = w.commitFound(run); left || !now.Ended() {
		t.Errorf("run %+v, left %v", now, left)
	}
	for _, key := range keysOf(t, run) {
		if strings.HasSuffix(key, ":scan") || strings.HasSuffix(key, ":found") {
			t.Errorf("key %s remains", key)
		}
	}
	w.must(w.Delete, "a")
	if keys := keysOf(t, run); len(keys) > 0 {
		t.Errorf("keys %q remain", keys)
	}
}

// TestScanFindsARowTwice has lists name rows twice: in one step, in two, and in a step that is
// repeated since its scanner was killed. Each domain would be changed, and its change reported,
// as often.
func TestScanFindsARowTwice(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	rows := func(first, n int) []ledger.FoundRow {
		all := foundRows(first, n)
		for i := range all {
			all[i].Key = fmt.Sprint("domain ", first+i)
		}
		return all
	}
	w.step(run, false, slices.Concat(rows(0, 3), rows(1, 3))...)
	w.step(run, false, rows(3, 2)...)
	if made, err := w.AddStep(t.Context(), run, scanStep(2, false, rows(5, 1)...)); made || err != nil {
		t.Fatalf("the second step once more: %v, %v", made, err)
	}
	if now, _ := w.commitFound(run); now.Rows != 5 {
		t.Errorf("%d rows, want 5", now.Rows)
	}
	keyless := foundRows(6, 1)[0]
	// more keys than one command takes
	w.step(run, true, slices.Concat(rows(0, 4), rows(5, 2500), []ledger.FoundRow{keyless, keyless})...)
	w.commitFound(run)
	w.keptEarlier(run)
	if now, _ := w.commitFound(run); now.Growing || now.Rows != 5+2500+2 {
		t.Errorf("run %+v, want 2507 rows", now)
	}
	for _, key := range keysOf(t, run) {
		if strings.HasSuffix(key, ":seen") {
			t.Errorf("key %s remains", key)
		}
	}
}

func TestScanThatFindsNothing(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	w.step(run, false)
	w.step(run, true)
	if now, left := w.commitFound(run); left || !now.Ended() || now.Rows != 0 || now.Segments != 0 {
		t.Errorf("run %+v, left %v", now, left)
	}
}

func TestFoundRowsKeepDueTimesAndResults(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	now, err := w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := foundRows(0, 4)
	rows[1].Due = now.Add(time.Hour)
	rows[2].Result = invalid
	w.step(run, false, rows...)
	w.commitFound(run)
	seg := segment(run, 0)
	if got := numbers(w.release(seg, all)); fmt.Sprint(got) != "[0 3]" {
		t.Errorf("released %v, want rows 0 and 3", got)
	}
	states := w.rows(seg)
	if !states[1].Due.Equal(rows[1].Due) || states[1].Phase != ledger.PhaseWaiting {
		t.Errorf("row 1 is %+v, want it due at %v", states[1], rows[1].Due)
	}
	if fmt.Sprint(states[2].Result) != fmt.Sprint(invalid) {
		t.Errorf("row 2 is %+v, want %+v", states[2], invalid)
	}
	if o := w.segments("a")[0].Open; o.Later != 1 || o.Queued != 0 || o.Released != 2 {
		t.Errorf("open rows %+v", o)
	}
}

// TestLargeStep has a step of several scripts and several segments.
func TestLargeStep(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	const n = 20_000
	rows := foundRows(0, n)
	for i := range rows {
		rows[i].Content = fmt.Appendf(rows[i].Content, " %x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	w.step(run, true, rows...)
	now, left := w.commitFound(run)
	if left || now.Rows != n || now.Segments < 3 || now.Segments > 4 {
		t.Errorf("%d rows in %d segments, left %v", now.Rows, now.Segments, left)
	}
	for i, row := range w.contents(now) {
		if row != string(rows[i].Content) {
			t.Fatalf("row %d is %q, want %q", i, row, rows[i].Content)
		}
	}
	w.keptEarlier(run)
	if now, left = w.commitFound(run); left || now.Growing {
		t.Errorf("run %+v, left %v", now, left)
	}
}

// TestRowsWaitForOthers checks that many steps with few rows share segments.
func TestRowsWaitForOthers(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	for i := range 100 {
		w.step(run, false, foundRows(i, 1)...)
		if now, left := w.commitFound(run); left != (now.Rows <= int64(i)) {
			t.Errorf("step %d: %d rows are committed, left %v", i, now.Rows, left)
		}
	}
	if now := w.get("a"); now.Segments == 0 || now.Segments > 30 || now.Rows == 0 {
		t.Errorf("%d rows in %d segments", now.Rows, now.Segments)
	}
	w.keptEarlier(run)
	if now, _ := w.commitFound(run); now.Rows != 100 {
		t.Errorf("%d rows, want 100", now.Rows)
	}
}

func TestNoteScan(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	next := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	note := func(text string, at time.Time) {
		if err := w.NoteScan(t.Context(), run, text, at); err != nil {
			t.Error(err)
		}
	}
	note("the API refuses: 503", next)
	if s := w.get("a").Scan; s.Note != "the API refuses: 503" || !s.NextAt.Equal(next) {
		t.Errorf("scan %+v", s)
	}
	w.step(run, true)
	note("too late", next)
	if s := w.get("a").Scan; s.Note != "" || !s.NextAt.IsZero() || !s.Ended {
		t.Errorf("scan %+v, want no note after the next step", s)
	}
}

// TestScanRefusesSubmittedRows checks that the rows of a run are submitted or found, not both.
func TestScanRefusesSubmittedRows(t *testing.T) {
	w := newWorker(t)
	run, plain := w.scan("a"), w.create("b")
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"stage":  func() error { _, err := w.Stage(ctx, run, 0, true, content(0, 1)); return err },
		"stager": func() error { _, err := w.NewStager(ctx, run); return err },
		"commit": func() error { _, err := w.Commit(ctx, run, nil); return err },
		"step":   func() error { _, err := w.AddStep(ctx, plain, scanStep(1, true)); return err },
		"cursor": func() error { _, _, err := w.ScanCursor(ctx, plain); return err },
		"note":   func() error { return w.NoteScan(ctx, plain, "", time.Time{}) },
		"found":  func() error { _, _, err := w.CommitFound(ctx, plain); return err },
		"large": func() error {
			_, err := w.AddStep(ctx, run, scanStep(1, true, ledger.FoundRow{Content: make([]byte, ledger.MaxFoundRow+1)}))
			return err
		},
		"bad outcome": func() error {
			_, err := w.AddStep(ctx, run, scanStep(1, true, ledger.FoundRow{Result: ledger.Result{Detail: "x"}}))
			return err
		},
		"progress": func() error {
			_, err := w.AddStep(ctx, run, ledger.ScanStep{Number: 1, Progress: make([]byte, 17<<10)})
			return err
		},
		"cursor size": func() error {
			_, err := w.AddStep(ctx, run, ledger.ScanStep{Number: 1, Cursor: make([]byte, 129<<10)})
			return err
		},
	} {
		if err := do(); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	var mismatch *ledger.MismatchError
	_, _, err := w.Create(ctx, ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind})
	if !errors.As(err, &mismatch) || mismatch.Member != "origin" {
		t.Errorf("create without a scan: %v", err)
	}
	_, _, err = w.Create(ctx, ledger.NewRun{ID: "b", Tenant: tenant, Kind: kind, Scan: []byte{}})
	if !errors.As(err, &mismatch) || mismatch.Member != "origin" {
		t.Errorf("create with a scan: %v", err)
	}
	if again := w.scan("a"); again.Incarnation != run.Incarnation || again.Scan.Step != 1 {
		t.Errorf("created again: %+v", again)
	}
}

// TestCancelBesideStagedRows cancels a run while a scanner has staged a segment, of settled rows
// alone, and not committed it: neither the segment nor its rows count.
func TestCancelBesideStagedRows(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	w.step(run, false, foundRows(0, 1)...)
	run, _ = w.commitFound(run)
	e, row := w.take(segment(run, 0))
	if _, err := w.StageGrouped(t.Context(), run, 1, false, content(1, 1), 1, nil,
		map[ledger.Row]ledger.Result{0: invalid}, nil); err != nil {
		t.Fatal(err)
	}
	w.must(w.Cancel, "a")
	if now := w.get("a"); now.Ended() || now.Settled() != 0 {
		t.Errorf("run %+v, want its row in progress", now)
	}
	if r := w.settle(segment(run, 0), e, row); !r.Ended {
		t.Error("the run has not ended")
	}
	w.must(w.Delete, "a")
	if keys := keysOf(t, run); len(keys) > 0 {
		t.Errorf("keys %q remain", keys)
	}
}
