package runs_test

import (
	"errors"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/runstest"
)

// submitRow submits a single row to the core.
func submitRow(t *testing.T, l *runs.Ledger, n ledger.NewRun, row string) coreRun {
	t.Helper()
	_, created, err := l.Core().SubmitRow(t.Context(), n, []byte(row))
	if err != nil || !created {
		t.Fatalf("submit %s: created %v, %v", n.ID, created, err)
	}
	run, err := l.Core().Get(t.Context(), n.ID)
	check(t, err)
	return coreRun{t: t, Ledger: l, run: run, session: ledger.NewSessionID()}
}

// TestSingleRow: lists leave a single row out, and every other method takes its id.
func TestSingleRow(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	one := ledger.NewRun{ID: "single", Kind: updates, Tenant: "acme", Description: ledger.Description{Format: "jsonl"}}
	row := submitRow(t, l, one, `{"organization_id":"org_1"}`)
	submitInCore(t, l, ledger.NewRun{ID: "run", Kind: updates, Tenant: "acme"}, 1)
	onlyTheRun := func(when string) {
		t.Helper()
		all, err := l.List(ctx)
		check(t, err)
		if have := idsOf(all); !slices.Equal(have, []string{"run"}) {
			t.Errorf("%s: list %v", when, have)
		}
		if have := pages(ctx, t, l, runs.Query{Limit: 1}); !slices.Equal(have, []string{"run"}) {
			t.Errorf("%s: pages %v", when, have)
		}
	}
	onlyTheRun("open")
	open, err := l.Open(ctx)
	check(t, err)
	if ids := slices.Sorted(slices.Values(idsOf(open))); !slices.Equal(ids, []string{"run", "single"}) {
		t.Errorf("open %v, want the single row among them", ids)
	}
	if found := collect(t, l.Search(ctx, ledger.Run{Tenant: "acme", ID: "single"}, []byte("org_1"))); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Pause, "single"))
	if r := get(t, l, "single"); !r.Paused || !r.Sealed() || r.Total() != 1 || r.Ended() {
		t.Errorf("paused %+v", r)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Resume, "single"))
	row.end(0, ledger.Result{Outcome: "failed", Detail: "no"})
	onlyTheRun("ended")
	if r := get(t, l, "single"); !r.Ended() || r.Counts["failed"] != 1 {
		t.Errorf("ended %+v", r)
	}
	if _, created, err := l.Core().SubmitRow(ctx, one, []byte(`{"organization_id":"org_1"}`)); err != nil || created {
		t.Errorf("submitted again: created %v, %v", created, err)
	}
	_, _, err = l.Core().SubmitRow(ctx, one, []byte(`{"organization_id":"org_2"}`))
	if e, ok := errors.AsType[*ledger.MismatchError](err); !ok || e.Member != "content" ||
		!errors.Is(err, ledger.ErrMismatch) {
		t.Errorf("another row: %v", err)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "single"))
	if _, err := l.Get(ctx, "", "single"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	all, err := l.All(ctx)
	check(t, err)
	if ids := ledgerIDs(all); !slices.Equal(ids, []ledger.RunID{"run"}) {
		t.Errorf("ids %v", ids)
	}
}
