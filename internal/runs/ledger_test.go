package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

func TestCreateStoresEveryMember(t *testing.T) {
	l, _ := newLedger(t)
	want := runs.Run{
		ID: "2026-11-20_a", Kind: "clients:remove", Tenant: "acme", Label: "spring\tcleaning", Digest: "ab12", Format: "csv",
		Parent: "before", Columns: []string{"organization_id", "client_id"},
		CreatedAt: time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.UTC),
	}
	got, created, err := l.Create(t.Context(), want)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	want.Label = `spring\tcleaning`
	want.First, want.Generation, want.Floor = got.First, got.First, got.First
	if got.First <= 0 {
		t.Errorf("the first generation is %d", got.First)
	}
	want.Counts = map[string]int64{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, get(t, l, want.ID)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestCreateTakesRedisTime(t *testing.T) {
	m := redistest.Mini(t)
	l, _ := newLedger(t)
	now := time.Date(2031, 1, 2, 3, 4, 5, 678e6, time.UTC)
	m.SetTime(now)
	create(t, l, "a")
	if got := get(t, l, "a").CreatedAt; !got.Equal(now) {
		t.Errorf("created at %v, want %v", got, now)
	}
}

func TestCreateAgain(t *testing.T) {
	first := runs.Run{ID: "a", Kind: kind, Tenant: "default", Digest: "d1"}
	tests := []struct {
		name   string
		change func(*runs.Run)
		member string // of the mismatch, or empty
	}{
		{"the same", func(*runs.Run) {}, ""},
		{"another label", func(r *runs.Run) { r.Label = "other" }, ""},
		{"another kind", func(r *runs.Run) { r.Kind = "domain:update" }, "kind"},
		{"another tenant", func(r *runs.Run) { r.Tenant = "acme" }, "tenant"},
		{"another digest", func(r *runs.Run) { r.Digest = "d2" }, "content"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			if _, _, err := l.Create(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			settle(t, l, "a", "done", "", 0)
			again := first
			tt.change(&again)
			got, created, err := l.Create(t.Context(), again)
			if created {
				t.Error("created it twice")
			}
			if tt.member == "" {
				if err != nil || got.Settled != 1 || got.Label != "" {
					t.Errorf("got %+v, %v; want the run as it stands", got, err)
				}
				return
			}
			mismatch, ok := errors.AsType[*runs.MismatchError](err)
			if !ok || !errors.Is(err, runs.ErrMismatch) || mismatch.Member != tt.member || mismatch.Run != "a" {
				t.Errorf("got %v, want a mismatch of %s", err, tt.member)
			}
		})
	}
}

func TestCreateIsAtomic(t *testing.T) {
	l, _ := newLedger(t)
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, created, err := l.Create(t.Context(), runs.Run{ID: "a", Kind: kind, Tenant: "default"})
			if err != nil {
				t.Error(err)
			}
			if created {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d callers were told that they had created it, want 1", made.Load())
	}
}

func TestCreateRefuses(t *testing.T) {
	tests := []struct {
		name string
		run  runs.Run
		want string
	}{
		{"no id", runs.Run{Kind: kind, Tenant: "t"}, `run id "": want 1 to 64 letters, digits, - or _`},
		{"an id that breaks out of the hash tag", runs.Run{ID: "a}b", Kind: kind, Tenant: "t"}, `run id "a}b": want`},
		{"an id with a line break", runs.Run{ID: "a\n", Kind: kind, Tenant: "t"}, `run id "a\n": want`},
		{"an id of 65", runs.Run{ID: strings.Repeat("a", 65), Kind: kind, Tenant: "t"}, "run id"},
		{"no kind", runs.Run{ID: "a", Tenant: "t"}, "no kind"},
		{"no tenant", runs.Run{ID: "a", Kind: kind}, "no tenant"},
		{"a format unknown", runs.Run{ID: "a", Kind: kind, Tenant: "t", Format: "xml"}, `format "xml": want csv or jsonl`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			_, _, err := l.Create(t.Context(), tt.run)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestNothingIsFoundOfARunThatIsNotThere(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"Get":         func() error { _, err := l.Get(ctx, "a"); return err },
		"Seal":        func() error { return l.Seal(ctx, "a", 1) },
		"Settle":      func() error { return l.Settle(ctx, "a", kind, 0, []int64{0}, "done", "") },
		"Settle none": func() error { return l.Settle(ctx, "a", kind, 0, nil, "done", "") },
		"Settled":     func() error { _, err := l.Settled(ctx, "a", []int64{0}); return err },
		"Standing":    func() error { _, _, _, err := l.Standing(ctx, "a", "domain:verify", 0, []int64{0}); return err },
		"Note":        func() error { return l.Note(ctx, "a", 0, []int64{0}, "why", time.Time{}) },
		"Looked":      func() error { return l.Looked(ctx, "a", 0, 0, "why", time.Time{}, nil, nil) },
		"Begin":       func() error { _, err := l.Begin(ctx, "a", 0, 0, "intent", nil, nil); return err },
		"StoreRows":   func() error { return l.StoreRows(ctx, "a", 0, [][]byte{[]byte("x")}) },
		"Rows":        func() error { _, err := l.Rows(ctx, "a", 0, 1); return err },
		"Repair":      func() error { return l.Repair(ctx, "a") },
		"NoteLost":    func() error { return l.NoteLost(ctx, "a", 1, false) },
		"Marked":      func() error { _, _, err := l.Marked(ctx, "a", "intent", []int64{0}); return err },
		"OpenRows":    func() error { _, err := l.OpenRows(ctx, "a", 1); return err },
		"Fates": func() error {
			for _, err := range l.Fates(ctx, "a") {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
	if keys := redistest.Keys(t, "orgops:v1:{run:*"); len(keys) > 0 {
		t.Errorf("refused calls left keys behind: %v", keys)
	}
}

func TestSeal(t *testing.T) {
	tests := []struct {
		name   string
		before func(*testing.T, *runs.Ledger)
		total  int64
		want   string // what the error says, or empty
	}{
		{"again", func(t *testing.T, l *runs.Ledger) { seal(t, l, "a", 5) }, 5, ""},
		{"again with another total", func(t *testing.T, l *runs.Ledger) { seal(t, l, "a", 5) }, 6, "run a has 5 rows, not 6"},
		{"below what is stored", func(t *testing.T, l *runs.Ledger) { store(t, l, "a", 0, "x", "y") }, 1, "run a has 2 rows, not 1"},
		{"at a row that is settled", func(t *testing.T, l *runs.Ledger) { settle(t, l, "a", "done", "", 6) }, 6, "no row 6"},
		{"far below a row that is settled", func(t *testing.T, l *runs.Ledger) { settle(t, l, "a", "done", "", 4711) }, 6, "no row 4711"},
		{"just above a row that is settled", func(t *testing.T, l *runs.Ledger) { storeUpTo(t, l, "a", 7); settle(t, l, "a", "done", "", 6) }, 7, ""},
		{"at an byte's edge", func(t *testing.T, l *runs.Ledger) { storeUpTo(t, l, "a", 8); settle(t, l, "a", "done", "", 7) }, 8, ""},
		{"above what is stored", func(t *testing.T, l *runs.Ledger) { storeUpTo(t, l, "a", 7) }, 8, "from row 7 on: rows that were submitted are lost"},
		{"above all that is stored", func(t *testing.T, l *runs.Ledger) { storeUpTo(t, l, "a", runs.ChunkRows) }, runs.ChunkRows + 1, "from row 1000 on"},
		{"with nothing stored", func(*testing.T, *runs.Ledger) {}, 1, "from row 0 on"},
		{"below nothing", func(*testing.T, *runs.Ledger) {}, -1, "want 0 to"},
		{"above everything", func(*testing.T, *runs.Ledger) {}, runs.MaxRows + 1, "want 0 to"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			tt.before(t, l)
			err := l.Seal(t.Context(), "a", tt.total)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
			if tt.want == "" && (!get(t, l, "a").Sealed || get(t, l, "a").Total != tt.total) {
				t.Errorf("got %+v, want it sealed with %d", get(t, l, "a"), tt.total)
			}
		})
	}
}

func TestARunEndsWhenSealedAndSettled(t *testing.T) {
	tests := []struct {
		name  string
		steps []func(*testing.T, *runs.Ledger)
	}{
		{"the last row last", []func(*testing.T, *runs.Ledger){
			func(t *testing.T, l *runs.Ledger) { settle(t, l, "a", "done", "", 0) },
			func(t *testing.T, l *runs.Ledger) { seal(t, l, "a", 2) },
			func(t *testing.T, l *runs.Ledger) { settle(t, l, "a", "refused", "why", 1) },
		}},
		{"the seal last", []func(*testing.T, *runs.Ledger){
			func(t *testing.T, l *runs.Ledger) { settle(t, l, "a", "done", "", 0, 1) },
			func(t *testing.T, l *runs.Ledger) { seal(t, l, "a", 2) },
		}},
		{"no rows at all", []func(*testing.T, *runs.Ledger){
			func(t *testing.T, l *runs.Ledger) { seal(t, l, "a", 0) },
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, rdb := newLedger(t)
			create(t, l, "a")
			for i, step := range tt.steps {
				if r := get(t, l, "a"); r.Ended() {
					t.Fatalf("before step %d: %+v, want it open", i, r)
				}
				step(t, l)
			}
			r := get(t, l, "a")
			if !r.Ended() || r.Settled != r.Total {
				t.Errorf("got %+v, want it ended", r)
			}
			if ttl := rdb.PTTL(t.Context(), "orgops:v1:{run:a}:run").Val(); ttl <= runs.Retention-time.Hour || ttl > runs.Retention {
				t.Errorf("it is kept for another %v, want %v", ttl, runs.Retention)
			}
		})
	}
}

func TestSealAndSettleAtOnce(t *testing.T) {
	l, _ := newLedger(t)
	for i := range 20 {
		id := fmt.Sprintf("run-%d", i)
		create(t, l, id)
		storeUpTo(t, l, id, 4)
		var wg sync.WaitGroup
		for item := range int64(4) {
			wg.Go(func() {
				if err := l.Settle(t.Context(), id, kind, 0, []int64{item}, "done", ""); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := l.Seal(t.Context(), id, 4); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if r := get(t, l, id); !r.Ended() {
			t.Fatalf("got %+v, want it ended", r)
		}
	}
}

func TestAnEndedRunIsForgotten(t *testing.T) {
	m := redistest.Mini(t)
	l, rdb := newLedger(t)
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	m.SetTime(start)
	for _, id := range []string{"ended", "open"} {
		create(t, l, id)
		store(t, l, id, 0, "x", "y", "z")
		keep(t, l, id, 2, "intent", "x")
		if err := l.Note(t.Context(), id, 0, []int64{2}, "not there", start); err != nil {
			t.Fatal(err)
		}
		begin(t, l, id, 2, "x")
		settle(t, l, id, "cancelled", "by you", 0)
		settle(t, l, id, "refused", "404", 1)
		seal(t, l, id, 3)
	}
	settle(t, l, "ended", "done", "", 2)

	// Late writes, which create keys anew, must not outlive the run.
	keep(t, l, "ended", 2, "intent", "x")
	for _, key := range rdb.Keys(t.Context(), "orgops:v1:{run:ended}:*").Val() {
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl != runs.Retention {
			t.Errorf("%s is kept for another %v, want %v", key, ttl, runs.Retention)
		}
	}
	if n := len(rdb.Keys(t.Context(), "orgops:v1:{run:open}:*").Val()); n != 10 {
		t.Errorf("the open run has %d keys, want all 10 for this test to mean something", n)
	}

	m.SetTime(start.Add(runs.Retention - time.Second))
	if !get(t, l, "ended").Ended() {
		t.Error("a second too early: it should still be there")
	}
	m.SetTime(start.Add(runs.Retention + time.Second))
	if _, err := l.Get(t.Context(), "ended"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if keys := rdb.Keys(t.Context(), "orgops:v1:{run:ended}:*").Val(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
	if n := len(rdb.Keys(t.Context(), "orgops:v1:{run:open}:*").Val()); n != 10 {
		t.Errorf("the open run has %d keys left of 10", n)
	}
	list, err := l.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "open" {
		t.Errorf("listed %v, %v; want the open run", list, err)
	}
	if ids := rdb.ZRange(t.Context(), "orgops:v1:runs", 0, -1).Val(); !slices.Equal(ids, []string{"open"}) {
		t.Errorf("the index has %v, want it trimmed", ids)
	}
}

func TestListIsNewestFirst(t *testing.T) {
	l, _ := newLedger(t)
	if list, err := l.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("an empty ledger lists %v, %v", list, err)
	}
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for i, id := range []string{"middle", "newest", "oldest"} {
		created := at.Add([]time.Duration{0, time.Minute, -time.Minute}[i])
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default", CreatedAt: created}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := l.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []runs.Run{{ID: "newest"}, {ID: "middle"}, {ID: "oldest"}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(runs.Run{}, "Kind", "Tenant", "CreatedAt", "Counts", "First", "Generation", "Floor")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnsettled(t *testing.T) {
	l, rdb := newLedger(t)
	for _, id := range []string{"unsealed", "sealed", "another", "ended"} {
		create(t, l, id)
	}
	seal(t, l, "sealed", 2)
	seal(t, l, "another", 2)
	seal(t, l, "ended", 1)
	settle(t, l, "ended", "done", "", 0)
	if err := l.Seal(t.Context(), "never-was", 1); !errors.Is(err, runs.ErrNotFound) {
		t.Fatal(err)
	}
	for range 2 {
		got, err := l.Unsettled(t.Context())
		if diff := cmp.Diff([]string{"another", "sealed"}, got); diff != "" || err != nil {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
	}
	if n := rdb.SCard(t.Context(), "orgops:v1:runs:sealed").Val(); n != 2 {
		t.Errorf("%d runs are looked at each time, want 2", n)
	}
	settle(t, l, "sealed", "done", "", 0, 1)
	settle(t, l, "another", "done", "", 0, 1)
	for range 2 {
		if got, err := l.Unsettled(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("got %v, %v; want none", got, err)
		}
	}
}

func TestEveryKeyOfARunIsInItsSlot(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	store(t, l, "a", 0, "x")
	settle(t, l, "a", "cancelled", "why", 0)
	for _, key := range redistest.Keys(t, "*") {
		index := slices.Contains([]string{"orgops:v1:runs", "orgops:v1:runs:sealed", "orgops:v1:runs:untold"}, key)
		if !index && !strings.HasPrefix(key, "orgops:v1:{run:a}:") {
			t.Errorf("key %s", key)
		}
	}
}

func TestErrorsSayWhatWasAskedWhenRedisIsGone(t *testing.T) {
	m := redistest.Mini(t)
	l, _ := newLedger(t)
	create(t, l, "a")
	m.SetError("LOADING Redis is loading the dataset in memory")
	err := l.Settle(t.Context(), "a", kind, 0, []int64{0, 1}, "done", "")
	if err == nil || !strings.HasPrefix(err.Error(), "run a: settle 2 rows as done: ") {
		t.Errorf("got %v", err)
	}
	m.SetError("")
	if got := get(t, l, "a").Settled; got != 0 {
		t.Errorf("%d rows settled, want none", got)
	}
}

// TestNotes: of many notes some are enough, each once, and all are counted.
func TestNotes(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	const noted = 5000
	items := make([]int64, noted)
	for i := range items {
		items[i] = int64(i)
	}
	if err := l.Note(t.Context(), "a", 0, items, "why", time.Time{}); err != nil {
		t.Fatal(err)
	}
	rows, total, err := l.Notes(t.Context(), "a", 2000)
	if err != nil || total != noted || len(rows) < 2000 {
		t.Errorf("%d of %d, %v", len(rows), total, err)
	}
	seen := map[int64]bool{}
	for _, row := range rows {
		if seen[row.Item] || row.Reason != "why" {
			t.Fatalf("row %+v, seen before: %v", row, seen[row.Item])
		}
		seen[row.Item] = true
	}
	if rows, total, err := l.Notes(t.Context(), "none", 1); len(rows) != 0 || total != 0 || err != nil {
		t.Errorf("of no run: %v, %d, %v", rows, total, err)
	}
}

// TestKeepFor: a run that says how long it is kept is kept for that long, whatever
// is written last.
func TestKeepFor(t *testing.T) {
	l, rdb := newLedger(t)
	const week = 7 * 24 * time.Hour
	if _, _, err := l.Create(t.Context(), runs.Run{ID: "a", Kind: kind, Tenant: "default", KeepFor: week}); err != nil {
		t.Fatal(err)
	}
	store(t, l, "a", 0, "x")
	seal(t, l, "a", 1)
	settle(t, l, "a", "refused", "404", 0)
	if r := get(t, l, "a"); r.KeepFor != week || !r.Ended() {
		t.Errorf("kept for %v, ended %v", r.KeepFor, r.Ended())
	}
	for _, key := range rdb.Keys(t.Context(), "orgops:v1:{run:a}:*").Val() {
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= week-time.Hour || ttl > week {
			t.Errorf("%s is kept for another %v, want %v", key, ttl, week)
		}
	}
}
