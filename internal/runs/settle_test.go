package runs_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

func TestSettleCountsARowOnce(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 100)
	all := make([]int64, 100)
	for i := range all {
		all[i] = int64(i)
	}
	// Eight workers settle all of the rows, in windows that overlap, in two
	// directions, each row twice in a call, and all of it twice.
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for range 2 {
				for window := range slices.Chunk(all, 7+worker) {
					items := slices.Concat(window, window)
					if worker%2 == 1 {
						slices.Reverse(items)
					}
					if err := l.Settle(t.Context(), "a", kind, 0, items, "done", ""); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	r := get(t, l, "a")
	if r.Settled != 100 || r.Counts["done"] != 100 || !r.Ended() {
		t.Errorf("got %+v, want 100 rows settled as done, and the end", r)
	}
	settle(t, l, "a", "done", "", all...)
	if again := get(t, l, "a"); !cmp.Equal(r, again) {
		t.Errorf("once more changed it (-before +after):\n%s", cmp.Diff(r, again))
	}
}

func TestTwoSettlementsOfARowRace(t *testing.T) {
	for range 20 {
		l, _ := newLedger(t)
		id := "a"
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default"}); err != nil {
			t.Fatal(err)
		}
		before := get(t, l, id)
		item := before.Settled // the next row each time round
		var wg sync.WaitGroup
		for _, outcome := range []string{"refused", "failed"} {
			wg.Go(func() {
				if err := l.Settle(t.Context(), id, kind, 0, []int64{item}, outcome, "by "+outcome); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r := get(t, l, id)
		if r.Settled != item+1 || r.Counts["refused"]+r.Counts["failed"] != item+1 {
			t.Fatalf("got %+v, want one row more counted once", r)
		}
		last := fates(t, l, id)[item]
		if last.Detail != "by "+last.Outcome || r.Counts[last.Outcome] == before.Counts[last.Outcome] {
			t.Fatalf("kept %+v, counted %v after %v", last, r.Counts, before.Counts)
		}
	}
}

func TestTheFirstOutcomeStands(t *testing.T) {
	type step struct{ outcome, detail string }
	tests := []struct {
		name   string
		steps  []step
		counts map[string]int64
		fates  []runs.Fate
	}{
		{"done", []step{{"done", ""}}, map[string]int64{"done": 1}, nil},
		{"done with an id", []step{{"done", "vct_1"}}, map[string]int64{"done": 1}, []runs.Fate{{Item: 3, Outcome: "done", Detail: "vct_1"}}},
		{"unchanged", []step{{"unchanged", ""}}, map[string]int64{"unchanged": 1}, []runs.Fate{{Item: 3, Outcome: "unchanged"}}},
		{"a detail with colons", []step{{"failed", "a:b:c"}}, map[string]int64{"failed": 1}, []runs.Fate{{Item: 3, Outcome: "failed", Detail: "a:b:c"}}},
		{"done, then refused", []step{{"done", ""}, {"refused", "404"}}, map[string]int64{"done": 1}, nil},
		{"refused, then done", []step{{"refused", "404"}, {"done", ""}}, map[string]int64{"refused": 1}, []runs.Fate{{Item: 3, Outcome: "refused", Detail: "404"}}},
		{"done, then cancelled", []step{{"done", ""}, {"cancelled", ""}}, map[string]int64{"done": 1}, nil},
		{"cancelled", []step{{"cancelled", ""}}, map[string]int64{"cancelled": 1}, []runs.Fate{{Item: 3, Outcome: "cancelled"}}},
		{"cancelled with a reason", []step{{"cancelled", "by you"}}, map[string]int64{"cancelled": 1}, []runs.Fate{{Item: 3, Outcome: "cancelled", Detail: "by you"}}},
		{"cancelled, then done", []step{{"cancelled", "by you"}, {"done", ""}}, map[string]int64{"done": 1}, nil},
		{"cancelled, then done with an id", []step{{"cancelled", ""}, {"done", "vct_1"}}, map[string]int64{"done": 1}, []runs.Fate{{Item: 3, Outcome: "done", Detail: "vct_1"}}},
		{"cancelled, then unchanged", []step{{"cancelled", "by you"}, {"unchanged", ""}}, map[string]int64{"unchanged": 1}, []runs.Fate{{Item: 3, Outcome: "unchanged"}}},
		{"cancelled, then refused", []step{{"cancelled", ""}, {"refused", "404"}}, map[string]int64{"cancelled": 1}, []runs.Fate{{Item: 3, Outcome: "cancelled"}}},
		{"cancelled, done, cancelled, done", []step{{"cancelled", ""}, {"done", ""}, {"cancelled", ""}, {"done", ""}}, map[string]int64{"done": 1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", 4)
			settle(t, l, "a", "done", "", 0, 1, 2) // so that the first step ends the run
			tt.counts["done"] += 3
			for _, s := range tt.steps {
				settle(t, l, "a", s.outcome, s.detail, 3)
				if r := get(t, l, "a"); r.Settled != 4 || !r.Ended() {
					t.Errorf("after %v: %+v, want 4 settled, ended", s, r)
				}
			}
			if diff := cmp.Diff(tt.counts, get(t, l, "a").Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.fates, fates(t, l, "a")); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettleRefusedChangesNothing(t *testing.T) {
	tests := []struct {
		name    string
		kind    string
		items   []int64
		outcome string
		member  string // of the mismatch, or empty
		want    string
	}{
		{"another kind", "domain:update", []int64{0}, "done", "kind", "another kind (existing: domain:verify, given: domain:update)"},
		{"the row after the last", kind, []int64{0, 1, 5}, "done", "item", "run a has no row 5"},
		{"far beyond", kind, []int64{0, runs.MaxRows}, "done", "item", "run a has no row 100000000"},
		{"below nothing", kind, []int64{0, -1}, "done", "item", "run a has no row -1"},
		{"no outcome", kind, []int64{0}, "", "", `outcome "": want`},
		{"an outcome that is no word", kind, []int64{0}, "done:\n", "", `outcome "done:\n": want`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, rdb := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", 5)
			before := get(t, l, "a")
			err := l.Settle(t.Context(), "a", tt.kind, 0, tt.items, tt.outcome, "why")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
			mismatch, ok := errors.AsType[*runs.MismatchError](err)
			if ok != (tt.member != "") || ok && mismatch.Member != tt.member {
				t.Errorf("got %#v, want a mismatch of %q", err, tt.member)
			}
			if diff := cmp.Diff(before, get(t, l, "a")); diff != "" {
				t.Errorf("it changed (-before +after):\n%s", diff)
			}
			if n := rdb.Exists(t.Context(), "orgops:v1:{run:a}:settled", "orgops:v1:{run:a}:fates").Val(); n != 0 {
				t.Errorf("it wrote %d keys", n)
			}
		})
	}
}

func TestSettled(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	settle(t, l, "a", "done", "", 0, 7, 8, 1000)
	got, err := l.Settled(t.Context(), "a", []int64{1000, 1, 0, 7, 8, 9, 999, 50_000_000})
	if diff := cmp.Diff([]bool{true, false, true, true, true, false, false, false}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if got, err := l.Settled(t.Context(), "a", []int64{1000}); !slices.Equal(got, []bool{true}) || err != nil {
		t.Errorf("of one row: got %v, %v", got, err)
	}
	if got, err := l.Settled(t.Context(), "a", nil); len(got) != 0 || err != nil {
		t.Errorf("of no rows: %v, %v", got, err)
	}
}

func TestStandingIsOfTheRightRun(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	settle(t, l, "a", "done", "", 1)
	for _, tt := range []struct {
		name, kind string
		items      []int64
		want       []bool
		mismatch   bool
	}{
		{"its kind", kind, []int64{0, 1, 9}, []bool{false, true, false}, false},
		{"any kind", "", []int64{1}, []bool{true}, false},
		{"another kind", "clients:remove", []int64{0}, nil, true},
	} {
		got, _, _, err := l.Standing(t.Context(), "a", tt.kind, 0, tt.items)
		if !slices.Equal(got, tt.want) || errors.Is(err, runs.ErrMismatch) != tt.mismatch {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
	seal(t, l, "a", 5)
	if _, _, _, err := l.Standing(t.Context(), "a", kind, 0, []int64{4, 5}); !errors.Is(err, runs.ErrMismatch) {
		t.Errorf("a row beyond the end: %v", err)
	}
}

func TestDetailsAreMadeHarmless(t *testing.T) {
	long := strings.Repeat("ü", 500)
	tests := []struct{ name, detail, want string }{
		{"plain", `"v=1; p" isn't C:\x`, `"v=1; p" isn't C:\x`},
		{"control characters", "a\x1b[31m\r\nb\x00", `a\x1b[31m\r\nb\x00`},
		{"text turned around", "a\u202eb\u2028c", `a\u202eb\u2028c`},
		{"not UTF-8", "a\xff\xfeb", `a\xff\xfeb`},
		{"500 characters", long, long},
		{"501 characters", long + "x", long[:2*499] + "…"},
		{"no half of an escape at the end", long[:2*497] + "\x1b\x1b", long[:2*497] + "…"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			settle(t, l, "a", "refused", tt.detail, int64(i))
			got := fates(t, l, "a")
			if diff := cmp.Diff([]runs.Fate{{Item: int64(i), Outcome: "refused", Detail: tt.want}}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			settle(t, l, "a", "refused", got[0].Detail, 99)
			if again := fates(t, l, "a")[1].Detail; again != tt.want {
				t.Errorf("quoted twice: %q, want %q", again, tt.want)
			}
		})
	}
}

func TestNotesAreOfOpenRows(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	store(t, l, "a", 0, "r0", "r1", "r2", "r3", "r4")
	next := time.Date(2026, 11, 20, 9, 0, 0, 250e6, time.UTC)
	note := func(item int64, reason string, next time.Time) {
		t.Helper()
		if err := l.Note(t.Context(), "a", 0, []int64{item}, reason, next); err != nil {
			t.Fatal(err)
		}
	}
	open := func(most int) []runs.OpenRow {
		t.Helper()
		rows, err := l.OpenRows(t.Context(), "a", most)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	note(1, "no TXT record", next)
	note(1, "a:\x07bell", next.Add(time.Second))
	note(2, "paced", time.Time{})
	note(3, "to be dropped", next)
	settle(t, l, "a", "done", "", 3)
	note(3, "too late", next)

	want := []runs.OpenRow{{Item: 0}, {Item: 1, Reason: `a:\abell`, Next: next.Add(time.Second)}, {Item: 2, Reason: "paced"}, {Item: 4}}
	if diff := cmp.Diff(want, open(10)); diff != "" {
		t.Errorf("unsealed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], open(2)); diff != "" {
		t.Errorf("the first two (-want +got):\n%s", diff)
	}
	seal(t, l, "a", 5)
	if diff := cmp.Diff(want, open(10)); diff != "" {
		t.Errorf("sealed (-want +got):\n%s", diff)
	}
	if err := l.Note(t.Context(), "a", 0, []int64{4, 5}, "x", next); !errors.Is(err, runs.ErrMismatch) {
		t.Errorf("a note on a row that there is not: %v", err)
	}
	settle(t, l, "a", "done", "", 0, 1, 2, 4)
	if rows := open(10); len(rows) != 0 {
		t.Errorf("all is settled, yet open: %v", rows)
	}
}

func TestMarksSurviveUntilTheRowIsSettled(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	keep := func(item int64, name, value string) {
		t.Helper()
		keep(t, l, "a", item, name, value)
	}
	kept := func(item int64, name string) string {
		t.Helper()
		_, marks, _, err := l.Standing(t.Context(), "a", kind, 0, []int64{item})
		if err != nil {
			t.Fatal(err)
		}
		value, ok := marks[name]
		if !ok {
			return "(none)"
		}
		return string(value)
	}
	keep(0, "intent", "\x00 any bytes \xff")
	keep(0, "post", "")
	keep(1, "record", "first")
	keep(1, "record", "second")
	keep(1, "rec", "its beginning")
	for _, tt := range []struct {
		item       int64
		name, want string
	}{
		{0, "intent", "\x00 any bytes \xff"}, {0, "post", ""}, {0, "record", "(none)"}, {1, "record", "second"}, {1, "rec", "its beginning"}, {2, "intent", "(none)"},
	} {
		if got := kept(tt.item, tt.name); got != tt.want {
			t.Errorf("row %d, %s: %q, want %q", tt.item, tt.name, got, tt.want)
		}
	}
	settle(t, l, "a", "done", "", 0)
	if kept(0, "intent") != "(none)" || kept(0, "post") != "(none)" || kept(1, "record") != "second" {
		t.Error("settling row 0 should drop its marks and no others")
	}
	settle(t, l, "a", "cancelled", "", 1)
	keep(1, "intent", "too late")
	if n := rdb.Exists(t.Context(), "orgops:v1:{run:a}:kept").Val(); n != 0 {
		t.Errorf("marks left: %v", rdb.HGetAll(t.Context(), "orgops:v1:{run:a}:kept").Val())
	}
	for _, err := range []error{
		l.Looked(t.Context(), "a", 0, 0, "", time.Time{}, nil, map[string][]byte{"two words": nil}),
		l.Looked(t.Context(), "a", 0, 0, "", time.Time{}, nil, map[string][]byte{"evidence": nil}),
		l.Looked(t.Context(), "a", 3, 0, "", time.Time{}, nil, map[string][]byte{"intent": nil}),
		l.Looked(t.Context(), "a", -1, 0, "", time.Time{}, nil, nil),
	} {
		if err == nil {
			t.Error("kept what it should refuse")
		}
	}
}

func TestAMillionRows(t *testing.T) {
	const million = 1_000_000
	l, rdb := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", million)
	// A thousand rows all over the run, settled in one call.
	var items []int64
	for item := int64(999); item < million; item += 1000 {
		items = append(items, item)
	}
	settle(t, l, "a", "done", "", items...)
	settle(t, l, "a", "expired", "late", 0, 262_143, 262_144, million-1) // million-1 is done by now
	settle(t, l, "a", "cancelled", "", 524_287, 524_288)

	r := get(t, l, "a")
	if diff := cmp.Diff(map[string]int64{"done": 1000, "expired": 3, "cancelled": 2}, r.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	want := []runs.Fate{
		{Item: 0, Outcome: "expired", Detail: "late"}, {Item: 262_143, Outcome: "expired", Detail: "late"},
		{Item: 262_144, Outcome: "expired", Detail: "late"}, {Item: 524_287, Outcome: "cancelled"}, {Item: 524_288, Outcome: "cancelled"},
	}
	if diff := cmp.Diff(want, fates(t, l, "a")); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
	if size := rdb.StrLen(t.Context(), "orgops:v1:{run:a}:settled").Val(); size != million/8 {
		t.Errorf("the bitmap has %d bytes, want %d", size, million/8)
	}
	open, err := l.OpenRows(t.Context(), "a", 2000)
	if err != nil || len(open) != 2000 || open[0].Item != 1 || open[1999].Item != 2002 {
		t.Errorf("%d open rows, %v", len(open), err)
	}
}

func TestFatesCanBeLeft(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	settle(t, l, "a", "failed", "", 5, 3, 4)
	var seen []int64
	for f, err := range l.Fates(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, f.Item)
		if len(seen) == 2 {
			break
		}
	}
	if !slices.Equal(seen, []int64{3, 4}) {
		t.Errorf("saw %v, want the first two in order", seen)
	}
}
