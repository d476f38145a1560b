package status_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/activity"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/status"
)

// TestActions: commands act on a run.
func TestActions(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	ctx := t.Context()
	run, _, err := l.Create(ctx, ledger.NewRun{ID: "new", Tenant: "default", Kind: "domain:update"})
	if err != nil {
		t.Fatal(err)
	}
	stager, err := l.NewStager(ctx, run)
	if err == nil {
		err = stager.Add(ctx, []byte(`{"organization_id":"org_1","client_id":"c"}`))
	}
	if err == nil {
		err = stager.Add(ctx, []byte(`["not a row"]`))
	}
	if err == nil {
		_, err = stager.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := func(got string, err error, want string) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	by := activity.Author{Redis: rdb, Name: "ada"}
	do := func(f func(context.Context, activity.Author, *ledger.Ledger, ledger.Run) (string, error)) (string, error) {
		run, err := l.Get(ctx, "default", "new")
		if err != nil {
			t.Fatal(err)
		}
		return f(ctx, by, l, run)
	}
	got, err := do(status.Resume)
	want(got, err, "it was not paused")
	got, err = do(status.Pause)
	want(got, err, "paused; to continue: enqueue runs resume new")
	got, err = do(status.Resume)
	want(got, err, "resumed; open rows: 2")

	r, err := l.Get(ctx, "", "new")
	want(status.State(r), err, "open")
	rows, _, err := status.RowsPage(ctx, l, r, status.RowsQuery{Which: status.OpenRows, Limit: 10})
	want(fmt.Sprint(rows), err, "[row 0 (org_1 c): waiting for its turn row 1 (not a row): waiting for its turn]")
	got, err = do(status.Cancel)
	want(got, err, "cancelled; rows that were open: 2")
}

// TestStopped: whatever stops a run is its state, and that of its rows.
func TestStopped(t *testing.T) {
	later := time.Now().Add(time.Hour)
	committed := func(c ledger.Control) ledger.Run { return ledger.Run{CommittedAt: time.Now(), Control: c} }
	for want, r := range map[string]ledger.Run{
		"paused": committed(ledger.Control{Paused: true, NotBefore: later}),
		"postponed until " + later.Format(time.RFC3339): committed(ledger.Control{NotBefore: later}),
		"open":            committed(ledger.Control{NotBefore: time.Now().Add(-time.Hour)}),
		"being submitted": {},
	} {
		if have := status.State(r); have != want {
			t.Errorf("state %q, want %q", have, want)
		}
		row := status.OpenRow(r, 0, evidence.Open{Reason: "transient: 503", Next: later})
		if stopped := status.Stopped(r); stopped == "" && row.Reason != "transient: 503" ||
			stopped != "" && (row.Reason != stopped+"; before: transient: 503" || !row.NextCheck.IsZero()) {
			t.Errorf("a row of a run that is %s: %+v", want, row)
		}
	}
}

// TestQueueIsPaused: a run says that its tenant's queue is paused.
func TestQueueIsPaused(t *testing.T) {
	rdb := redistest.Open(t)
	l := ledger.New(rdb)
	r, _, err := l.Create(t.Context(), ledger.NewRun{ID: "new", Tenant: "default", Kind: "domain:update"})
	if err != nil {
		t.Fatal(err)
	}
	const paused = "the queue default.rows is paused since 20"
	now := time.Now()
	oracle := status.NewEstimator(rdb)
	says := func(want bool) {
		t.Helper()
		now = now.Add(time.Minute) // the state is read again
		if waits := oracle.Estimate(t.Context(), now, []ledger.Run{r})[0].Waits(); strings.Contains(waits, paused) != want {
			t.Errorf("the run waits for %q; paused: %v", waits, want)
		}
	}
	says(false) // there is no queue
	task := asynq.NewTask("domain:update", nil)
	if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(task, asynq.Queue("default.rows")); err != nil {
		t.Fatal(err)
	}
	says(false)
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	if err := inspector.PauseQueue("default.rows"); err != nil {
		t.Fatal(err)
	}
	says(true)
	if err := inspector.UnpauseQueue("default.rows"); err != nil {
		t.Fatal(err)
	}
	says(false)
}
