package ledger

import (
	"slices"
	"strconv"
	"testing"

	"orgops/internal/redistest"
)

// TestEvenIncarnations inspects all 65,536 checksums that incarnations can have. Of those that are
// even it checks more segments than that takes, unless long tests run of one in seven.
func TestEvenIncarnations(t *testing.T) {
	t.Parallel()
	if sum := crc16(0, "123456789"); sum != 0x31C3 { // as in the specification of Redis Cluster
		t.Fatalf("crc16: %#x, want 0x31c3", sum)
	}
	all := numberSums(MaxSegments)
	for number, in := range spread(0x1234).ranges(all) {
		if want := spread(0x1234).slotRange(number); in != want {
			t.Fatalf("segment %d is in range %d, want %d", number, in, want)
		}
	}
	var even [evenRanges]int // by the range of segment 0
	found, stride := 0, redistest.Stride(7)
	for s := range 1 << 16 {
		s := spread(s)
		if !s.even() {
			continue
		}
		even[s.slotRange(0)]++
		if found++; found%stride > 0 {
			continue
		}
		if n := s.uneven(all); n > 0 {
			t.Errorf("checksum %#x: of %d segments one of 6 masters has more or less than the mean by more than 20 %%",
				uint16(s), n)
		}
	}
	t.Logf("even incarnations of 65536, by the range of segment 0: %v", even)
	for first, n := range even {
		if n < 100 { // a draw costs less than a microsecond unless it passes
			t.Errorf("segment 0 in range %d: %d of 65536 incarnations are even, want 100", first, n)
		}
	}
}

// uneven returns a number of segments, from evenFrom to MaxSegments, of which one of six
// masters has a share more than 20 % off the mean, or 0 if there is none. With three masters,
// each has two of the six ranges and deviates no more. sums are the checksums of all numbers.
func (s spread) uneven(sums []uint16) int {
	counts := make([]int, 6)
	for number, in := range s.ranges(sums) {
		counts[in]++
		if n := number + 1; n >= evenFrom && (10*6*slices.Min(counts) < 8*n || 10*6*slices.Max(counts) > 12*n) {
			return n
		}
	}
	return 0
}

// TestFirstSegmentsSpread checks that runs of one segment are spread too.
func TestFirstSegmentsSpread(t *testing.T) {
	t.Parallel()
	const runs = 2000
	counts := make([]int, evenRanges)
	for range runs {
		inc := newIncarnation()
		if !spreadOf(inc).even() {
			t.Fatalf("incarnation %s is not even", inc)
		}
		counts[spreadOf(inc).slotRange(0)]++
	}
	for i, n := range counts {
		if mean := runs / evenRanges; n < mean*3/4 || n > mean*5/4 { // five standard deviations
			t.Errorf("segment 0 of %d of %d runs is in range %d: want %d within 25 %%", n, runs, i, mean)
		}
	}
}

// TestRunsSpreadOverMasters creates runs with as many segments as a million rows have, on a
// Cluster of six masters. By chance seven of ten runs would fail.
func TestRunsSpreadOverMasters(t *testing.T) {
	t.Parallel()
	const runs, segments, masters = 8, 123, 6
	cluster := redistest.StartCluster(t, masters, 0)
	l := New(cluster.Client())
	for i := range runs {
		id := RunID("run-" + strconv.Itoa(i))
		run, _, err := l.Create(t.Context(), NewRun{ID: id, Tenant: "acme", Kind: "domain:update"})
		if err != nil {
			t.Fatal(err)
		}
		for number := range segments {
			if _, err := l.Stage(t.Context(), run, number, number == segments-1, [][]byte{[]byte("row")}); err != nil {
				t.Fatal(err)
			}
		}
		var have []int
		for _, node := range cluster.Nodes {
			heads, err := node.Client().Keys(t.Context(), prefix+"{"+string(run.Incarnation)+".*}:head").Result()
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, len(heads))
		}
		t.Logf("segments of %s on each master: %v", id, have)
		if 5*masters*slices.Min(have) < 4*segments || 5*masters*slices.Max(have) > 6*segments {
			t.Errorf("segments of %s on each master: %v: want %d/%d within 20 %%", id, have, segments, masters)
		}
	}
}

func BenchmarkNewIncarnation(b *testing.B) {
	for b.Loop() {
		newIncarnation()
	}
}
