package runs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// TestAtMaxmemory does what must be possible at a Redis that has no memory left: to settle
// rows, to stop work and to free memory. Runs are created before, and read after.
func TestAtMaxmemory(t *testing.T) {
	const rows = 20
	for _, tt := range []struct {
		name string
		do   func(*runs.Ledger) error
		well func(*testing.T, *runs.Ledger) // after it
	}{
		{"settle rows", func(l *runs.Ledger) error {
			return l.Settle(t.Context(), "open", kind, 0, []int64{1, 2}, "refused", "why")
		}, func(t *testing.T, l *runs.Ledger) {
			if all := fates(t, l, "open"); len(all) != 2 || all[0].Outcome != "refused" || all[0].Detail != "why" {
				t.Errorf("fates %v", all)
			}
		}},
		{"settle the row of a task", func(l *runs.Ledger) error {
			_, err := l.SettleRow(t.Context(), "begun", kind, 0, 0, "post", []byte("mark"), "done", "", nil)
			return err
		}, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "begun"); r.Counts["done"] != 1 {
				t.Errorf("counts %v", r.Counts)
			}
		}},
		{"settle the last row", func(l *runs.Ledger) error {
			return l.Settle(t.Context(), "last", kind, 0, []int64{0}, "done", "")
		}, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "last"); !r.Ended() {
				t.Errorf("the run has not ended: %+v", r)
			}
		}},
		{"cancel", func(l *runs.Ledger) error {
			n, err := l.Cancel(t.Context(), "open")
			if n != rows {
				t.Errorf("%d rows were cancelled, want %d", n, rows)
			}
			return err
		}, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "open"); !r.Ended() || r.Counts["cancelled"] != rows {
				t.Errorf("run %+v", r)
			}
		}},
		{"cancel a run that is being submitted", func(l *runs.Ledger) error {
			_, err := l.Cancel(t.Context(), "unsealed")
			return err
		}, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "unsealed"); !r.Ended() || r.Counts["cancelled"] != rows {
				t.Errorf("run %+v", r)
			}
		}},
		{"cancel a run of which a row has begun", func(l *runs.Ledger) error {
			_, err := l.Cancel(t.Context(), "begun")
			return err
		}, func(t *testing.T, l *runs.Ledger) {
			unsettled, err := l.Unsettled(t.Context())
			if err != nil || !slices.Contains(unsettled, "begun") {
				t.Errorf("unsettled runs %q, %v: want that of the row that has begun", unsettled, err)
			}
		}},
		{"pause", func(l *runs.Ledger) error { return l.Pause(t.Context(), "open") }, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "open"); !r.Paused {
				t.Errorf("run %+v", r)
			}
		}},
		{"delete", func(l *runs.Ledger) error { return l.Delete(t.Context(), "parent") }, func(t *testing.T, l *runs.Ledger) {
			if _, err := l.Get(t.Context(), "parent"); !errors.Is(err, runs.ErrNotFound) {
				t.Errorf("the run is still there: %v", err)
			}
		}},
		{"delete one of two children", func(l *runs.Ledger) error { return l.Delete(t.Context(), "child") }, func(t *testing.T, l *runs.Ledger) {
			if r := get(t, l, "parent"); len(r.Children) != 1 || r.Children[0] != "other" {
				t.Errorf("children %q, want the other", r.Children)
			}
		}},
		{"list", func(l *runs.Ledger) error {
			_, err := l.List(t.Context())
			return err
		}, func(*testing.T, *runs.Ledger) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := server.Client()
			l := runs.New(rdb)
			for _, id := range []string{"open", "begun", "last", "parent", "unsealed"} {
				create(t, l, id)
			}
			for _, id := range []string{"open", "begun", "unsealed"} {
				storeUpTo(t, l, id, rows)
			}
			for id, total := range map[string]int64{"open": rows, "last": 1, "parent": 1} {
				seal(t, l, id, total)
			}
			settle(t, l, "parent", "failed", "x", 0)
			for _, id := range []string{"child", "other"} {
				if err := l.Adopt(t.Context(), get(t, l, "parent"), id); err != nil {
					t.Fatal(err)
				}
				if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default", Parent: "parent"}); err != nil {
					t.Fatal(err)
				}
				seal(t, l, id, 1)
				settle(t, l, id, "done", "", 0)
			}
			keep(t, l, "open", 1, "seen", "x")
			if against := begin(t, l, "begun", 0, "mark"); against != "" {
				t.Fatal(against)
			}

			if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
				t.Fatal(err)
			}
			if err := l.Note(t.Context(), "open", 0, []int64{3}, "why", time.Time{}); !redis.IsOOMError(err) {
				t.Fatalf("a note at maxmemory: %v, want it refused: the test shows nothing", err)
			}
			if err := tt.do(l); err != nil {
				t.Error(err)
			}
			tt.well(t, l)
		})
	}
}
