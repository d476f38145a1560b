package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// ready returns the answer of /readyz of the worker of that name.
func (f *fleet) ready(name string) (status int, body string) {
	f.t.Helper()
	for _, line := range f.log(name) {
		if url, ok := line["url"].(string); ok && line["for"] == "probe-addr" {
			return fetch(f.t, http.MethodGet, strings.TrimSuffix(url, "/")+"/readyz", "")
		}
	}
	f.t.Fatal("the worker has no probe address")
	return 0, ""
}

// TestBlockEnds has the tenant refuse one removal for its scope, before a file of wrong ids:
// the first 404 ends the block. Then it refuses all updates, whose run is cancelled: the worker
// is ready again, and so is one that starts then.
func TestBlockEnds(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	const lacksScope = `"status":403,"body":"{\"statusCode\":403,\"error\":\"Forbidden\",\"message\":\"Insufficient scope\",\"errorCode\":\"insufficient_scope\"}"}`
	server := redistest.Start(t)
	f := assembleOn(desk{t, server.Client(), ledger.New(server.Client())}, server.URL())
	f.work("one")

	const rows = 300
	f.fault(`{"operation":"remove_organization_clients","count":1,` + lacksScope)
	write(t, filepath.Join(f.dir, "wrong.csv"), "organization_id,client_id\n"+wrongClients(rows))
	f.typed("clients", "remove", "--run", "wrong", filepath.Join(f.dir, "wrong.csv"))
	if r := f.ended("wrong"); r.Counts["refused"] != rows {
		t.Errorf("run wrong: %v, want %d refused", r.Counts, rows)
	}
	await(t, "a block and its end in the activity, once", func() bool {
		all := f.typed("activity", "--json")
		return strings.Count(all, `"action":"blocked"`) == 1 && strings.Count(all, `"action":"unblocked"`) == 1
	})

	f.fault(`{"operation":"update_discovery_domain",` + lacksScope)
	_, updates := fetch(t, http.MethodGet, f.authURL+"/_sandbox/rows/updates.csv?n=20", "")
	write(t, filepath.Join(f.dir, "updates.csv"), updates)
	f.typed("domains", "update", "--run", "updates", filepath.Join(f.dir, "updates.csv"))
	await(t, "/readyz to name the block", func() bool {
		status, body := f.ready("one")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "update_discovery_domain is blocked")
	})
	f.typed("runs", "cancel", "updates")
	await(t, "/readyz without the block", func() bool { status, _ := f.ready("one"); return status == http.StatusOK })
	f.work("two")
	await(t, "another worker to be ready", func() bool { status, _ := f.ready("two"); return status == http.StatusOK })
}

// wrongClients returns rows of as many organizations that do not exist.
func wrongClients(n int) string {
	var rows strings.Builder
	for i := range n {
		fmt.Fprintf(&rows, "org_%016d,abc\n", i)
	}
	return rows.String()
}
