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
	headers := map[string]func(w *worker) error{
		"a description of another form": func(w *worker) error {
			return w.rdb.HSet(w.t.Context(), ledger.HeaderKey("b"), "about", `{"give_up":"5m"}`).Err()
		},
		"a word for a number": func(w *worker) error {
			return w.rdb.HSet(w.t.Context(), ledger.HeaderKey("b"), "staged_at", "yesterday").Err()
		},
		"a negative number of segments": func(w *worker) error {
			return w.rdb.HSet(w.t.Context(), ledger.HeaderKey("b"), "reserved", -1).Err()
		},
		"another type": func(w *worker) error {
			w.rdb.Del(w.t.Context(), ledger.HeaderKey("b"))
			return w.rdb.Set(w.t.Context(), ledger.HeaderKey("b"), "x", 0).Err()
		},
	}
	for name, spoil := range headers {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			for _, id := range []ledger.RunID{"a", "b", "c"} {
				w.submit(id, 2)
			}
			w.abandon(w.create("abandoned"))
			w.takeDue()
			if err := spoil(w); err != nil {
				t.Fatal(err)
			}
			others := func(operation string, n, want int, err error) {
				t.Helper()
				if n != want || err == nil || !strings.Contains(err.Error(), "run b") {
					t.Errorf("%s: %d runs, %v: want %d and an error that names run b", operation, n, err, want)
				}
			}
			n, err := w.Sweep(t.Context(), tenant)
			others("sweep", n, 1, err)
			runs, err := w.Runs(t.Context(), tenant)
			others("runs", len(runs), 2, err)
			runs, err = w.OpenRuns(t.Context(), tenant)
			others("open runs", len(runs), 2, err)
			rebuilt, err := w.Rebuild(t.Context(), tenant)
			others("rebuild", len(rebuilt), 2, err)
			if due, _ := w.takeDue(); len(due) != 2 {
				t.Errorf("due %v, want the segments of the others", due)
			}
		})
	}
}

// TestMalformedNumber has a number in a header that is none. Operations that do not read the
// header before they change it name the run and the field.
func TestMalformedNumber(t *testing.T) {
	for _, field := range []string{"v", "not_before", "reserved", "base", "segments", "rows"} {
		t.Run(field, func(t *testing.T) {
			w := newWorker(t)
			run := w.submit("odd-run", 1)
			seg := segment(run, 0)
			sums, err := w.Sums(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			e, row := w.take(seg)
			if err := w.rdb.HSet(t.Context(), ledger.HeaderKey(run.ID), field, "many").Err(); err != nil {
				t.Fatal(err)
			}
			_, stage := w.Stage(t.Context(), run, 0, true, content(0, 1))
			_, commit := w.Commit(t.Context(), run, sums)
			_, settle := w.Settle(t.Context(), seg, e.nonce, ledger.Result{Outcome: ledger.Done}, row)
			for operation, err := range map[string]error{
				"stage": stage, "commit": commit, "settle": settle, "delete": w.Delete(t.Context(), run.ID),
			} {
				if err == nil || !strings.Contains(err.Error(), string(run.ID)) ||
					!strings.Contains(err.Error(), "stored header: "+field) {
					t.Errorf("%s: %v, want an error that names the run and %s", operation, err, field)
				}
			}
			if err := w.rdb.HSet(t.Context(), ledger.HeaderKey(run.ID), field, 1).Err(); err != nil {
				t.Fatal(err)
			}
			if p := w.sync(run.ID); !p.Run.Ended() {
				t.Errorf("run %+v, want it ended once the header can be read", p.Run)
			}
		})
	}
}

// TestCloseOfALostCommit settles the last row of a run of which the header lost the commit,
// but not the cancel. The run ends with the next commit.
func TestCloseOfALostCommit(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	run := w.commit(s)
	e, row := w.take(segment(run, 0))
	w.must(w.Cancel, "a")
	w.uncommit(run)
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("a"), "sealed", 1).Err(); err != nil {
		t.Fatal(err)
	}
	want(t, w.settle(segment(run, 0), e, row), ledger.RowWritten)
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.get("a").Ended() {
		t.Error("the run has not ended")
	}
}

// TestUnreadableHeaderCanBeDeleted deletes a run whose description cannot be read.
func TestUnreadableHeaderCanBeDeleted(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 2)
	w.must(w.Cancel, "a")
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("a"), "about", "{").Err(); err != nil {
		t.Fatal(err)
	}
	w.must(w.Delete, "a")
	if keys := keysOf(t, run); len(keys) > 0 {
		t.Errorf("keys %q remain", keys)
	}
}

// TestMalformedEntry has an entry in the lists that names no run.
func TestMalformedEntry(t *testing.T) {
	w := newWorker(t)
	w.submit("a", 2)
	for _, key := range []string{ledger.OpenKey(tenant), ledger.EndedKey(tenant)} {
		if err := w.rdb.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "odd"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.rdb.HSet(t.Context(), ledger.TrashKey(tenant), "odd", "1:1").Err(); err != nil {
		t.Fatal(err)
	}
	runs, err := w.OpenRuns(t.Context(), tenant)
	if len(runs) != 1 || err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("%d runs, %v: want one and an error that names the entry", len(runs), err)
	}
	if _, err := w.Sweep(t.Context(), tenant); err == nil || strings.Count(err.Error(), "odd") < 3 {
		t.Errorf("sweep: %v, want an error that names the entry of each list", err)
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
		if err := w.rdb.ZAdd(t.Context(), ledger.OpenKey(tenant), redis.Z{Score: at, Member: entry}).Err(); err != nil {
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
