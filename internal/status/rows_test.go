package status_test

import (
	"testing"

	"orgops/apiclient/schema"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/tasks"
)

// TestUpdatedRows checks that a row which an update has settled says what it has replaced.
func TestUpdatedRows(t *testing.T) {
	l := ledger.New(redistest.New(t))
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: tasks.TypeUpdate},
		`{"organization_id":"org_1","discovery_domain_id":"ord_1","status":"pending"}`)
	stored, err := evidence.Evidence{Before: &evidence.Before{Status: schema.StatusVerified}}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	seg, nonce, rows := ledgertest.Begin(t, l, "a", 1)
	end := ledger.RowEnd{Row: rows[0], Ending: ledger.Result{Outcome: ledger.Done, Evidence: stored}}
	if _, err := l.End(t.Context(), seg, nonce, end); err != nil {
		t.Fatal(err)
	}
	every := status.RowsQuery{Which: status.EveryRow, Limit: 10}
	page, _, err := status.RowsPage(t.Context(), l, ledgertest.Find(t, l, "a"), every)
	if err != nil || len(page) != 1 {
		t.Fatalf("%d rows, %v", len(page), err)
	}
	if got, want := page[0].Text(), "done: before: status verified"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
