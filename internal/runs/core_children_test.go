package runs_test

import (
	"errors"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/runstest"
)

// TestFacadeAdopt: a run of the core keeps the ids of its children.
func TestFacadeAdopt(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	core := submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 1)
	if err := l.Core().Adopt(ctx, get(t, l, "new"), "child"); !errors.Is(err, ledger.ErrOpen) {
		t.Errorf("an open run: %v", err)
	}
	core.end(0, ledger.Result{Outcome: "failed"})
	before := get(t, l, "new")
	check(t, l.Core().Adopt(ctx, before, "child"))
	if err := l.Core().Adopt(ctx, before, "other"); !errors.Is(err, ledger.ErrRaced) {
		t.Errorf("a run that was changed: %v", err)
	}
	r := get(t, l, "new")
	check(t, l.Core().Adopt(ctx, r, "child"))
	if !slices.Equal(r.Children, []ledger.RunID{"child"}) {
		t.Errorf("children %q", r.Children)
	}
	child := submitInCore(t, l, ledger.NewRun{ID: "child", Kind: updates, Tenant: "acme",
		Description: ledger.Description{Parent: "new"}}, 1)
	child.end(0, done())
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "child"))
	if r := get(t, l, "new"); len(r.Children) != 0 {
		t.Errorf("the child was deleted: %q", r.Children)
	}
}

// TestFacadeSettledRows: rows that were settled when they were submitted are read as
// others.
func TestFacadeSettledRows(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	run, _, err := l.Core().Create(ctx, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"})
	check(t, err)
	stager, err := l.Core().NewStager(ctx, run)
	check(t, err)
	check(t, stager.Add(ctx, content(0, 1)[0]))
	check(t, stager.AddSettled(ctx, []byte(`["x"]`), ledger.Result{Outcome: "invalid", Detail: "no domain"}))
	_, err = stager.Commit(ctx)
	check(t, err)
	if r := get(t, l, "new"); r.Total() != 2 || r.Settled() != 1 || r.Counts["invalid"] != 1 || r.Ended() {
		t.Errorf("%+v", r)
	}
	if have := results(t, l, "new"); len(have) != 1 || have[0].Item != 1 || have[0].Outcome != "invalid" ||
		have[0].Detail != "no domain" {
		t.Errorf("results %+v", have)
	}
	if open := collect(t, l.OpenFrom(ctx, ledger.Run{Tenant: "acme", ID: "new"}, 0)); len(open) != 1 || open[0].Item != 0 {
		t.Errorf("open %+v", open)
	}
}

// TestItemOf: rows count over the segments of their run.
func TestItemOf(t *testing.T) {
	l, _ := newLedger(t)
	core := submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 3, 2, 1)
	for _, c := range []struct {
		segment int
		row     ledger.Row
		want    int64
	}{{0, 2, 2}, {1, 0, 3}, {1, 1, 4}, {2, 0, 5}} {
		if item, err := l.ItemOf(t.Context(), core.segment(c.segment), c.row); err != nil || item != c.want {
			t.Errorf("row %d of segment %d is item %d, %v; want %d", c.row, c.segment, item, err, c.want)
		}
	}
	for _, seg := range []ledger.Segment{{Tenant: core.run.Tenant, Run: "none", Incarnation: core.run.Incarnation,
		Number: 1}, core.segment(4),
		{Run: "new", Incarnation: "other", Number: 1}} {
		if item, err := l.ItemOf(t.Context(), seg, 0); err == nil {
			t.Errorf("item %d of %+v", item, seg)
		}
	}
}
