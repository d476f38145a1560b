package ledger_test

import (
	"bytes"
	"errors"
	"testing"

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

// A producer that was killed is started again with the same rows.
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

// Redis loses the last writes of a producer that has received every answer.
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

// lose removes a segment.
func (w *worker) lose(seg ledger.Segment) {
	w.t.Helper()
	for _, part := range []string{"head", "chunks", "settled", "released", "executions"} {
		if err := w.rdb.Del(w.t.Context(), ledger.SegmentKey(seg, part)).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// uncommit has the header forget its commit.
func (w *worker) uncommit(run ledger.Run) {
	w.t.Helper()
	if err := w.rdb.HDel(w.t.Context(), ledger.HeaderKey(run.ID), "segments", "rows", "committed_at", "sealed", "ended_at").Err(); err != nil {
		w.t.Fatal(err)
	}
}
