package ledger

import (
	"bytes"
	"slices"
	"testing"
)

func TestChunksGetFewerRowsIfRowsAreLarge(t *testing.T) {
	tests := []struct{ size, rows, per int }{
		{0, 300, 128}, {50, 300, 128}, {600, 300, 64}, {5 << 10, 300, 8}, {1 << 20, 2, 1},
	}
	for _, tt := range tests {
		p, err := pack(slices.Repeat([][]byte{make([]byte, tt.size)}, tt.rows))
		if err != nil || p.per != tt.per || len(p.chunks) != (tt.rows+tt.per-1)/tt.per {
			t.Errorf("%d rows of %d bytes: %d rows in each of %d chunks, %v; want %d", tt.rows, tt.size, p.per,
				len(p.chunks), err, tt.per)
		}
	}
}

func TestSumTellsRowsApart(t *testing.T) {
	seen := map[Sum]int{}
	for i, rows := range [][][]byte{
		{[]byte("ab")}, {[]byte("a"), []byte("b")}, {[]byte("ab"), nil}, {nil, []byte("ab")}, {nil}, {[]byte("\x01a\x01b")},
	} {
		p, err := pack(rows)
		if err != nil {
			t.Fatal(err)
		}
		if former, ok := seen[p.sum]; ok {
			t.Errorf("inputs %d and %d have the same sum", former, i)
		}
		seen[p.sum] = i
	}
}

func TestPackRefuses(t *testing.T) {
	for name, rows := range map[string][][]byte{
		"no rows": nil, "too many": make([][]byte, SegmentRows+1), "a large row": {make([]byte, MaxRow+1)},
	} {
		if _, err := pack(rows); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

func TestSum(t *testing.T) {
	for _, want := range []Sum{{Rows: 8192, Digest: [16]byte{1}}, {Rows: 1, Digest: [16]byte{15: 9}}} {
		if got, err := parseSum(want.stored()); err != nil || got != want {
			t.Errorf("sum %v, %v, want %v", got, err, want)
		}
	}
	if _, err := parseSum(Sum{}.stored()[1:]); err == nil {
		t.Error("a sum that is cut short: want an error")
	}
}

// FuzzRows checks that packed rows are unpacked unchanged, and that other input is an error at
// most. The input is divided at each newline.
func FuzzRows(f *testing.F) {
	f.Add([]byte("a,b\nc,d\n"))
	f.Add([]byte("\n\n"))
	f.Add(bytes.Repeat([]byte("org_1,dom_1\n"), 300))
	f.Fuzz(func(t *testing.T, input []byte) {
		if _, err := unpackChunk(input); err == nil && len(input) < 4 {
			t.Error("a chunk that is cut short was read")
		}
		rows := bytes.Split(input, []byte("\n"))
		if len(rows) > SegmentRows {
			return
		}
		p, err := pack(rows)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]byte
		for _, chunk := range p.chunks {
			some, err := unpackChunk(chunk)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, some...)
		}
		if !slices.EqualFunc(got, rows, bytes.Equal) {
			t.Errorf("rows %q, want %q", got, rows)
		}
		damaged := bytes.Clone(p.chunks[0])
		damaged[0] ^= 1
		if _, err := unpackChunk(damaged); err == nil {
			t.Error("a damaged chunk was read")
		}
	})
}
