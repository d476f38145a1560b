// Package ledgertest makes runs for tests of their readers, without a worker.
package ledgertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// Create creates a run of kind domain:verify and tenant default, unless n names others, that
// is still being submitted.
func Create(t testing.TB, l *ledger.Ledger, n ledger.NewRun) ledger.Run {
	t.Helper()
	if n.Kind == "" {
		n.Kind = "domain:verify"
	}
	if n.Tenant == "" {
		n.Tenant = "default"
	}
	run, created, err := l.Create(t.Context(), n)
	if err != nil || !created {
		t.Fatalf("create run %s: created %v, %v", n.ID, created, err)
	}
	return run
}

// Submit creates a run, as [Create] does, and submits its rows. A run without rows has ended.
func Submit(t testing.TB, l *ledger.Ledger, n ledger.NewRun, rows ...string) {
	t.Helper()
	Commit(t, l, Create(t, l, n), rows...)
}

// Commit submits the rows of a run that was created.
func Commit(t testing.TB, l *ledger.Ledger, run ledger.Run, rows ...string) {
	t.Helper()
	stager, err := l.NewStager(t.Context(), run)
	for _, row := range rows {
		if err == nil {
			err = stager.Add(t.Context(), []byte(row))
		}
	}
	if err == nil {
		_, err = stager.Commit(t.Context())
	}
	if err != nil {
		t.Fatalf("submit the rows of run %s: %v", run.ID, err)
	}
}

// Find returns the run of that id, of whatever tenant.
func Find[ID ~string](t testing.TB, l *ledger.Ledger, id ID) ledger.Run {
	t.Helper()
	run, err := l.Get(t.Context(), "", ledger.RunID(id))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// segment returns the run's first segment. Its commit may be under way.
func segment(t testing.TB, l *ledger.Ledger, id string) ledger.Segment {
	t.Helper()
	run, err := l.Get(t.Context(), "", ledger.RunID(id))
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
}

// Settle settles rows of a run's first segment that are not in progress.
func Settle(t testing.TB, l *ledger.Ledger, id, outcome, detail string, items ...int64) {
	t.Helper()
	var rows []ledger.Row
	for _, item := range items {
		rows = append(rows, ledger.Row(item))
	}
	result := ledger.Result{Outcome: ledger.Outcome(outcome), Detail: detail}
	if _, err := l.Dismiss(t.Context(), segment(t, l, id), result, rows...); err != nil {
		t.Fatal(err)
	}
}

// Begin starts the next n rows of a run's first segment that have not started yet.
func Begin(t testing.TB, l *ledger.Ledger, id string, n int) (ledger.Segment, ledger.Nonce, []ledger.Row) {
	t.Helper()
	return BeginBy(t, l, ledger.NewSessionID(), id, n)
}

// BeginBy starts rows as [Begin] does, by the worker of that session.
func BeginBy(t testing.TB, l *ledger.Ledger, worker ledger.SessionID, id string,
	n int) (ledger.Segment, ledger.Nonce, []ledger.Row) {
	t.Helper()
	seg := segment(t, l, id)
	nonce := ledger.NewNonce()
	released, err := l.Release(t.Context(), seg, ledger.Quota{First: n})
	if err != nil || len(released.Rows) != n {
		t.Fatalf("released %d of %d rows of run %s: %v", len(released.Rows), n, id, err)
	}
	var rows []ledger.Row
	for _, row := range released.Rows {
		rows = append(rows, row.Row)
	}
	_, err = l.Begin(t.Context(), seg, ledger.Execution{Token: released.Token, Nonce: nonce,
		Session: worker}, rows...)
	if err != nil {
		t.Fatal(err)
	}
	return seg, nonce, rows
}

// Wait executes the next n rows of a run's first segment that have not started yet, each of
// which then waits with that note.
func Wait(t testing.TB, l *ledger.Ledger, id, note string, after time.Duration, n int) {
	t.Helper()
	seg, nonce, rows := Begin(t, l, id, n)
	outcome, reason, _ := strings.Cut(note, ": ")
	ending := ledger.Waiting{Stage: ledger.StageCheck, After: after, Memo: []byte(outcome + "\x00" + reason + "\x00")}
	if _, err := l.End(t.Context(), seg, nonce, ledger.Ends(ending, rows...)...); err != nil {
		t.Fatal(err)
	}
}

// Control does an operation of the core on the run of that id, such as (*ledger.Ledger).Pause.
func Control[ID ~string](ctx context.Context, l *ledger.Ledger,
	do func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error, id ID) error {
	run, err := l.Get(ctx, "", ledger.RunID(id))
	if err != nil {
		return err
	}
	return do(l, ctx, run.Tenant, run.ID)
}
