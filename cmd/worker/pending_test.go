package main

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestPending checks that a worker configured with the tenant's name alone finds the pending
// domains and verifies them, also if a gateway answers a page of each list with a 404 of its own.
func TestPending(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]sandbox.Fault{"undisturbed": nil, "behind a gateway": {
		{Operation: sandbox.OpListOrganizations, Status: http.StatusNotFound, HTML: true, Skip: 1, Count: 1},
		{Operation: sandbox.OpListDiscoveryDomains, Status: http.StatusNotFound, HTML: true, Skip: 50, Count: 1},
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := startBox(t, sandbox.Options{})
			for i := range 120 {
				d := box.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i)})
				box.SetTXT(d.Host, d.TXT)
			}
			for _, fault := range faults {
				box.AddFault(fault)
			}
			d := newDesk(t)
			if _, _, err := intake.New(d.redis, d.ledger).BeginPending(t.Context(), "",
				ledger.NewRun{ID: "job", Tenant: "default"}); err != nil {
				t.Fatal(err)
			}
			p := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain") // waits for the run, sealed or not
			if status := p.wait(); status != 0 {
				t.Errorf("exit status %d, want 0", status)
			}
			if r := d.run("job"); !r.Ended() || r.Counts["done"] != 120 {
				t.Errorf("run %+v, want 120 done", r)
			}
		})
	}
}

// TestPendingBesideABadRecord checks that a record outside the specification is one refused
// row with its reason, and that the other domains of its organization are verified. A retry
// verifies the record once it is valid.
func TestPendingBesideABadRecord(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	for i := range 3 {
		d := box.AddDomain("org_1", sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example.org", i)})
		box.SetTXT(d.Host, d.TXT)
	}
	fix := box.AddFault(sandbox.Fault{Operation: sandbox.OpListDiscoveryDomains, Wrong: func(d *sandbox.Domain) {
		if d.ID == "ord_1" {
			d.TXT = ""
		}
	}})
	d := newDesk(t)
	taker := intake.New(d.redis, d.ledger)
	if _, _, err := taker.BeginPending(t.Context(), "", ledger.NewRun{ID: "job", Tenant: "default"}); err != nil {
		t.Fatal(err)
	}
	work := func() {
		t.Helper()
		if status := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain").wait(); status != 0 {
			t.Errorf("exit status %d, want 0", status)
		}
	}
	work()
	if r := d.run("job"); !r.Ended() || r.Counts["done"] != 2 || r.Counts["refused"] != 1 {
		t.Errorf("run %+v, want 2 done and 1 refused", r)
	}
	var out bytes.Buffer
	if _, err := intake.ExportFailed(t.Context(), d.ledger, d.run("job"), intake.Export{}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `{"organization_id":"org_1","discovery_domain_id":"ord_1","orgops_outcome":"refused",` +
		`"orgops_error":"organization org_1: domains[1], id ord_1: missing or empty: verification_txt"}` + "\n"
	if out.String() != want {
		t.Errorf("exported %s\nwant %s", out.String(), want)
	}
	fix()
	if _, err := taker.Retry(t.Context(), ledgertest.Find(t, taker.Ledger, "job"),
		intake.RetryOptions{ID: "again"}); err != nil {
		t.Fatal(err)
	}
	work()
	if r := d.run("again"); !r.Ended() || r.Total() != 1 || r.Counts["done"] != 1 {
		t.Errorf("run %+v, want 1 done", r)
	}
}
