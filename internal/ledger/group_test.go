package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// groupOf returns the group of a row: the last digit of its number.
func groupOf(row []byte) string { return string(row[len(row)-1:]) }

// submitGrouped submits n rows in groups. It settles the rows for which settled returns true; nil:
// none.
func (w *worker) submitGrouped(n int, settled func(int) bool) ledger.Segment {
	w.t.Helper()
	run := w.create("a")
	w.commit(w.fillWith(run, content(0, n), func(s *ledger.Stager, i int, row []byte) error {
		s.Group(groupOf)
		if settled != nil && settled(i) {
			return s.AddSettled(w.t.Context(), row, invalid)
		}
		return s.Add(w.t.Context(), row)
	}))
	return segment(run, 0)
}

func (w *worker) hasOrder(seg ledger.Segment) bool {
	w.t.Helper()
	n, err := w.rdb.Exists(w.t.Context(), ledger.SegmentKey(seg, "order")).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return n > 0
}

// TestGroupedRelease has 25 rows in five groups of three rows, 0 to 4, and five of two.
func TestGroupedRelease(t *testing.T) {
	first := func(n int) ledger.Quota { return ledger.Quota{First: n} }
	most := func(rows int, quotas ...ledger.Quota) []ledger.Quota {
		for i := range quotas {
			quotas[i].PieceRows = rows
		}
		return quotas
	}
	for _, tt := range []struct {
		name    string
		settled func(int) bool
		quotas  []ledger.Quota
		want    string
	}{
		{"whole pieces", nil, most(9, first(3), first(6)), "[0 10 20] [1 11 21 2 12 22]"},
		{"no part of a piece", nil, most(9, first(5), first(8)), "[0 10 20] [1 11 21 2 12 22]"},
		{"a piece that is larger than the quota", nil, most(9, first(2), first(2), first(4)), "[0 10] [20] [1 11 21]"},
		{"groups that are cut", nil, most(2, first(2), first(2), first(4)), "[0 10] [20] [1 11 21]"},
		{"groups that are cut, so many pieces", nil, most(2, ledger.Quota{First: 99, Pieces: 3},
			ledger.Quota{First: 99, Pieces: 1}),
			"[0 10 20 1 11] [21]"},
		{"pieces of one row", nil, most(1, ledger.Quota{First: 9, Pieces: 2}, first(3)), "[0 10] [20 1 11]"},
		{"pieces of another size than before", nil, []ledger.Quota{{First: 2, PieceRows: 1},
			{First: 9, Pieces: 2, PieceRows: 9}},
			"[0 10] [20 1 11 21]"},
		{"settled rows", func(i int) bool { return i < 12 }, most(2, first(4), first(3), first(99)),
			"[12 22 13 23] [14 24 15] [16 17 18 19 20 21]"},
		{"so many pieces", nil, most(9, ledger.Quota{First: 99, Pieces: 2}, ledger.Quota{First: 99, Pieces: 1}),
			"[0 10 20 1 11 21] [2 12 22]"},
		{"pieces of any size", nil, []ledger.Quota{{First: 99, Pieces: 2}, {First: 99, Pieces: 1}},
			"[0 10 20 1 11 21] [2 12 22]"},
		{"pieces of a quota without rows", nil, []ledger.Quota{{Check: 5, Pieces: 2}, first(3)}, "[] [0 10 20]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			seg := w.submitGrouped(25, tt.settled)
			var have []string
			for _, q := range tt.quotas {
				have = append(have, fmt.Sprint(numbers(w.release(seg, q))))
			}
			if got := strings.Join(have, " "); got != tt.want {
				t.Errorf("released %s, want %s", got, tt.want)
			}
			if w.release(seg, all); w.hasOrder(seg) {
				t.Error("the order is left when all rows are released")
			}
		})
	}
}

// TestGroupedReleaseOfASegment releases a whole segment of 300 groups in random order: no
// release ends within a group, although chunks of large rows bound it by bytes. Unless long tests
// run, the segment has a quarter of the rows, of four times the size.
func TestGroupedReleaseOfASegment(t *testing.T) {
	part := redistest.Amount(4, 1)
	count, groups := ledger.SegmentRows/part, 300/part
	for name, size := range map[string]int{"small rows": 0, "large rows": 140 * part} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run := w.create("a")
			s := w.fill(run, nil)
			s.Group(func(row []byte) string { return strings.Fields(string(row))[2] })
			random := rand.New(rand.NewPCG(1, 1))
			for i := range count {
				filler := make([]byte, size/2)
				for i := range filler {
					filler[i] = byte(random.IntN(256))
				}
				row := fmt.Sprintf("row %d %d %x", i, random.IntN(groups), filler)
				if err := s.Add(t.Context(), []byte(row)); err != nil {
					t.Fatal(err)
				}
			}
			w.commit(s)
			seen, pieces := map[ledger.Row]bool{}, 0
			for {
				r := w.release(segment(run, 0), ledger.Quota{First: 500})
				if len(r.Rows) == 0 {
					break
				}
				w.begin(segment(run, 0), r.Token, numbers(r)...) // or the release lapses on a slow machine
				in := map[string]bool{}
				for _, row := range r.Rows {
					if seen[row.Row] {
						t.Fatalf("row %d is released twice", row.Row)
					}
					seen[row.Row] = true
					in[strings.Fields(string(row.Content))[2]] = true
				}
				pieces += len(in)
			}
			if len(seen) != count || pieces != groups {
				t.Errorf("%d rows in %d pieces, want %d in %d", len(seen), pieces, count, groups)
			}
		})
	}
}
