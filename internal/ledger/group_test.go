package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// groupOf returns the group of a row: the last digit of its number.
func groupOf(row []byte) string { return string(row[len(row)-1:]) }

// submitGrouped submits n rows of one group, in pieces with most rows or fewer. It settles the
// rows for which settled returns true; nil: none.
func (w *worker) submitGrouped(n, most int, settled func(int) bool) ledger.Segment {
	w.t.Helper()
	run := w.create("a")
	s, err := w.NewStager(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Group(most, groupOf)
	for i, row := range content(0, n) {
		if settled != nil && settled(i) {
			err = s.AddSettled(w.t.Context(), row, invalid)
		} else {
			err = s.Add(w.t.Context(), row)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.commit(s)
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
	for _, tt := range []struct {
		name    string
		most    int
		settled func(int) bool
		quotas  []ledger.Quota
		want    string
	}{
		{"whole pieces", 9, nil, []ledger.Quota{first(3), first(6)}, "[0 10 20] [1 11 21 2 12 22]"},
		{"no part of a piece", 9, nil, []ledger.Quota{first(5), first(8)}, "[0 10 20] [1 11 21 2 12 22]"},
		{"a piece that is larger than the quota", 9, nil, []ledger.Quota{first(2), first(2), first(4)},
			"[0 10] [20] [1 11 21]"},
		{"groups that are cut", 2, nil, []ledger.Quota{first(2), first(2), first(4)}, "[0 10] [20] [1 11 21]"},
		{"pieces of one row", 1, nil, []ledger.Quota{first(2), first(3)}, "[0 1] [2 3 4]"},
		{"settled rows", 2, func(i int) bool { return i < 12 }, []ledger.Quota{first(4), first(3), first(99)},
			"[12 22 13 23] [14 24 15] [16 17 18 19 20 21]"},
		{"so many pieces", 9, nil, []ledger.Quota{{First: 99, Pieces: 2}, {First: 99, Pieces: 1}},
			"[0 10 20 1 11 21] [2 12 22]"},
		{"pieces of a quota without rows", 9, nil, []ledger.Quota{{Check: 5, Pieces: 2}, first(3)}, "[] [0 10 20]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			seg := w.submitGrouped(25, tt.most, tt.settled)
			var have []string
			for _, q := range tt.quotas {
				have = append(have, fmt.Sprint(numbers(w.release(seg, q))))
			}
			if got := strings.Join(have, " "); got != tt.want {
				t.Errorf("released %s, want %s", got, tt.want)
			}
		})
	}
}

func TestGroupedRowsThatAreGivenBack(t *testing.T) {
	w := newWorker(t)
	seg := w.submitGrouped(25, 9, nil)
	r := w.release(seg, ledger.Quota{First: 6})
	if _, err := w.GiveBack(t.Context(), seg, r.Token, 10, 21); err != nil {
		t.Fatal(err)
	}
	r = w.release(seg, ledger.Quota{First: 5})
	if rows := numbers(r); !slices.Equal(rows, []ledger.Row{10, 21, 2, 12, 22}) {
		t.Errorf("released %v, want the rows that were given back, and the next piece", rows)
	}
	if r.Open.Queued != 25-9 || r.Open.Released != 9 {
		t.Errorf("open rows %+v", r.Open)
	}
	w.pass(seg, ledger.ReleaseTimeout)
	if rows := numbers(w.release(seg, all)); len(rows) != 25 || w.hasOrder(seg) {
		t.Errorf("released %v, has order %v: want all rows and no order any more", rows, w.hasOrder(seg))
	}
}

// TestGroupedReleaseOfASegment releases a whole segment of 300 groups in random order: no
// release ends within a group, although chunks of large rows bound it by bytes. Unless long tests
// run, the segment has a quarter of the rows, of four times the size.
func TestGroupedReleaseOfASegment(t *testing.T) {
	const most = 100
	part := redistest.Amount(4, 1)
	count, groups := ledger.SegmentRows/part, 300/part
	for name, size := range map[string]int{"small rows": 0, "large rows": 140 * part} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			run := w.create("a")
			s := w.fill(run, nil)
			s.Group(most, func(row []byte) string { return strings.Fields(string(row))[2] })
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

// TestGroupedReleaseSkipsDismissedRows checks that a row settled before its release does not
// count for the size of its piece.
func TestGroupedReleaseSkipsDismissedRows(t *testing.T) {
	w := newWorker(t)
	seg := w.submitGrouped(25, 9, nil)
	if _, err := w.Dismiss(t.Context(), seg, invalid, 0, 11); err != nil {
		t.Fatal(err)
	}
	if rows := numbers(w.release(seg, ledger.Quota{First: 4})); !slices.Equal(rows, []ledger.Row{10, 20, 1, 21}) {
		t.Errorf("released %v", rows)
	}
}
