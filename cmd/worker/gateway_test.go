package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// pageOf is a fault: a gateway answers a request of the operation after some others.
func pageOf(operation string, status, skip int) string {
	return fmt.Sprintf(`{"operation":%q,"status":%d,"html":true,"body":"no such host is configured","count":1,"skip":%d}`,
		operation, status, skip)
}

// TestPendingBehindAGateway has a gateway answer one page of domains and one of
// organizations with a 404 of its own: no domain is left out.
func TestPendingBehindAGateway(t *testing.T) {
	t.Parallel()
	f := assemble(t)
	if status, body := fetch(t, http.MethodGet, f.authURL+"/_sandbox/rows/domains.csv?n=300",
		""); status != http.StatusOK {
		t.Fatalf("rows: %d %s", status, body)
	}
	f.fault(pageOf(sandbox.OpListOrganizations, http.StatusNotFound, 0))
	f.fault(pageOf(sandbox.OpListDiscoveryDomains, http.StatusNotFound, 1))
	f.work("one")
	f.typed("domains", "verify", "--pending", "--follow", "--run", "job") // its exit status is 0
	if r := f.run("job"); r.Counts[ledger.Done] != 300 || r.Total() != 300 {
		t.Errorf("run %+v, want 300 domains verified", r)
	}
	if _, log := fetch(t, http.MethodGet, f.authURL+"/_sandbox/requests", ""); strings.Count(log, `"status":404`) != 2 {
		t.Error("the gateway did not answer twice: the test shows nothing")
	}
}

// TestRowsBehindAGateway has a firewall answer a read and a write of each kind of row, and
// the API refuse the token as no JWT: rows wait, and none is refused.
func TestRowsBehindAGateway(t *testing.T) {
	t.Parallel()
	const rows = 20
	f := assemble(t)
	for _, op := range []string{sandbox.OpGetDiscoveryDomain, sandbox.OpUpdateDiscoveryDomain,
		sandbox.OpRemoveOrganizationClients} {
		f.fault(pageOf(op, http.StatusForbidden, 0))
		f.fault(pageOf(op, http.StatusNotFound, 0))
	}
	f.work("one")
	f.enqueue(rows, submissions[:3]...)()
	for _, s := range submissions[:3] {
		f.desk.well(s.run, rows)
	}

	f.fault(
		`{"status":400,"body":"{\"statusCode\":400,\"error\":\"Bad Request\",\"message\":\"Bad HTTP authentication header format\",\"errorCode\":\"Bearer\"}"}`)
	status, body := fetch(t, http.MethodGet, f.authURL+"/_sandbox/rows/clients.csv?n=20", "")
	if status != http.StatusOK {
		t.Fatalf("rows: %d %s", status, body)
	}
	file := filepath.Join(f.dir, "more.csv")
	write(t, file, body)
	f.typed("clients", "remove", "--run", "more", file)
	f.openFor("more", rows, string(engine.Blocked))
	f.quick()
	f.desk.well("more", rows)
}

// TestPendingBesideAPage is TestPendingBehindAGateway in one process.
func TestPendingBesideAPage(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	for i := range 120 {
		d := box.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i)})
		box.SetTXT(d.Host, d.TXT)
	}
	for op, skip := range map[string]int{sandbox.OpListOrganizations: 1, sandbox.OpListDiscoveryDomains: 50} {
		box.AddFault(sandbox.Fault{Operation: op, Status: http.StatusNotFound, HTML: true, Skip: skip, Count: 1})
	}
	d := newDesk(t)
	if _, _, err := intake.New(d.redis, d.ledger).BeginPending(t.Context(), "",
		ledger.NewRun{ID: "job", Tenant: "default"}); err != nil {
		t.Fatal(err)
	}
	if status := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain").wait(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	if r := d.run("job"); !r.Ended() || r.Counts["done"] != 120 {
		t.Errorf("run %+v, want 120 done", r)
	}
}
