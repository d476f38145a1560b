package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// counted returns a ledger whose round trips are counted.
func counted(t *testing.T) (*ledger.Ledger, *redistest.RoundTrips) {
	t.Helper()
	rdb, c := redistest.New(t), &redistest.RoundTrips{}
	rdb.AddHook(c.Hook())
	return ledger.New(rdb), c
}

// TestRoundTrips: each of these takes one round trip. Rows that change between several would be in
// no phase, or settled without their result.
func TestRoundTrips(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 5), 0)
	l, trips := counted(t)
	for name, call := range map[string]func() error{
		"the due segments of a tenant without runs": func() error {
			due, err := l.TakeDue(t.Context(), "none", 10)
			if len(due.Segments) > 0 || time.Since(due.Now).Abs() > time.Hour {
				t.Errorf("%+v, want no segments", due)
			}
			return err
		},
		"how long a tenant is overdue": func() error { _, err := l.Overdue(t.Context(), tenant); return err },
		"a page of rows":               func() error { _, err := l.Rows(t.Context(), seg, 0, 5); return err },
	} {
		for range 2 { // the first time Redis may not have the script
			trips.Store(0)
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := trips.Load(); n != 1 {
			t.Errorf("%s: %d round trips, want one", name, n)
		}
	}
}

// TestTakeDueReturnsTheOthers has an index that cannot be read, and an entry of another one
// that cannot.
func TestTakeDueReturnsTheOthers(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	if err := w.rdb.Set(t.Context(), ledger.ListKey("broken", "due"), "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	entry := redis.Z{Score: 1, Member: "no segment"}
	if err := w.rdb.ZAdd(t.Context(), ledger.ListKey(tenant, "due"), entry).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Ledger.TakeDue(t.Context(), "broken", 10); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v, want one that names the tenant", err)
	}
	due, err := w.Ledger.TakeDue(t.Context(), tenant, 10)
	if err == nil || !strings.Contains(err.Error(), "no segment") {
		t.Errorf("error %v, want one that names the entry", err)
	}
	if !slices.Equal(due.Segments, []ledger.Segment{seg}) {
		t.Errorf("due %+v, want %s", due, seg)
	}
}

// TestReclaimDead has a worker die that executes a row in one of many segments: that row is due
// again, and the rows of another worker are not touched.
func TestReclaimDead(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	w.renew()
	other.renew()
	run := w.submit("a", 2, 2, 2, 2, 2, 2)
	seg := segment(run, 4)
	var alive execution
	var kept ledger.Row
	for n := range 5 {
		alive, kept = other.take(segment(run, n))
	}
	_, row := w.take(seg)
	l, trips := counted(t)
	if all, err := l.ReclaimDead(t.Context(), tenant); err != nil || len(all) > 0 {
		t.Errorf("reclaimed %+v, %v, want none", all, err)
	}
	if n := trips.Load(); n > 3 { // the first script is sent twice
		t.Errorf("%d round trips, want 3 at most", n)
	}
	w.passSessions(ledger.DeadAfter+ledger.RenewEvery, other)
	all, err := l.ReclaimDead(t.Context(), tenant)
	if diff := cmp.Diff([]ledger.Reclaimed{{Segment: seg, Session: w.session, Rows: 1}}, all); err != nil || diff != "" {
		t.Errorf("%v; reclaimed (-want +got):\n%s", err, diff)
	}
	if rows := numbers(other.release(seg, ledger.Quota{Check: 9})); !slices.Equal(rows, []ledger.Row{row}) {
		t.Errorf("released %v, want %d", rows, row)
	}
	want(t, other.settle(seg, alive, kept), ledger.RowWritten)
}

// TestCommandsOfReadingRows: a download costs Redis few commands for a page of rows, whatever their
// states, and not one or more for each row. Scripts send most of them.
func TestCommandsOfReadingRows(t *testing.T) {
	redis := redistest.Mini(t)
	w := newWorker(t)
	const rows, waiting, proven = 2000, 500, 500
	run := w.submit("a", rows)
	seg := segment(run, 0)
	end := func(n int, ending ledger.Ending) {
		for n > 0 {
			e := w.takeRows(seg, min(n, 100))
			for _, row := range numbersOf(e) {
				w.end(seg, e, ledger.RowEnd{Row: row, Ending: ending})
			}
			n -= 100
		}
	}
	end(waiting, ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour})
	end(proven, ledger.Result{Outcome: ledger.Done, Evidence: []byte("proof")})
	for which, want := range map[ledger.Selection]int{ledger.Every: rows, ledger.Unsettled: rows - proven,
		ledger.WithResult: proven} {
		before := redis.CommandCount()
		if got := len(w.each(run, which, 0)); got != want {
			t.Errorf("%q: %d rows, want %d", which, got, want)
		}
		if n := redis.CommandCount() - before; n > rows/4 {
			t.Errorf("%q: %d commands for %d rows", which, n, rows)
		}
	}
}
