package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestProducerThatIsKilled loses the connection of a producer at each of its commands, or at
// some, before Redis has it and after, and starts the producer again. The run must then have
// each row once, and be due.
func TestProducerThatIsKilled(t *testing.T) {
	w := newWorker(t)
	rows := content(0, ledger.SegmentRows+10)
	lossy, f := faulty(t)
	for _, answer := range []bool{false, true} {
		stride := redistest.Stride(4)
		for n, lost := someOf(stride), true; lost; n += stride {
			id := ledger.RunID(fmt.Sprintf("run-%v-%d", answer, n))
			f.arm(n, answer)
			_, err := submit(t, lossy, id, rows)
			if lost = f.disarm(); lost == (err == nil) {
				t.Fatalf("command %d: %v, connection lost: %v", n, err, lost)
			}
			if _, err := w.Get(t.Context(), "", id); err == nil && !slices.Contains(w.open(), id) {
				t.Fatalf("command %d: the run is not listed", n)
			}
			run, err := submit(t, w.Ledger, id, rows)
			if err != nil {
				t.Fatalf("command %d: again: %v", n, err)
			}
			if run.Segments != 2 || run.Rows != int64(len(rows)) || len(w.rows(segment(run, 1))) != 10 {
				t.Fatalf("command %d: run %+v", n, run)
			}
			if due, _ := w.takeDue(); len(due) != 2 {
				t.Fatalf("command %d: due %v, want both segments", n, due)
			}
			w.must(w.Cancel, id)
			w.remove(run)
			w.takeDue()
		}
	}
}

// submit submits rows as a producer does, on the first attempt and on later ones.
func submit(t *testing.T, l *ledger.Ledger, id ledger.RunID, rows [][]byte) (ledger.Run, error) {
	run, _, err := l.Create(t.Context(), ledger.NewRun{ID: id, Tenant: tenant, Kind: kind})
	if err != nil {
		return ledger.Run{}, err
	}
	begin := l.NewStager
	if !run.Staged() {
		begin = l.NewComparer
	}
	s, err := begin(t.Context(), run)
	if err != nil {
		return ledger.Run{}, err
	}
	for _, row := range rows {
		if err := s.Add(t.Context(), row); err != nil {
			return ledger.Run{}, err
		}
	}
	if run, err = s.Commit(t.Context()); err != nil {
		return ledger.Run{}, err
	}
	return run, s.Verify(t.Context())
}
