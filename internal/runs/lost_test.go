package runs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// TestSealNoticesAGap: a chunk that Redis has forgotten while it kept later ones is
// noticed, and handing it in again heals it.
func TestSealNoticesAGap(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	storeUpTo(t, l, "a", 2500)
	if err := rdb.HDel(t.Context(), "orgops:v1:{run:a}:rows", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	err := l.Seal(t.Context(), "a", 2500)
	if !errors.Is(err, runs.ErrGap) || !strings.Contains(err.Error(), "from row 1000 on") {
		t.Fatalf("got %v, want ErrGap from row 1000 on", err)
	}
	if r := get(t, l, "a"); r.Sealed {
		t.Error("it is sealed all the same")
	}
	if err := l.StoreRows(t.Context(), "a", 1000, make([][]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := l.Seal(t.Context(), "a", 2500); err != nil || !get(t, l, "a").Sealed {
		t.Errorf("after it was stored again: %v", err)
	}
}

// TestRepairRaisesTheGenerationOnce: whoever repairs while that goes on, or after
// the one before has died, does it in the same generation.
func TestRepairRaisesTheGenerationOnce(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	repair := func(generation int, repairing bool) {
		t.Helper()
		if err := l.Repair(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if r := get(t, l, "a"); r.Generation-r.First != generation || r.Repairing() != repairing {
			t.Errorf("generation %d with floor %d, repairing %v; want %d, %v", r.Generation-r.First, r.Floor-r.First, r.Repairing(), generation, repairing)
		}
	}
	resumed := func(n int) {
		t.Helper()
		if err := l.Resumed(t.Context(), "a", generation(t, l, "a", n)); err != nil {
			t.Fatal(err)
		}
	}
	repair(1, true)
	repair(1, true)
	resumed(1)
	repair(2, true)
	resumed(1) // of one that was late
	repair(2, true)
	resumed(2)

	// A repair that is cut short by a pause is the resume's business.
	repair(3, true)
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := l.Repair(t.Context(), "a"); !errors.Is(err, runs.ErrPaused) {
		t.Errorf("paused: %v, want ErrPaused", err)
	}
	if todo, err := l.Resume(t.Context(), "a"); err != nil || !todo {
		t.Fatal(todo, err)
	}
	repair(4, false) // it goes on with the resume, whose generation is the floor
	resumed(4)
	repair(5, true)
	resumed(5)
	if r := get(t, l, "a"); r.Floor-r.First != 4 || r.Resuming {
		t.Errorf("floor %d, resuming %v; want 4, which is that of the resume", r.Floor-r.First, r.Resuming)
	}
}

func TestRepairRefuses(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	if err := l.Repair(t.Context(), "a"); !errors.Is(err, runs.ErrUnsealed) {
		t.Errorf("while it is submitted: %v, want ErrUnsealed", err)
	}
	seal(t, l, "a", 1)
	settle(t, l, "a", "done", "", 0)
	if err := l.Repair(t.Context(), "a"); !errors.Is(err, runs.ErrEnded) {
		t.Errorf("after its end: %v, want ErrEnded", err)
	}
}

// TestRepairDropsNothing: what still stands goes on beside what was put back; a
// resume drops both.
func TestRepairDropsNothing(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	want := func(drops ...string) {
		t.Helper()
		for n, want := range drops {
			if _, _, drop, err := l.Standing(t.Context(), "a", kind, generation(t, l, "a", n), []int64{0}); err != nil || drop != want {
				t.Errorf("a task of generation %d: %q, %v; want %q", n, drop, err, want)
			}
		}
	}
	want("")
	if err := l.Repair(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want("", "")
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resume(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want(runs.DropSuperseded, runs.DropSuperseded, "")
}

// TestOpenByTenant counts runs in each state that a run can be in.
func TestOpenByTenant(t *testing.T) {
	l, _ := newLedger(t)
	of := func(tenant, id string) {
		t.Helper()
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: tenant}); err != nil {
			t.Fatal(err)
		}
	}
	of("a", "under-way") // its producer has stored 1,500 rows
	storeUpTo(t, l, "under-way", 1500)
	of("a", "sealed")
	seal(t, l, "sealed", 10)
	settle(t, l, "sealed", "done", "", 0, 1, 2)
	of("a", "ended")
	seal(t, l, "ended", 1)
	settle(t, l, "ended", "done", "", 0)
	of("b", "told") // ended, and told so
	seal(t, l, "told", 1)
	settle(t, l, "told", "done", "", 0)
	if err := l.Told(t.Context(), "told"); err != nil {
		t.Fatal(err)
	}
	submitRow(t, l, ledger.NewRun{ID: "single", Kind: updates, Tenant: "c"}, `{}`)
	settled := submitRow(t, l, ledger.NewRun{ID: "settled", Kind: updates, Tenant: "c"}, `{}`)
	settled.end(0, done())
	if err := l.NoteLost(t.Context(), "sealed", 4, false); err != nil {
		t.Fatal(err)
	}
	got, err := l.OpenByTenant(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]runs.Open{"a": {Runs: 2, Rows: 1507, Lost: 4}, "c": {Runs: 1, Rows: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
}

// BenchmarkOpenByTenant is what a scrape costs with a thousand open runs.
func BenchmarkOpenByTenant(b *testing.B) {
	l := runs.New(redistest.New(b))
	for i := range 1000 {
		if _, _, err := l.Create(b.Context(), runs.Run{ID: fmt.Sprint("run-", i), Kind: "domain:verify", Tenant: "default"}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if open, err := l.OpenByTenant(b.Context()); err != nil || open["default"].Runs != 1000 {
			b.Fatalf("%v, %v", open, err)
		}
	}
}

func TestLostRowsAreNoted(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 9)
	note := func(rows int64) {
		t.Helper()
		if err := l.NoteLost(t.Context(), "a", rows, false); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, rows int64) {
		t.Helper()
		if r := get(t, l, "a"); r.Lost != rows || r.LostAt.IsZero() != (rows == 0) {
			t.Errorf("%s: %d lost at %v, want %d", when, r.Lost, r.LostAt, rows)
		}
	}
	note(7)
	want("noted", 7)
	open, err := l.OpenByTenant(t.Context())
	if diff := cmp.Diff(map[string]int64{"default": 7}, map[string]int64{"default": open["default"].Lost}); err != nil || diff != "" {
		t.Errorf("by tenant: %v (-want +got):\n%s", err, diff)
	}
	note(0)
	want("there again", 0)
	note(7)
	if err := l.Repair(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want("while it is repaired", 7)
	if err := l.Resumed(t.Context(), "a", generation(t, l, "a", 1)); err != nil {
		t.Fatal(err)
	}
	want("repaired", 0)
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	note(7)
	want("paused", 0)
}

func TestSilentProducer(t *testing.T) {
	m := redistest.Mini(t)
	l, _ := newLedger(t)
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	m.SetTime(start)
	create(t, l, "a")
	want := func(after time.Duration, want time.Time) {
		t.Helper()
		if got := get(t, l, "a").SilentSince(start.Add(after)); !got.Equal(want) {
			t.Errorf("%v after its creation: silent since %v, want %v", after, got, want)
		}
	}
	want(4*time.Minute, time.Time{})
	want(5*time.Minute, start)
	m.SetTime(start.Add(4 * time.Minute))
	store(t, l, "a", 0, numbered(0, runs.ChunkRows)...)
	want(8*time.Minute, time.Time{})
	want(9*time.Minute, start.Add(4*time.Minute))
	m.SetTime(start.Add(time.Hour)) // by a producer that is run again
	store(t, l, "a", 0, numbered(0, runs.ChunkRows)...)
	want(64*time.Minute, time.Time{})
	seal(t, l, "a", runs.ChunkRows)
	want(24*time.Hour, time.Time{})
}

func TestOpenWindows(t *testing.T) {
	const total = 520_037
	l, rdb := newLedger(t)
	create(t, l, "a")
	// All are settled but a few rows at the windows' and the pages' edges.
	settled := bytes.Repeat([]byte{0xff}, total/8+1)
	for _, item := range []int64{0, 9_999, 249_999, 250_000, 250_001, 499_999, 500_000, total - 1} {
		settled[item/8] &^= 0x80 >> (item % 8)
	}
	if err := rdb.Set(t.Context(), "orgops:v1:{run:a}:settled", settled, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64][]runs.OpenWindow{
		10_000: {
			{First: 0, Past: 10_000, Open: []int64{0, 9_999}},
			{First: 240_000, Past: 250_000, Open: []int64{249_999}},
			{First: 250_000, Past: 260_000, Open: []int64{250_000, 250_001}},
			{First: 490_000, Past: 500_000, Open: []int64{499_999}},
			{First: 500_000, Past: 510_000, Open: []int64{500_000}},
			{First: 520_000, Past: total, Open: []int64{total - 1}},
		},
		1000: {
			{First: 0, Past: 1000, Open: []int64{0}},
			{First: 9_000, Past: 10_000, Open: []int64{9_999}},
			{First: 249_000, Past: 250_000, Open: []int64{249_999}},
			{First: 250_000, Past: 251_000, Open: []int64{250_000, 250_001}},
			{First: 499_000, Past: 500_000, Open: []int64{499_999}},
			{First: 500_000, Past: 501_000, Open: []int64{500_000}},
			{First: 520_000, Past: total, Open: []int64{total - 1}},
		},
	} {
		var got []runs.OpenWindow
		for w, err := range l.OpenWindows(t.Context(), "a", total, size) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, w)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("windows of %d (-want +got):\n%s", size, diff)
		}
	}
}

func TestMarked(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	ask := func() ([]bool, []string) {
		t.Helper()
		settled, marks, err := l.Marked(t.Context(), "a", "next_look", []int64{0, 1, 2})
		if err != nil {
			t.Fatal(err)
		}
		return settled, marks
	}
	settle(t, l, "a", "done", "", 0)
	settled, marks := ask()
	if diff := cmp.Diff([]bool{true, false, false}, settled) + cmp.Diff([]string{"", "", ""}, marks); diff != "" {
		t.Errorf("without a mark (-want +got):\n%s", diff)
	}
	for item, mark := range map[int64]string{1: "a-1-0.1", 2: "a-2-0.7"} {
		keep(t, l, "a", item, "next_look", mark)
	}
	keep(t, l, "a", 1, "record", "another")
	settle(t, l, "a", "done", "", 2)
	settled, marks = ask()
	if diff := cmp.Diff([]bool{true, false, true}, settled) + cmp.Diff([]string{"", "a-1-0.1", ""}, marks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneTurnAtATime(t *testing.T) {
	m := redistest.Mini(t)
	l, _ := newLedger(t)
	turns := func() (got int) {
		for range 3 {
			mine, err := l.TakeTurn(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if mine {
				got++
			}
		}
		return got
	}
	if got := turns(); got != 1 {
		t.Errorf("%d of three had the turn, want one", got)
	}
	m.FastForward(time.Minute)
	if got := turns(); got != 1 {
		t.Errorf("a minute later %d had it, want one", got)
	}
}
