package runs_test

import (
	"fmt"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// TestPage: every run of a caller is on one page, and none of another, also where many
// tenants have a few of them, and one has most.
func TestPage(t *testing.T) {
	l, _ := newLedger(t)
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("of-%02d", i)
		create(t, l, ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(fmt.Sprint("tenant-", i)),
			Description: ledger.Description{Caller: "billing"}})
		want = append(want, id)
	}
	for i := range redistest.Amount(303, 603) {
		caller, id := []string{"billing", "crm", ""}[i%3], fmt.Sprintf("run-%04d", i)
		create(t, l, ledger.NewRun{ID: ledger.RunID(id), Description: ledger.Description{Caller: caller}})
		if caller == "billing" {
			want = append(want, id)
		}
	}
	got := pages(t.Context(), t, l, runs.Query{Match: func(r ledger.Run) bool { return r.Caller == "billing" }, Limit: 70})
	slices.Sort(got) // runs of one millisecond are ordered by their ids
	if !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
}
