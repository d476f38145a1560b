package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/producer"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestRestorationIsNotRepeated checks that a restoration is not retried, and that submitted
// rows which have its member are treated like any other row.
func TestRestorationIsNotRepeated(t *testing.T) {
	d := newDesk(t)
	taker := intake.New(d.redis, d.ledger)
	const restores = `{"organization_id":"org_1","discovery_domain_id":"ord_1","orgops_restore":true}`
	run := ledger.NewRun{ID: "restore", Tenant: tasks.DefaultTenant, Kind: handlers.Verify,
		Description: ledger.Description{Undoes: "revocation"}}
	if _, err := taker.SubmitChosen(t.Context(), run, [][]byte{[]byte(restores)}); err != nil {
		t.Fatal(err)
	}
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Cancel, "restore"); err != nil {
		t.Fatal(err)
	}
	options := intake.RetryOptions{ID: "again", Outcomes: []string{"cancelled"}}
	if _, err := taker.Retry(t.Context(), ledgertest.Find(t, taker.Ledger, "restore"), options); err == nil ||
		!strings.Contains(err.Error(), "run restore revokes domains, or undoes a change, and is not retried") {
		t.Errorf("retry: %v", err)
	}
	if _, err := d.ledger.Get(t.Context(), "", "again"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the retry exists: %v", err)
	}
	d.handIn(ledger.NewRun{ID: "file"}, tasks.TypeVerify, []byte(restores+"\n"))
	if _, err := producer.New(d.redis).Submit(t.Context(),
		producer.Row{ID: "service", Kind: producer.Verify, Row: []byte(restores)}); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"file", "service"} {
		rows, err := d.ledger.Contents(t.Context(), ledgertest.Find(t, d.ledger, run), 0, 1)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %q, %v", run, rows, err)
		}
		var row tasks.VerifyRow
		if err := json.Unmarshal(rows[0], &row); err != nil || row.Restore || row.DiscoveryDomainID != "ord_1" {
			t.Errorf("%s: %s, %v", run, rows[0], err)
		}
	}
}
