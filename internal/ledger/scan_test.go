package ledger_test

import (
	"context"
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
		Scan: []byte("position 0")})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// scanRow returns the segment of the row of a run's scan.
func scanRow(run ledger.Run) ledger.Segment { return segment(run, ledger.ScanSegment) }

// foundRows returns found rows from a number on, with a key each.
func foundRows(first, n int) []ledger.FoundRow {
	rows := make([]ledger.FoundRow, n)
	for i, row := range content(first, n) {
		rows[i] = ledger.FoundRow{Key: fmt.Sprint("domain ", first+i), Content: row}
	}
	return rows
}

func scanStep(number int64, last bool, rows ...ledger.FoundRow) ledger.ScanStep {
	return ledger.ScanStep{
		Number: number, Progress: fmt.Appendf(nil, "after %d", number), Position: fmt.Appendf(nil, "position %d", number+1),
		Rows: rows, Last: last,
	}
}

// scanner is an execution of a scan's row.
type scanner struct {
	nonce ledger.Nonce
	step  int64 // that is next
}

// takeScan releases and begins the row of a scan. ok is false if it is not due.
func takeScan(ctx context.Context, l *ledger.Ledger, run ledger.Run,
	of ledger.SessionID) (s scanner, ok bool, err error) {
	r, err := l.Release(ctx, scanRow(run), all)
	if err != nil || len(r.Rows) == 0 {
		return s, false, err
	}
	s.nonce = ledger.NewNonce()
	b, err := l.Begin(ctx, scanRow(run), ledger.Execution{Token: r.Token, Nonce: s.nonce, Session: of}, 0)
	if err != nil || b.Rows[0].Status != ledger.RowAdmitted {
		return s, false, err
	}
	_, err = fmt.Sscanf(string(r.Rows[0].Content), "position %d", &s.step)
	return s, err == nil, err
}

// takeScan takes the row of a scan, which must be due.
func (w *worker) takeScan(run ledger.Run) scanner {
	w.t.Helper()
	s, ok, err := takeScan(w.t.Context(), w.Ledger, run, w.session)
	if err != nil || !ok {
		w.t.Fatalf("the scan's row: taken %v, %v", ok, err)
	}
	return s
}

// step makes the next step of a scan, which must succeed.
func (w *worker) step(run ledger.Run, s *scanner, last bool, rows ...ledger.FoundRow) {
	w.t.Helper()
	status, err := w.AddStep(w.t.Context(), scanRow(run), s.nonce, scanStep(s.step, last, rows...))
	if err != nil || status != ledger.RowWritten {
		w.t.Fatalf("step %d: %s, %v", s.step, status, err)
	}
	s.step++
}

// endScan ends the execution of a scan's row.
func (w *worker) endScan(run ledger.Run, s scanner, e ledger.Ending) ledger.Receipt {
	w.t.Helper()
	r, err := w.End(w.t.Context(), scanRow(run), s.nonce, ledger.Ends(e, 0)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

var done = ledger.Result{Outcome: ledger.Done}

// contents returns the contents of all rows of a run, by segment.
func (w *worker) contents(run ledger.Run) (all []string) {
	w.t.Helper()
	for number := range run.Segments {
		for _, row := range w.rows(segment(run, number)) {
			if row.Err != nil {
				w.t.Error(row.Err)
			}
			all = append(all, string(row.Content))
		}
	}
	return all
}

func TestScan(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	if run.Staged() || !run.Growing || run.Segments != 0 || run.Scan == nil || string(run.Scan.Progress) != "position 0" {
		t.Fatalf("run %+v, scan %+v", run, run.Scan)
	}
	if due, _ := w.takeDue(); !slices.Equal(due, []ledger.Segment{scanRow(run)}) {
		t.Fatalf("due %v, want the scan's row", due)
	}
	s := w.takeScan(run)
	w.step(run, &s, false, foundRows(0, 3)...)
	if due, _ := w.takeDue(); !slices.Contains(due, segment(run, 0)) {
		t.Errorf("due %v, want the segment of the rows", due)
	}
	now := w.get("a")
	if now.Rows != 3 || now.Segments != 1 || !now.Growing || now.Reserved != 1 || string(now.Scan.Progress) != "after 0" {
		t.Errorf("run %+v, scan %+v", now, now.Scan)
	}
	w.settleAll(segment(run, 0))
	w.endScan(run, s, ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute, Memo: []byte("paced")})
	if now = w.get("a"); now.Ended() || string(now.Scan.Note) != "paced" || now.Scan.NextAt.IsZero() {
		t.Errorf("run %+v, scan %+v: want it to wait", now, now.Scan)
	}
	w.pass(scanRow(run), time.Hour)
	s = w.takeScan(run)
	if s.step != 1 {
		t.Errorf("the scan continues at step %d", s.step)
	}
	w.step(run, &s, true, foundRows(3, 2)...)
	if now = w.get("a"); !now.Growing || len(now.Scan.Note) > 0 || !now.Scan.NextAt.IsZero() {
		t.Errorf("run %+v, scan %+v", now, now.Scan)
	}
	w.settleAll(segment(run, 0))
	if w.get("a").Ended() {
		t.Error("the run has ended before its scan")
	}
	if r := w.endScan(run, s, done); !r.Ended {
		t.Errorf("the run has not ended: %+v", r)
	}
	now = w.get("a")
	if want := "[row 0 row 1 row 2 row 3 row 4]"; fmt.Sprint(w.contents(now)) != want || now.Segments != 1 {
		t.Errorf("rows %q in %d segments, want %s", w.contents(now), now.Segments, want)
	}
	if !now.Ended() || now.Growing || now.Counts[ledger.Done] != 5 || now.Settled() != 5 {
		t.Errorf("run %+v", now)
	}
	for _, key := range keysOf(t, run) {
		if strings.HasSuffix(key, ":seen") {
			t.Errorf("key %s remains", key)
		}
	}
	w.remove(run)
	if due, _ := w.takeDue(); len(due) > 0 {
		t.Errorf("due %v after the deletion", due)
	}
}

// TestScanFindsARowTwice has lists name rows twice: in one step, in two, and in a step that is
// repeated since its execution died. Each domain would be changed, and its change reported,
// as often.
func TestScanFindsARowTwice(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	s := w.takeScan(run)
	w.step(run, &s, false, slices.Concat(foundRows(0, 3), foundRows(1, 3))...)
	w.step(run, &s, false, foundRows(3, 2)...)
	if now := w.get("a"); now.Rows != 5 {
		t.Errorf("%d rows, want 5", now.Rows)
	}
	keyless := ledger.FoundRow{Content: []byte("row 6")}
	// more keys than one command takes
	w.step(run, &s, true, slices.Concat(foundRows(0, 4), foundRows(5, 2500), []ledger.FoundRow{keyless, keyless})...)
	if now := w.get("a"); now.Rows != 5+2500+2 {
		t.Errorf("run %+v, want 2507 rows", now)
	}
}

// TestRowsBehindSettledOnes: all rows that were there had been settled when the last ones are
// found. The run does not end before these.
func TestRowsBehindSettledOnes(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	s := w.takeScan(run)
	w.step(run, &s, false, foundRows(0, 2)...)
	w.settleAll(segment(run, 0))
	w.step(run, &s, true, foundRows(2, 1)...)
	if r := w.endScan(run, s, done); r.Ended || w.get("a").Ended() || w.get("a").Growing {
		t.Errorf("receipt %+v, run %+v: want it to wait for its last row", r, w.get("a"))
	}
	if r := w.settleAll(segment(run, 0)); !r.Ended || w.get("a").Settled() != 3 {
		t.Errorf("receipt %+v, run %+v: want it ended", r, w.get("a"))
	}
}

// TestScanThatFails: the run ends with the rows that were found, and the reason is stored.
func TestScanThatFails(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	s := w.takeScan(run)
	w.step(run, &s, false, foundRows(0, 2)...)
	w.settleAll(segment(run, 0))
	r := w.endScan(run, s, ledger.Result{Outcome: "failed", Detail: "given up"})
	if now := w.get("a"); !r.Ended || !now.Ended() || string(now.Scan.Note) != "given up" || now.Settled() != 2 {
		t.Errorf("run %+v, scan %+v", now, now.Scan)
	}
}

// TestScanIsNotDone: Redis has lost the last step when the execution settles the row. The scan goes
// on.
func TestScanIsNotDone(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	s := w.takeScan(run)
	w.step(run, &s, false, foundRows(0, 2)...)
	w.endScan(run, s, done)
	if now := w.get("a"); !now.Growing {
		t.Errorf("run %+v, want it to grow", now)
	}
	if s = w.takeScan(run); s.step != 1 {
		t.Errorf("it continues at step %d", s.step)
	}
}

// TestStepsOfOthers: an execution that has the scan's row no more adds nothing, and neither does
// one whose steps Redis has lost.
func TestStepsOfOthers(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	first := w.takeScan(run)
	w.step(run, &first, false, foundRows(0, 2)...)
	if _, err := w.AddStep(t.Context(), scanRow(run), first.nonce, scanStep(5, false, foundRows(2, 2)...)); !errors.Is(err,
		ledger.ErrRaced) {
		t.Errorf("step 5 after step 0: %v", err)
	}
	w.pass(scanRow(run), ledger.ExecutionLimit)
	second := w.takeScan(run)
	status, err := w.AddStep(t.Context(), scanRow(run), first.nonce, scanStep(first.step, true, foundRows(2, 2)...))
	if status != ledger.RowSuperseded || err != nil {
		t.Errorf("a step of the former execution: %s, %v", status, err)
	}
	w.must(w.Cancel, "a")
	status, err = w.AddStep(t.Context(), scanRow(run), second.nonce, scanStep(second.step, true, foundRows(2, 2)...))
	if now := w.get("a"); status != ledger.RowCancelled || err != nil || now.Rows != 2 || now.Ended() {
		t.Errorf("a step of a cancelled run: %s, %v, run %+v", status, err, now)
	}
	if r := w.endScan(run, second, ledger.GiveBack{}); !r.Ended {
		t.Errorf("the cancelled run has not ended: %+v", r)
	}
	w.must(w.Delete, "a")
	_, err = w.AddStep(t.Context(), scanRow(run), second.nonce, scanStep(0, true))
	if !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a step of a deleted run: %v", err)
	}
}

func TestFoundRowsKeepDueTimesAndResults(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	rows := foundRows(0, 4)
	rows[1].Due = w.redisNow().Add(time.Hour)
	rows[2].Result = invalid
	s := w.takeScan(run)
	w.step(run, &s, false, rows...)
	seg := segment(run, 0)
	if got := numbers(w.release(seg, all)); fmt.Sprint(got) != "[0 3]" {
		t.Errorf("released %v, want rows 0 and 3", got)
	}
	states := w.rows(seg)
	if !states[1].Due.Equal(rows[1].Due) || states[1].Phase != ledger.PhaseWaiting {
		t.Errorf("row 1 is %+v, want it due at %v", states[1], rows[1].Due)
	}
	if fmt.Sprint(states[2].Result) != fmt.Sprint(invalid) || w.get("a").Counts["invalid"] != 1 {
		t.Errorf("row 2 is %+v, want %+v", states[2], invalid)
	}
	if o := w.segments("a")[0].Open; o.Later != 1 || o.Queued != 0 || o.Released != 2 {
		t.Errorf("open rows %+v", o)
	}
	settled := foundRows(4, 1)
	settled[0].Result = invalid
	w.step(run, &s, true, settled...)
	w.endScan(run, s, done)
	w.pass(seg, 2*time.Hour)
	if r := w.settleAll(seg); !r.Ended {
		t.Errorf("the run has not ended: %+v", w.get("a"))
	}
}

// TestLargeStep has a step of several scripts and several segments, behind others.
func TestLargeStep(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	const n = 20_000
	rows := foundRows(0, n)
	for i := range rows {
		rows[i].Content = fmt.Appendf(rows[i].Content, " %x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	s := w.takeScan(run)
	for _, first := range []int{0, 1, 5, 40, 8180} {
		w.step(run, &s, false, rows[:first]...) // those before are known
	}
	w.step(run, &s, true, rows...)
	now := w.get("a")
	if now.Rows != n || now.Segments != 3 {
		t.Errorf("%d rows in %d segments", now.Rows, now.Segments)
	}
	for i, row := range w.contents(now) {
		if row != string(rows[i].Content) {
			t.Fatalf("row %d is %q, want %q", i, row, rows[i].Content)
		}
	}
	sums, err := w.Sums(t.Context(), now)
	if err != nil || len(sums) != 3 || sums[2].Rows != n-2*ledger.SegmentRows {
		t.Errorf("sums %v, %v", sums, err)
	}
}

// TestAttemptsOfAScan: a step that is made forgets the attempts before it.
func TestAttemptsOfAScan(t *testing.T) {
	w := newWorker(t)
	run := w.scan("a")
	for i, test := range []struct {
		counts, fresh bool
		want          int
	}{{true, false, 1}, {true, false, 2}, {false, false, 2}, {true, true, 1}, {true, false, 2}, {false, true, 0}} {
		w.endScan(run, w.takeScan(run), ledger.Waiting{Stage: ledger.StageCheck, CountAttempt: test.counts,
			Fresh: test.fresh})
		if got := w.rows(scanRow(run))[0].Checkpoint.Attempts; got != test.want {
			t.Errorf("%d: %d attempts, want %d", i, got, test.want)
		}
	}
}

// TestScanRefusesSubmittedRows checks that the rows of a run are submitted or found, not both.
func TestScanRefusesSubmittedRows(t *testing.T) {
	w := newWorker(t)
	run, plain := w.scan("a"), w.create("b")
	ctx, nonce := t.Context(), w.takeScan(run).nonce
	refused := func(s ledger.ScanStep) func() error {
		return func() error { _, err := w.AddStep(ctx, scanRow(run), nonce, s); return err }
	}
	for name, do := range map[string]func() error{
		"stage":       func() error { _, err := w.Stage(ctx, run, 0, content(0, 1)); return err },
		"stager":      func() error { _, err := w.NewStager(ctx, run); return err },
		"step":        func() error { _, err := w.AddStep(ctx, scanRow(plain), nonce, scanStep(0, true)); return err },
		"large":       refused(scanStep(0, true, ledger.FoundRow{Content: make([]byte, ledger.MaxFoundRow+1)})),
		"bad outcome": refused(scanStep(0, true, ledger.FoundRow{Result: ledger.Result{Detail: "x"}})),
		"progress":    refused(ledger.ScanStep{Progress: make([]byte, 17<<10)}),
		"position":    refused(ledger.ScanStep{Position: make([]byte, 129<<10)}),
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
	if again := w.scan("a"); again.Incarnation != run.Incarnation {
		t.Errorf("created again: %+v", again)
	}
}
