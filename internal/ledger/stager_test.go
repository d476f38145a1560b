package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
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

func TestStagerCannotStageARunThatRedisLost(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	run := w.commit(s)
	if err := w.rdb.Del(t.Context(), ledger.HeaderKey(tenant, run.ID)).Err(); err != nil {
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

// TestVerifyAfterALoss has Redis go back to before each command of a producer that has received
// every answer, or before some of them. The producer stores the lost segments again.
func TestVerifyAfterALoss(t *testing.T) {
	rows := content(0, ledger.SegmentRows+40)
	due := time.Now().Add(time.Hour)
	for name, add := range map[string]func(s *ledger.Stager, i int, row []byte) error{
		"rows": func(s *ledger.Stager, _ int, row []byte) error { return s.Add(t.Context(), row) },
		"results": func(s *ledger.Stager, i int, row []byte) error {
			if i%64 == 3 {
				return s.AddSettled(t.Context(), row, invalid)
			}
			return s.Add(t.Context(), row)
		},
		"results that are awaited": func(s *ledger.Stager, i int, row []byte) error {
			if i == 0 {
				s.AwaitResults()
			}
			if i%64 == 3 {
				return s.AddSettled(t.Context(), row, invalid)
			}
			return s.Add(t.Context(), row)
		},
		"due times": func(s *ledger.Stager, _ int, row []byte) error { return s.AddDue(t.Context(), row, due) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			stride := redistest.Stride(3)
			for n, done := someOf(stride), false; !done; n += stride {
				id := ledger.RunID(fmt.Sprint("run-", n))
				var saved memory
				i := &interruption{after: n, do: func() { saved = remember(t, w.rdb) }}
				rdb := redistest.New(t)
				rdb.AddHook(i)
				run := w.create(id)
				s, err := ledger.New(rdb).NewStager(t.Context(), run)
				for i, row := range rows {
					err = errors.Join(err, add(s, i, row))
				}
				if err == nil {
					_, err = s.Commit(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				if done = !i.done(); done {
					break
				}
				saved.restore(t, w.rdb, "")
				if err := s.Verify(t.Context()); err != nil {
					t.Fatalf("lost from command %d on: %v", n, err)
				}
				now := w.get(id)
				if now.Rows != int64(len(rows)) {
					t.Fatalf("lost from command %d on: run %+v", n, now)
				}
				if settled := now.Settled(); strings.HasPrefix(name, "results") != (settled == 129) {
					t.Errorf("lost from command %d on: %d rows settled", n, settled)
				}
				for number := range 2 {
					released := w.release(segment(now, number), ledger.Quota{First: 10})
					if (name == "due times") != (len(released.Rows) == 0) {
						t.Errorf("lost from command %d on: released %v", n, numbers(released))
					}
				}
			}
		})
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
