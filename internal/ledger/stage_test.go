package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestStagedRows: they can be read, and are not released.
func TestStagedRows(t *testing.T) {
	w := newWorker(t)
	run := w.create("a")
	w.stage(run, 0)
	rows := w.rows(segment(run, 0))
	if len(rows) == 0 || rows[0].Phase != ledger.PhaseQueued || string(rows[0].Content) != "row 0" || rows[0].Err != nil {
		t.Errorf("rows %+v", rows)
	}
	if _, err := w.Rows(t.Context(), segment(run, 1), 0, 1); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("rows of a segment that is not staged: %v", err)
	}
	if _, err := w.Release(t.Context(), segment(run, 0), all); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("release of a staged segment: %v, want %v", err, ledger.ErrNotFound)
	}
	if due, _ := w.takeDue(); !w.get("a").Staged() || len(due) > 0 {
		t.Errorf("due %v, want a staged run", due)
	}
}

// TestCommit commits while Redis has lost the last segment, then the staged one, twice, and other
// rows.
func TestCommit(t *testing.T) {
	w := newWorker(t)
	run := w.create("a")
	sum, err := w.Stage(t.Context(), run, 0, content(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), run, []ledger.Sum{sum, {Rows: 2}}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("error %v, want %v", err, ledger.ErrLost)
	}
	if !w.get("a").Staged() {
		t.Error("the run is committed")
	}
	for range 2 {
		committed, err := w.Commit(t.Context(), run, []ledger.Sum{sum})
		if err != nil || committed.Rows != 3 || committed.Segments != 1 {
			t.Fatalf("run %+v, %v", committed, err)
		}
	}
	var mismatch *ledger.MismatchError
	if _, err := w.Commit(t.Context(), run, nil); !errors.As(err, &mismatch) {
		t.Errorf("commit of other rows: %v, want a mismatch", err)
	}
}

func TestCreate(t *testing.T) {
	w := newWorker(t)
	n := ledger.NewRun{
		ID: "a", Tenant: tenant, Kind: kind,
		Description: ledger.Description{Label: "spring", Digest: "ab12", Columns: []string{"x", "y"}, GiveUp: 5, KeepFor: 7},
		Control:     ledger.Control{Paused: true},
	}
	run, created, err := w.Create(t.Context(), n)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	if diff := cmp.Diff(n.Description, run.Description); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
	if !run.Paused || !run.Staged() || run.CreatedAt.IsZero() || run.Incarnation == "" {
		t.Errorf("run %+v", run)
	}
	again, created, err := w.Create(t.Context(), n)
	if err != nil || created {
		t.Errorf("created again: %v, %v", created, err)
	}
	if again.Incarnation != run.Incarnation {
		t.Errorf("incarnation %s, want %s", again.Incarnation, run.Incarnation)
	}
	n.Digest = "cd34"
	var mismatch *ledger.MismatchError
	if _, _, err := w.Create(t.Context(), n); !errors.As(err, &mismatch) || mismatch.Member != "content" {
		t.Errorf("create with another digest: %v, want a mismatch", err)
	}
}

// TestRepeatedScripts sends each script of a run's creation, end and deletion twice.
func TestRepeatedScripts(t *testing.T) {
	rdb := redistest.New(t)
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if cmd := cmds[0]; len(cmds) == 1 && strings.HasPrefix(cmd.Name(), "eval") {
			_ = run() // as the client does when an answer was lost
			cmd.SetErr(nil)
		}
		return run()
	}))
	w := on(t, rdb)
	run := w.submit("a", 1) // fails unless it was created
	if ids := w.open(); !slices.Equal(ids, []ledger.RunID{"a"}) {
		t.Errorf("open runs %q, want the run", ids)
	}
	w.must(w.Pause, "a")
	w.must(w.Resume, "a")
	w.must(w.Cancel, "a")
	w.must(w.Finish, "a")
	w.remove(run)
}

// TestCreateAndFinishAtTheSameTime finishes a run before each command of a producer that
// creates it again, and starts its retention. It is not listed as open again.
func TestCreateAndFinishAtTheSameTime(t *testing.T) {
	w := newWorker(t)
	for n, done := 0, true; done; n++ {
		id := ledger.RunID(fmt.Sprintf("run-%d", n))
		w.submit(id)
		finished := false
		l, i := interrupted(t, n, func() {
			w.retain(id)
			finished = true
		})
		if _, created, err := l.Create(t.Context(),
			ledger.NewRun{ID: id, Tenant: tenant, Kind: kind}); err != nil || created {
			t.Fatalf("command %d: created %v, %v", n, created, err)
		}
		done = i.done()
		entries, err := w.rdb.ZRange(t.Context(), ledger.ListKey(tenant, "open"), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if open := slices.ContainsFunc(entries, func(e string) bool {
			return strings.HasPrefix(e, string(id)+"/")
		}); open == finished {
			t.Errorf("command %d: finished %v, listed as open %v", n, finished, open)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	good := ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind}
	tests := []struct {
		name   string
		change func(*ledger.NewRun)
	}{
		{"an id with a slash", func(n *ledger.NewRun) { n.ID = "a/b" }},
		{"no tenant", func(n *ledger.NewRun) { n.Tenant = "" }},
		{"a kind in capitals", func(n *ledger.NewRun) { n.Kind = "Domain" }},
		{"a cancelled run", func(n *ledger.NewRun) { n.Cancelled = true }},
		{"a negative retention", func(n *ledger.NewRun) { n.KeepFor = -1 }},
		{"a long description", func(n *ledger.NewRun) { n.Columns = []string{strings.Repeat("x", 17<<10)} }},
	}
	w := newWorker(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := good
			tt.change(&n)
			if _, _, err := w.Create(context.WithoutCancel(t.Context()), n); err == nil {
				t.Error("want an error")
			}
		})
	}
	if keys := keysOf(t, ledger.Run{ID: "a", Incarnation: "none"}); len(keys) > 0 {
		t.Errorf("keys %q, want none", keys)
	}
}

// TestCancelEndsAStagedRun checks that a cancel ends a staged run without rows, and that the
// run accepts none.
func TestCancelEndsAStagedRun(t *testing.T) {
	w := newWorker(t)
	run := w.create("a")
	sum, err := w.Stage(t.Context(), run, 0, content(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	w.must(w.Cancel, "a")
	if run := w.get("a"); !run.Ended() || run.Growing || run.Rows != 0 {
		t.Errorf("run %+v, want it ended", run)
	}
	if _, err := w.Stage(t.Context(), run, 1, content(0, 1)); err == nil {
		t.Error("staged a segment of a cancelled run")
	}
	mismatch := new(ledger.MismatchError)
	if _, err := w.Commit(t.Context(), run, []ledger.Sum{sum}); !errors.As(err, &mismatch) {
		t.Errorf("commit of a cancelled run: %v, want a mismatch", err)
	}
	w.remove(run)
}

// TestFewerRowsReplaceStagedSegments has an earlier producer stage more segments than there are
// rows in the end, with rows that are settled or due later, and in groups: none of that remains.
func TestFewerRowsReplaceStagedSegments(t *testing.T) {
	w := newWorker(t)
	run := w.create("a")
	for number := range 3 {
		_, err := w.StageGrouped(t.Context(), run, number, content(0, 9), func(row []byte) string {
			return string(row[len(row)-1]%2 + '0')
		}, map[ledger.Row]ledger.Result{0: invalid, 1: invalid}, map[ledger.Row]time.Time{2: w.redisNow().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
	}
	run = w.commit(w.fill(w.get("a"), content(0, 5)))
	if run.Ended() || run.Rows != 5 || run.Settled() != 0 {
		t.Errorf("run %+v, want 5 open rows", run)
	}
	if due, _ := w.takeDue(); len(due) != 1 {
		t.Errorf("due %v, want one segment", due)
	}
	r := w.release(segment(run, 0), all)
	if rows := numbers(r); !slices.Equal(rows, []ledger.Row{0, 1, 2, 3, 4}) || w.hasOrder(segment(run, 0)) {
		t.Errorf("released %v", rows)
	}
	if r := w.settle(segment(run, 0), w.begin(segment(run, 0), r.Token, numbers(r)...), numbers(r)...); !r.Ended {
		t.Error("the run has not ended")
	}
	w.remove(run)
}
