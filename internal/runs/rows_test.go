package runs_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/internal/runs"
)

func store(t *testing.T, l *runs.Ledger, id string, first int64, rows ...string) {
	t.Helper()
	if err := l.StoreRows(t.Context(), id, first, octets(rows)); err != nil {
		t.Fatal(err)
	}
}

func octets(rows []string) [][]byte {
	out := make([][]byte, len(rows))
	for i, row := range rows {
		out[i] = []byte(row)
	}
	return out
}

// numbered returns n rows that name themselves.
func numbered(first int64, n int) []string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`["org_%d","client"]`, first+int64(i))
	}
	return rows
}

func TestRowsAcrossChunks(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	all := numbered(0, 2500)
	store(t, l, "a", 2000, all[2000:]...) // in any order
	store(t, l, "a", 0, all[:1000]...)
	store(t, l, "a", 1000, all[1000:2000]...)
	tests := []struct {
		first int64
		n     int
		want  []string
	}{
		{0, 1, all[:1]},
		{0, 1000, all[:1000]},
		{999, 2, all[999:1001]},
		{1000, 1000, all[1000:2000]},
		{500, 1900, all[500:2400]},
		{0, 9999, all},
		{2499, 1, all[2499:]},
		{2499, 5, all[2499:]},
		{2500, 5, nil},
		{9000, 5, nil},
		{7, 0, nil},
	}
	for _, tt := range tests {
		got, err := l.Rows(t.Context(), "a", tt.first, tt.n)
		if diff := cmp.Diff(octets(tt.want), got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%d rows from %d: %v (-want +got):\n%s", tt.n, tt.first, err, diff)
		}
	}
	if n := rdb.HLen(t.Context(), "orgops:v1:{run:a}:rows").Val(); n != 3 {
		t.Errorf("stored as %d values, want 3", n)
	}
	plain := len(strings.Join(all[:1000], ""))
	if size := len(rdb.HGet(t.Context(), "orgops:v1:{run:a}:rows", "0").Val()); size > plain/2 {
		t.Errorf("%d bytes are stored as %d: not compressed", plain, size)
	}
}

func TestStoreRowsRefuses(t *testing.T) {
	stored := func(t *testing.T, l *runs.Ledger) { store(t, l, "a", 0, "x", "y") }
	sealed := func(t *testing.T, l *runs.Ledger) { stored(t, l); seal(t, l, "a", 2) }
	nothing := func(*testing.T, *runs.Ledger) {}
	tests := []struct {
		name   string
		before func(*testing.T, *runs.Ledger)
		first  int64
		rows   []string
		want   string // what the error says, or empty
	}{
		{"the same again", stored, 0, []string{"x", "y"}, ""},
		{"none", nothing, 0, nil, ""},
		{"other rows in their place", stored, 0, []string{"x", "z"}, "another content (existing: other rows, given: rows 0 to 1)"},
		{"the same bytes, cut otherwise", stored, 0, []string{"xy"}, "another content"},
		{"more rows in their place", stored, 0, []string{"x", "y", "z"}, "another content"},
		{"not at a chunk's beginning", nothing, 500, []string{"x"}, "from a multiple of that"},
		{"below nothing", nothing, -1000, []string{"x"}, "from a multiple of that"},
		{"beyond everything", nothing, runs.MaxRows, []string{"x"}, "below 100000000"},
		{"too many", nothing, 0, numbered(0, runs.ChunkRows+1), "at most 1000"},
		{"too long", nothing, 0, []string{strings.Repeat("x", 65<<20)}, "make the rows shorter"},
		{"within the total", sealed, 0, []string{"x", "y"}, ""},
		{"beyond the total", sealed, 0, []string{"x", "y", "z"}, "run a has 2 rows, not 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			tt.before(t, l)
			err := l.StoreRows(t.Context(), "a", tt.first, octets(tt.rows))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRowsTellsOfAGap(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	store(t, l, "a", 1000, "x")
	if _, err := l.Rows(t.Context(), "a", 0, 1); err == nil || !strings.Contains(err.Error(), "row 0 was never stored, though row 1000 was") {
		t.Errorf("a chunk missing: %v", err)
	}
	store(t, l, "a", 0, "x", "y")
	if _, err := l.Rows(t.Context(), "a", 0, 1001); err == nil || !strings.Contains(err.Error(), "row 2 was never stored") {
		t.Errorf("a chunk too short: %v", err)
	}
	if rows, err := l.Rows(t.Context(), "a", 1, 1); err != nil || len(rows) != 1 {
		t.Errorf("before the gap: %q, %v", rows, err)
	}
}

func TestRowsTellsOfDamage(t *testing.T) {
	for _, damage := range []func(value []byte) []byte{
		func(value []byte) []byte { return value[:20] },
		func(value []byte) []byte { return value[:len(value)-3] },
		func(value []byte) []byte { value[0] ^= 1; return value },
		func(value []byte) []byte { value[40] ^= 0x10; return value },
	} {
		l, rdb := newLedger(t)
		id := "a"
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default"}); err != nil {
			t.Fatal(err)
		}
		rdb.HDel(t.Context(), "orgops:v1:{run:a}:rows", "0")
		store(t, l, id, 0, numbered(0, 50)...)
		value, err := rdb.HGet(t.Context(), "orgops:v1:{run:a}:rows", "0").Bytes()
		if err != nil {
			t.Fatal(err)
		}
		rdb.HSet(t.Context(), "orgops:v1:{run:a}:rows", "0", damage(value))
		if _, err := l.Rows(t.Context(), id, 0, 50); err == nil || !strings.Contains(err.Error(), "stored chunk") {
			t.Errorf("got %v, want it to tell of the stored chunk", err)
		}
	}
}

func FuzzRowsComeBackAsTheyWere(f *testing.F) {
	f.Add([]byte("a,b\r\n\x00\xff"), []byte("\n"))
	f.Add([]byte(""), []byte(","))
	f.Add([]byte("\n\n\n"), []byte("\n"))
	f.Add(bytes.Repeat([]byte{0x80}, 300), []byte("x"))
	f.Fuzz(func(t *testing.T, text, cut []byte) {
		l, _ := newLedger(t)
		create(t, l, "a")
		rows := bytes.SplitN(text, cut, runs.ChunkRows)
		if err := l.StoreRows(t.Context(), "a", 0, rows); err != nil {
			t.Fatal(err)
		}
		got, err := l.Rows(t.Context(), "a", 0, runs.ChunkRows)
		if err != nil || len(got) != len(rows) {
			t.Fatalf("%d rows of %d, %v", len(got), len(rows), err)
		}
		for i := range rows {
			if !bytes.Equal(got[i], rows[i]) {
				t.Errorf("row %d: %q, want %q", i, got[i], rows[i])
			}
		}
		if err := l.StoreRows(t.Context(), "a", 0, append(rows[:len(rows)-1:len(rows)-1], append([]byte("x"), rows[len(rows)-1]...))); !errors.Is(err, runs.ErrMismatch) {
			t.Errorf("other rows: %v, want a mismatch", err)
		}
	})
}

// TestSearch: rows are found wherever they stand, also while the run is being
// submitted and a chunk before theirs is missing.
func TestSearch(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	for _, first := range []int64{0, 2000, 9000} {
		rows := make([][]byte, runs.ChunkRows)
		for i := range rows {
			rows[i] = fmt.Appendf(nil, `["o","dom_%d"]`, first+int64(i))
		}
		if err := l.StoreRows(t.Context(), "a", first, rows); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name    string
		needles []string
		want    []int64
	}{
		{"one", []string{`"dom_2345"`}, []int64{2345}},
		{"in several chunks", []string{`_999"`, `m_9999`, `dom_0`}, []int64{0, 999, 9999}},
		{"over the end of a row", []string{`"]["`}, nil},
		{"never stored", []string{"dom_1500"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var needles [][]byte
			for _, n := range tt.needles {
				needles = append(needles, []byte(n))
			}
			var got []int64
			for row, err := range l.Search(t.Context(), "a", needles...) {
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprintf(`["o","dom_%d"]`, row.Item); string(row.Source) != want {
					t.Errorf("row %d is %s", row.Item, row.Source)
				}
				got = append(got, row.Item)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, err := range l.Search(t.Context(), "none", []byte("x")) {
		if !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("in no run: %v", err)
		}
	}
}

func TestRow(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	settle(t, l, "a", "done", "", 0)
	settle(t, l, "a", "refused", "no: never", 1)
	settle(t, l, "a", "cancelled", "", 2)
	looked := func(item int64, evidence string) {
		t.Helper()
		if err := l.Looked(t.Context(), "a", item, 0, "not_yet: later", at, []byte(evidence), map[string][]byte{"record": []byte("kept")}); err != nil {
			t.Fatal(err)
		}
	}
	looked(3, "another")
	looked(3, "found")
	for item, outcome := range map[int64]string{5: "done", 6: "cancelled", 7: "expired"} {
		looked(item, "found")
		settle(t, l, "a", outcome, "", item)
	}
	looked(6, "too late")
	want := []runs.RowState{
		{Fate: &runs.Fate{Item: 0, Outcome: "done"}},
		{Fate: &runs.Fate{Item: 1, Outcome: "refused", Detail: "no: never"}},
		{Fate: &runs.Fate{Item: 2, Outcome: "cancelled"}},
		{Open: runs.OpenRow{Item: 3, Reason: "not_yet: later", Next: at}, Kept: []byte("kept"), Evidence: []byte("found")},
		{Open: runs.OpenRow{Item: 4}},
		{Fate: &runs.Fate{Item: 5, Outcome: "done"}},
		{Fate: &runs.Fate{Item: 6, Outcome: "cancelled"}},
		{Fate: &runs.Fate{Item: 7, Outcome: "expired"}, Evidence: []byte("found")},
	}
	for item, want := range want {
		got, err := l.Row(t.Context(), "a", int64(item), "record")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("row %d: %v (-want +got):\n%s", item, err, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"record": "kept"}, marks(t, l, "a", 3)); diff != "" {
		t.Errorf("a task is told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"3:evidence", "3:record"}, slices.Sorted(slices.Values(rdb.HKeys(t.Context(), "orgops:v1:{run:a}:kept").Val()))); diff != "" {
		t.Errorf("kept of rows, settled ones too (-want +got):\n%s", diff)
	}
}

// TestRowsFromAPlace holds that fates and open rows are told from any row on, and that
// this is the rest of all of them.
func TestRowsFromAPlace(t *testing.T) {
	l, _ := newLedger(t)
	const rows = 40
	create(t, l, "a")
	storeUpTo(t, l, "a", rows)
	seal(t, l, "a", rows)
	for item := int64(0); item < rows; item += 3 {
		settle(t, l, "a", "failed", "why", item)
	}
	for _, first := range []int64{-1, 0, 1, 7, 8, 9, 39, 40, 1000} {
		var fates, open []int64
		for f, err := range l.FatesFrom(t.Context(), "a", first) {
			if err != nil {
				t.Fatal(err)
			}
			fates = append(fates, f.Item)
		}
		for row, err := range l.OpenFrom(t.Context(), "a", first) {
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, row.Item)
		}
		var wantFates, wantOpen []int64
		for item := max(first, 0); item < rows; item++ {
			if item%3 == 0 {
				wantFates = append(wantFates, item)
			} else {
				wantOpen = append(wantOpen, item)
			}
		}
		if !slices.Equal(fates, wantFates) || !slices.Equal(open, wantOpen) {
			t.Errorf("from %d: fates %v, open %v; want %v and %v", first, fates, open, wantFates, wantOpen)
		}
	}
}
