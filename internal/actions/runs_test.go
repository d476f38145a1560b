package actions_test

import (
	"context"
	"fmt"
	"testing"

	"orgops/internal/actions"
	"orgops/internal/activity"
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
	got, err := do(actions.Resume)
	want(got, err, "it was not paused")
	got, err = do(actions.Pause)
	want(got, err, "paused; to continue: enqueue runs resume new")
	got, err = do(actions.Resume)
	want(got, err, "resumed; open rows: 2")

	r, err := l.Get(ctx, "", "new")
	want(status.State(r), err, "open")
	rows, _, err := status.RowsPage(ctx, l, r, status.RowsQuery{Which: status.OpenRows, Limit: 10})
	want(fmt.Sprint(rows), err, "[row 0 (org_1 c): waiting for its turn row 1 (not a row): waiting for its turn]")
	got, err = do(actions.Cancel)
	want(got, err, "cancelled; rows that were open: 2")
}
