package ledger_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// fill adds rows to a new stager for the run.
func (w *worker) fill(run ledger.Run, rows [][]byte) *ledger.Stager {
	w.t.Helper()
	s, err := w.NewStager(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if err := s.Add(w.t.Context(), row); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

func (w *worker) commit(s *ledger.Stager) ledger.Run {
	w.t.Helper()
	run, err := s.Commit(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func TestStagerDividesRows(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 700<<10)
	tests := []struct {
		name string
		rows [][]byte
		want []int // rows of the segments
	}{
		{"no rows", nil, nil},
		{"one segment that is full", content(0, ledger.SegmentRows), []int{ledger.SegmentRows}},
		{"one row more", content(0, ledger.SegmentRows+1), []int{ledger.SegmentRows, 1}},
		{"large rows", [][]byte{large, large, large, nil}, []int{2, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			run := w.commit(w.fill(w.create("a"), tt.rows))
			if run.Segments != len(tt.want) || run.Rows != int64(len(tt.rows)) {
				t.Fatalf("%d segments, %d rows", run.Segments, run.Rows)
			}
			next := 0
			for number, n := range tt.want {
				rows := w.rows(segment(run, number))
				if len(rows) != n {
					t.Fatalf("segment %d has %d rows, want %d", number, len(rows), n)
				}
				for _, row := range rows {
					if !bytes.Equal(row.Content, tt.rows[next]) {
						t.Fatalf("row %d differs", next)
					}
					next++
				}
			}
		})
	}
}

func TestStagerRefusesRowsThatAreTooLarge(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), nil)
	if err := s.Add(t.Context(), make([]byte, ledger.MaxRow+1)); err == nil {
		t.Error("want an error")
	}
}

// TestStagerContinues restarts a killed producer with the same rows.
func TestStagerContinues(t *testing.T) {
	w := newWorker(t)
	rows := content(0, ledger.SegmentRows+10)
	w.fill(w.create("a"), rows) // killed: the first segment is staged
	run, created, err := w.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind})
	if err != nil || created || run.Reserved != 1 {
		t.Fatalf("run %+v, created %v, %v", run, created, err)
	}
	if run = w.commit(w.fill(run, rows)); run.Rows != int64(len(rows)) {
		t.Errorf("%d rows, want %d", run.Rows, len(rows))
	}
}

// TestStagerStagesAgainWhatRedisLost has Redis lose the last writes of a producer that has
// received every answer.
func TestStagerStagesAgainWhatRedisLost(t *testing.T) {
	rows := content(0, ledger.SegmentRows+10)
	tests := []struct {
		name string
		lose func(w *worker, run ledger.Run)
	}{
		{"nothing", func(*worker, ledger.Run) {}},
		{"a segment", func(w *worker, run ledger.Run) { w.lose(segment(run, 0)) }},
		{"the control of a segment", func(w *worker, run ledger.Run) {
			w.rdb.HDel(w.t.Context(), ledger.SegmentKey(segment(run, 1), "head"), "v", "flags", "not_before")
		}},
		{"the commit", func(w *worker, run ledger.Run) { w.uncommit(run) }},
		{"the commit and all segments", func(w *worker, run ledger.Run) {
			w.uncommit(run)
			w.lose(segment(run, 0))
			w.lose(segment(run, 1))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			s := w.fill(w.create("a"), rows)
			run := w.commit(s)
			tt.lose(w, run)
			if err := s.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.sync("a")
			n := 0
			for number := range run.Segments {
				n += len(numbers(w.release(segment(run, number), all)))
			}
			if n != 260 { // 250 of the first
				t.Errorf("%d rows released, want 260", n)
			}
		})
	}
}

func TestStagerCannotStageARunThatRedisLost(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	run := w.commit(s)
	if err := w.rdb.Del(t.Context(), ledger.HeaderKey(run.ID)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("verify: %v, want %v", err, ledger.ErrNotFound)
	}
}

// fillAwaiting adds rows to a stager that awaits results, and commits. The second row is
// invalid, and those given are duplicates.
func (w *worker) fillAwaiting(run ledger.Run, rows [][]byte, duplicates ...int) (*ledger.Stager, ledger.Run, error) {
	w.t.Helper()
	s, err := w.NewStager(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	s.AwaitResults()
	for i, row := range rows {
		switch {
		case i == 1:
			err = s.AddSettled(w.t.Context(), row, ledger.Result{Outcome: "invalid"})
		case slices.Contains(duplicates, i):
			err = s.AddSettled(w.t.Context(), row, ledger.Result{Outcome: "unchanged", Detail: "a duplicate"})
		default:
			err = s.Add(w.t.Context(), row)
		}
		if err != nil {
			return s, run, err
		}
	}
	run, err = s.Commit(w.t.Context())
	return s, run, err
}

// TestStagerSettlesAgainWhatRedisLost has Redis lose the commit and the results of the
// segments. The second segment has no results.
func TestStagerSettlesAgainWhatRedisLost(t *testing.T) {
	w := newWorker(t)
	rows := content(0, 2*ledger.SegmentRows+10)
	s, run, err := w.fillAwaiting(w.create("a"), rows, 2*ledger.SegmentRows+2)
	if err != nil {
		t.Fatal(err)
	}
	w.uncommit(run)
	for number := range 3 {
		head := ledger.SegmentKey(segment(run, number), "head")
		if err := errors.Join(w.rdb.HDel(t.Context(), head, "v", "flags", "not_before").Err(),
			w.rdb.HSet(t.Context(), head, "awaits", 1).Err()); err != nil {
			t.Fatal(err)
		}
	}
	last := segment(run, 2)
	if err := errors.Join(
		w.rdb.HSet(t.Context(), ledger.SegmentKey(last, "head"), "settled", 0).Err(),
		w.rdb.HDel(t.Context(), ledger.SegmentKey(last, "head"), "n:unchanged").Err(),
		w.rdb.Del(t.Context(), ledger.SegmentKey(last, "settled"), ledger.SegmentKey(last, "results")).Err(),
	); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sync("a")
	if counts, err := w.Counts(t.Context(), run); err != nil || counts["unchanged"] != 1 || counts["invalid"] != 1 {
		t.Errorf("counts %v, %v", counts, err)
	}
}

// TestStagerCompletesWhatItForgot has Redis lose the record that all results are known, of
// segments that are no longer in memory, and in the end a segment.
func TestStagerCompletesWhatItForgot(t *testing.T) {
	w := newWorker(t)
	s, run, err := w.fillAwaiting(w.create("a"), content(0, 2*ledger.SegmentRows+10))
	if err != nil {
		t.Fatal(err)
	}
	lose := func() {
		w.uncommit(run)
		for number := range 3 {
			head := ledger.SegmentKey(segment(run, number), "head")
			if err := errors.Join(w.rdb.HDel(t.Context(), head, "v", "flags", "not_before").Err(),
				w.rdb.HSet(t.Context(), head, "awaits", 1).Err()); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Forget()
	lose()
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	lose()
	w.lose(segment(run, 1))
	missing, ok := errors.AsType[*ledger.MissingError](s.Verify(t.Context()))
	if !ok || !slices.Equal(missing.Segments, []int{1}) {
		t.Errorf("%v, want segment 1 missing", missing)
	}
}

// TestStagerForgotDueTimes has Redis lose the due times of a segment. Once the segment is no
// longer in memory, Verify must not complete it: its rows would be due at once.
func TestStagerForgotDueTimes(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), nil)
	for _, row := range content(0, 3) {
		if err := s.AddDue(t.Context(), row, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	run := w.commit(s)
	s.Forget()
	w.uncommit(run)
	seg := segment(run, 0)
	head := ledger.SegmentKey(seg, "head")
	if err := errors.Join(
		w.rdb.HDel(t.Context(), head, "v", "flags", "not_before").Err(), w.rdb.HSet(t.Context(), head, "awaits", 1).Err(),
		w.rdb.Del(t.Context(), ledger.SegmentKey(seg, "first")).Err(),
	); err != nil {
		t.Fatal(err)
	}
	missing, ok := errors.AsType[*ledger.MissingError](s.Verify(t.Context()))
	if !ok || !slices.Equal(missing.Segments, []int{0}) {
		t.Errorf("%v, want segment 0 missing", missing)
	}
}

// TestStagerAwaitsResults commits nothing of a segment before it is complete.
func TestStagerAwaitsResults(t *testing.T) {
	w := newWorker(t)
	rows := content(0, ledger.SegmentRows+1)
	run := w.create("a")
	s, err := w.NewStager(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	s.AwaitResults()
	for _, row := range rows { // killed: the first segment is staged
		if err := s.Add(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Stage(t.Context(), run, 1, true, rows[ledger.SegmentRows:])
	if err != nil {
		t.Fatal(err)
	}
	if first, err := w.Stage(t.Context(), run, 0, false, rows[:ledger.SegmentRows]); err != nil {
		t.Fatal(err)
	} else if _, err := w.Commit(t.Context(), run, []ledger.Sum{first, sum}); err == nil {
		t.Error("a segment was committed that awaits results")
	}
	if _, run, err := w.fillAwaiting(run, rows); err != nil || run.Rows != int64(len(rows)) {
		t.Errorf("%d rows, %v", run.Rows, err)
	}
}

// TestStagerRefusesResultsOfOthers continues a run in which a producer of other rows has
// settled a row.
func TestStagerRefusesResultsOfOthers(t *testing.T) {
	w := newWorker(t)
	first, second := content(0, ledger.SegmentRows), content(ledger.SegmentRows, 10)
	run := w.create("a")
	s, err := w.NewStager(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	s.AwaitResults()
	for i, row := range slices.Concat(first, second) { // killed: the first segment is staged
		if i == 3 {
			err = s.AddSettled(t.Context(), row, ledger.Result{Outcome: "unchanged"})
		} else {
			err = s.Add(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = w.fillAwaiting(run, slices.Concat(first, content(0, 3)))
	if _, differs := errors.AsType[*ledger.MismatchError](err); !differs {
		t.Errorf("%v, want a mismatch", err)
	}
}

func TestComparer(t *testing.T) {
	w := newWorker(t)
	rows := content(0, ledger.SegmentRows+10)
	_, run, err := w.fillAwaiting(w.create("a"), rows, 7)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(rows)
	other[ledger.SegmentRows+3] = []byte("other")
	for name, tt := range map[string]struct {
		rows [][]byte
		same bool
	}{
		"the same": {rows, true}, "another row": {other, false}, "a row less": {rows[1:], false},
		"a segment less": {rows[:ledger.SegmentRows], false}, "a row more": {append(slices.Clone(rows), nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := w.NewComparer(t.Context(), run)
			for _, row := range tt.rows {
				err = errors.Join(err, s.Add(t.Context(), row))
			}
			if err == nil {
				_, err = s.Commit(t.Context())
			}
			if _, differs := errors.AsType[*ledger.MismatchError](err); differs == tt.same || err != nil && !differs {
				t.Errorf("%v; the same: %v", err, tt.same)
			}
			if counts, err := w.Counts(t.Context(), run); err != nil || counts.Settled() != 2 {
				t.Errorf("counts %v, %v", counts, err)
			}
		})
	}
}

// lose removes a segment.
func (w *worker) lose(seg ledger.Segment) {
	w.t.Helper()
	for _, part := range []string{"head", "chunks", "settled", "released", "executions"} {
		if err := w.rdb.Del(w.t.Context(), ledger.SegmentKey(seg, part)).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// uncommit makes the header lose its commit.
func (w *worker) uncommit(run ledger.Run) {
	w.t.Helper()
	if err := w.rdb.HDel(w.t.Context(), ledger.HeaderKey(run.ID), "segments", "rows", "committed_at", "sealed",
		"ended_at").Err(); err != nil {
		w.t.Fatal(err)
	}
}
