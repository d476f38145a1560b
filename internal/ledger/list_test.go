package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestUnreadableHeader makes one header of three unreadable. Every operation on the tenant
// does the others and names the run.
func TestUnreadableHeader(t *testing.T) {
	for name, field := range map[string][2]string{
		"a description of another form": {"about", `{"give_up":"5m"}`},
		"a word for a number":           {"staged_at", "yesterday"},
		"a negative number of segments": {"staged", "-1"},
		"another type":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			for _, id := range []ledger.RunID{"a", "b", "c"} {
				w.submit(id, 2)
			}
			w.abandon(w.create("abandoned"))
			if key := ledger.HeaderKey(tenant, "b"); field[0] != "" {
				w.store(key, field[0], field[1])
			} else if err := w.rdb.Set(t.Context(), key, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			others := func(operation string, n, want int, err error) {
				t.Helper()
				if n != want || err == nil || !strings.Contains(err.Error(), "run b") {
					t.Errorf("%s: %d runs, %v: want %d and an error that names run b", operation, n, err, want)
				}
			}
			if n := w.deleteOld(); n != 1 {
				t.Errorf("DeleteOld: %d runs deleted, want 1", n)
			}
			runs, err := w.Runs(t.Context(), tenant)
			others("runs", len(runs), 2, err)
			runs, err = w.OpenRuns(t.Context(), tenant)
			others("open runs", len(runs), 2, err)
		})
	}
}

// TestMalformedNumber has a number in a header that is none. A commit, which does not read the
// header before it changes it, names the run and the field.
func TestMalformedNumber(t *testing.T) {
	for _, field := range []string{"not_before", "staged", "segments", "rows", "closed"} {
		t.Run(field, func(t *testing.T) {
			w := newWorker(t)
			run := w.submit("odd-run", 1)
			sums, err := w.Sums(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			w.store(ledger.HeaderKey(tenant, run.ID), field, "many")
			_, err = w.Commit(t.Context(), run, sums)
			if err == nil || !strings.Contains(err.Error(), string(run.ID)) ||
				!strings.Contains(err.Error(), "stored header: "+field) {
				t.Errorf("%v, want an error that names the run and %s", err, field)
			}
		})
	}
}

// TestUnreadableHeaderCanBeDeleted deletes a run whose description cannot be read.
func TestUnreadableHeaderCanBeDeleted(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 2)
	w.must(w.Cancel, "a")
	w.store(ledger.HeaderKey(tenant, "a"), "about", "{")
	w.remove(run)
}

// TestMalformedEntry has an entry in the lists that names no run.
func TestMalformedEntry(t *testing.T) {
	w := newWorker(t)
	w.submit("a", 2)
	for _, list := range []string{"open", "ended", "staged"} {
		key := ledger.ListKey(tenant, list)
		if err := w.rdb.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "odd"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := w.OpenRuns(t.Context(), tenant)
	if len(runs) != 1 || err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("%d runs, %v: want one and an error that names the entry", len(runs), err)
	}
	if _, err := w.DeleteOld(t.Context(), tenant); err == nil ||
		!strings.Contains(err.Error(), "2 runs failed, the first: run \"odd\"") {
		t.Errorf("DeleteOld: %v, want an error that names the entry of each list", err)
	}
}

// TestListsOfManyRuns lists more runs than are read in one round trip, many of them created
// in the same millisecond.
func TestListsOfManyRuns(t *testing.T) {
	w := newWorker(t)
	n := redistest.Amount(510, 620)
	created := map[ledger.RunID]float64{}
	for i := range n {
		run := w.create(ledger.RunID(fmt.Sprintf("run-%04d", i)))
		at := float64(max(i, 300))
		entry := string(run.ID) + "/" + string(run.Incarnation)
		if err := w.rdb.ZAdd(t.Context(), ledger.ListKey(tenant, "open"),
			redis.Z{Score: at, Member: entry}).Err(); err != nil {
			t.Fatal(err)
		}
		created[run.ID] = at
	}
	open := w.open()
	if !slices.IsSortedFunc(open, func(a, b ledger.RunID) int { return int(created[b] - created[a]) }) {
		t.Error("the runs are not sorted by creation")
	}
	slices.Sort(open)
	if open = slices.Compact(open); len(open) != n {
		t.Errorf("%d open runs, want %d", len(open), n)
	}
}
