package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/runstest"
)

// TestEvidenceOfSettledRows: evidence is kept with the outcome, read back by row and by run,
// and deleted with the run.
func TestEvidenceOfSettledRows(t *testing.T) {
	l, _ := newLedger(t)
	core := submitInCore(t, l, ledger.NewRun{ID: "a", Kind: updates, Tenant: "acme"}, 200, 200)
	for number, rows := range []int{200, 200} {
		var endings []ledger.Ending
		for range rows {
			endings = append(endings, ledger.Result{Outcome: ledger.Done, Evidence: fmt.Appendf(nil, "proof of %d\x00", number)})
		}
		core.end(number, endings...)
	}
	all := collect(t, l.Evidence(t.Context(), ledger.Run{Tenant: "acme", ID: "a"}))
	if len(all) != 400 || all[199].Item != 199 || string(all[199].Evidence) != "proof of 0\x00" || all[200].Item != 200 ||
		string(all[200].Evidence) != "proof of 1\x00" {
		t.Errorf("%d rows with evidence", len(all))
	}
	state, err := l.Row(t.Context(), ledger.Run{Tenant: "acme", ID: "a"}, 207)
	if err != nil || string(state.Evidence) != "proof of 1\x00" || state.Result == nil || state.Result.Outcome != "done" {
		t.Errorf("row 207 is %+v, %v", state, err)
	}
	if all := results(t, l, "a"); len(all) != 0 {
		t.Errorf("rows that are plainly done have results %v", all)
	}
	check(t, runstest.Control(t.Context(), l.Core(), (*ledger.Ledger).Delete, "a"))
	for row, err := range l.Evidence(t.Context(), ledger.Run{Tenant: "acme", ID: "a"}) {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("after the run was deleted: %+v, %v", row, err)
		}
	}
}

// TestAll: all runs are listed, also single rows that have ended.
func TestAll(t *testing.T) {
	l, _ := newLedger(t)
	var want []ledger.RunID
	for i := range 20 {
		id := ledger.RunID(fmt.Sprint("run-", i))
		create(t, l, ledger.NewRun{ID: id})
		want = append(want, id)
	}
	submitRow(t, l, ledger.NewRun{ID: "single", Kind: updates, Tenant: "default"}, `{}`).end(0, done())
	want = append(want, "single")
	all, err := l.All(t.Context())
	check(t, err)
	slices.Sort(want)
	got := slices.Sorted(slices.Values(ledgerIDs(all)))
	if !slices.Equal(got, want) {
		t.Errorf("ids %q, want %q", got, want)
	}
}

func ledgerIDs(all []ledger.Run) (ids []ledger.RunID) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}
