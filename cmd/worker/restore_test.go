package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/producer"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestRestore has a worker execute the row by which a command restores a status. The flag of the
// row applies to a record that omits it: a flag that was changed meanwhile stays.
func TestRestore(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	for id, flag := range map[string]*bool{"ord_false": new(false), "ord_omits": nil} {
		record := box.AddDomain("org_1", sandbox.Domain{ID: id,
			Domain: strings.TrimPrefix(id, "ord_") + ".example.org", Use: flag})
		box.SetTXT(record.Host, record.TXT)
		for range 2 { // to submit it again is harmless
			d.restore(ledger.RunID("restore-"+id), tasks.VerifyRow{OrganizationID: "org_1", DiscoveryDomainID: id,
				UseForOrganizationDiscovery: new(true)})
		}
	}
	if status := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain").wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for id, want := range map[string]string{
		"ord_false": `{"status":"verified","use_for_organization_discovery":false}`,
		"ord_omits": `{"status":"verified","use_for_organization_discovery":true}`,
	} {
		var got []string
		for _, r := range box.Requests() {
			if r.Operation == sandbox.OpUpdateDiscoveryDomain && r.Domain == id {
				got = append(got, r.Body)
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: PATCHes %q, want %s", id, got, want)
		}
	}
}

// restore submits the row by which a command restores a status.
func (d *desk) restore(id ledger.RunID, row tasks.VerifyRow) {
	d.t.Helper()
	row.Restore = true
	content, err := json.Marshal(row)
	if err == nil {
		_, err = intake.New(d.redis, d.ledger).SubmitChosen(d.t.Context(),
			ledger.NewRun{ID: id, Tenant: tasks.DefaultTenant, Kind: handlers.Verify,
				Description: ledger.Description{GiveUp: time.Hour}}, [][]byte{content})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestRestorationIsNotRepeated checks that a restoration is not retried, and that submitted
// rows which have its member are treated like any other row.
func TestRestorationIsNotRepeated(t *testing.T) {
	d := newDesk(t)
	d.restore("restore", tasks.VerifyRow{OrganizationID: "org_1", DiscoveryDomainID: "ord_1"})
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Cancel, "restore"); err != nil {
		t.Fatal(err)
	}
	taker := intake.New(d.redis, d.ledger)
	options := intake.RetryOptions{ID: "again", Outcomes: []string{"cancelled"}}
	if _, err := taker.Retry(t.Context(), ledgertest.Find(t, taker.Ledger, "restore"), options); err == nil ||
		!strings.Contains(err.Error(), "run restore revokes domains, or undoes that, and is not retried") {
		t.Errorf("retry: %v", err)
	}
	if _, err := d.ledger.Get(t.Context(), "", "again"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the retry exists: %v", err)
	}
	const content = `{"organization_id":"org_1","discovery_domain_id":"ord_1","orgops_restore":true}`
	d.handIn(ledger.NewRun{ID: "file"}, tasks.TypeVerify, []byte(content+"\n"))
	if _, err := producer.New(d.redis).Submit(t.Context(),
		producer.Row{ID: "service", Kind: producer.Verify, Row: []byte(content)}); err != nil {
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
