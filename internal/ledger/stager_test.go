package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// fillWith adds rows to a new stager for the run, each by a function.
func (w *worker) fillWith(run ledger.Run, rows [][]byte,
	add func(s *ledger.Stager, i int, row []byte) error) *ledger.Stager {
	w.t.Helper()
	s, err := w.NewStager(w.t.Context(), run)
	for i, row := range rows {
		if err == nil {
			err = add(s, i, row)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// fill adds rows to a new stager for the run.
func (w *worker) fill(run ledger.Run, rows [][]byte) *ledger.Stager {
	w.t.Helper()
	return w.fillWith(run, rows, func(s *ledger.Stager, _ int, row []byte) error { return s.Add(w.t.Context(), row) })
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

// TestVerifyAfterALoss has Redis go back to before each command of a producer that has received
// every answer. It learns that what it submitted is lost, and submits it again.
func TestVerifyAfterALoss(t *testing.T) {
	rows := content(0, ledger.SegmentRows+40)
	for name, add := range map[string]func(s *ledger.Stager, i int, row []byte) error{
		"rows": func(s *ledger.Stager, _ int, row []byte) error { return s.Add(t.Context(), row) },
		"results": func(s *ledger.Stager, i int, row []byte) error {
			if i%64 == 3 {
				return s.AddSettled(t.Context(), row, invalid)
			}
			return s.Add(t.Context(), row)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			submit := func(l *ledger.Ledger, id ledger.RunID) (*ledger.Stager, error) {
				run, _, err := w.Create(t.Context(), ledger.NewRun{ID: id, Tenant: tenant, Kind: kind})
				if err != nil {
					return nil, err
				}
				s, err := l.NewStager(t.Context(), run)
				if err != nil {
					return nil, err
				}
				for i, row := range rows {
					err = errors.Join(err, add(s, i, row))
				}
				if err == nil {
					_, err = s.Commit(t.Context())
				}
				return s, err
			}
			stride := redistest.Stride(3)
			for n, done := someOf(stride), false; !done; n += stride {
				id := ledger.RunID(fmt.Sprint("run-", n))
				var saved memory
				l, i := interrupted(t, n, func() { saved = remember(t, w.rdb) })
				s, err := submit(l, id)
				if err != nil {
					t.Fatal(err)
				}
				if done = !i.done(); done {
					break
				}
				saved.restore(t, w.rdb, "")
				err = s.Verify(t.Context())
				if stored := w.get(id); stored.Staged() {
					if !errors.Is(err, ledger.ErrLost) {
						t.Fatalf("lost from command %d on: %v, want %v", n, err, ledger.ErrLost)
					}
					if _, err := submit(w.Ledger, id); err != nil {
						t.Fatal(err)
					}
				} else if err != nil { // only the wake was lost
					t.Fatalf("lost from command %d on: %v", n, err)
				}
				now := w.get(id)
				if now.Rows != int64(len(rows)) {
					t.Fatalf("lost from command %d on: run %+v", n, now)
				}
				if settled := now.Settled(); (name == "results") != (settled == 129) {
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

// TestLastStagerCounts has another stager of the run begin before each command of a first one, with
// other rows. The first one stops, and the rows of the second are those of the run.
func TestLastStagerCounts(t *testing.T) {
	w := newWorker(t)
	first, second := content(0, ledger.SegmentRows+40), content(7, ledger.SegmentRows+3)
	for n, done := 0, false; !done; n++ {
		id := ledger.RunID(fmt.Sprint("run-", n))
		run := w.create(id)
		var other *ledger.Stager
		l, i := interrupted(t, n, func() {
			if w.get(id).Staged() {
				other = w.fill(run, second[:ledger.SegmentRows+1]) // its first segment is staged
			}
		})
		err := func() error {
			s, err := l.NewStager(t.Context(), run)
			if err != nil {
				return err
			}
			for j, row := range first {
				if j%64 == 3 {
					err = s.AddSettled(t.Context(), row, invalid)
				} else {
					err = s.Add(t.Context(), row)
				}
				if err != nil {
					return err
				}
			}
			_, err = s.Commit(t.Context())
			if deleted, failed := s.Discard(t.Context()); failed == nil && deleted {
				t.Errorf("command %d: a stager that was replaced has deleted the run", n)
			}
			return err
		}()
		if done = !i.done(); done {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		switch {
		case n == 0: // the other one has begun before the first, which has replaced it
			if _, replaced := other.Commit(t.Context()); err != nil || !errors.Is(replaced, ledger.ErrReplaced) {
				t.Errorf("%v, and of the other one %v, want none and %v", err, replaced, ledger.ErrReplaced)
			}
		case other == nil: // the first one had committed
			if err != nil {
				t.Errorf("command %d: %v", n, err)
			}
		default:
			if !errors.Is(err, ledger.ErrReplaced) {
				t.Fatalf("command %d: %v, want %v", n, err, ledger.ErrReplaced)
			}
			for _, row := range second[ledger.SegmentRows+1:] {
				if err := other.Add(t.Context(), row); err != nil {
					t.Fatal(err)
				}
			}
			run := w.commit(other)
			if run.Rows != int64(len(second)) || run.Settled() != 0 {
				t.Fatalf("command %d: run %+v", n, run)
			}
			for j, row := range w.rows(segment(run, 0)) {
				if !bytes.Equal(row.Content, second[j]) {
					t.Fatalf("command %d: row %d is %q, want %q", n, j, row.Content, second[j])
				}
			}
		}
	}
}

func TestComparer(t *testing.T) {
	w := newWorker(t)
	rows := content(0, ledger.SegmentRows+10)
	run := w.commit(w.fill(w.create("a"), rows))
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
			if counts, err := w.Counts(t.Context(), run); err != nil || counts.Settled() != 0 {
				t.Errorf("counts %v, %v", counts, err)
			}
		})
	}
}
