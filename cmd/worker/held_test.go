package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestBlockEnds has the tenant refuse one removal for its scope, before a file of wrong ids:
// the first 404 ends the block. Then it refuses all updates, whose run is cancelled: the worker
// is ready again, and so is one that starts then.
func TestBlockEnds(t *testing.T) {
	redistest.NeedsLong(t, "a blocked operation is tried again after a minute")
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"})
	one := begin(t, env)
	lacksScope := sandbox.Fault{Operation: sandbox.OpRemoveOrganizationClients, Count: 1, Status: http.StatusForbidden,
		Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`}
	box.AddFault(lacksScope)
	const rows = 300
	d.handIn(ledger.NewRun{ID: "wrong"}, tasks.TypeRemove, wrongClients(rows))
	if r := d.ended("wrong"); r.Counts["refused"] != rows {
		t.Errorf("run wrong: %v, want %d refused", r.Counts, rows)
	}
	acts := func(action activity.Action) int {
		all, _, err := activity.Page(t.Context(), d.redis, activity.Query{Tenants: []string{tasks.DefaultTenant},
			Action: action, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	await(t, "a block and its end in the activity, once", func() bool { return acts("blocked") == 1 && acts("unblocked") == 1 })

	lacksScope.Operation, lacksScope.Count = sandbox.OpUpdateDiscoveryDomain, 0
	box.AddFault(lacksScope)
	d.handIn(ledger.NewRun{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(20))
	await(t, "/readyz to name the block", func() bool {
		status, body := one.page("probe-addr", "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "update_discovery_domain is blocked")
	})
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Cancel, "updates"); err != nil {
		t.Fatal(err)
	}
	for _, worker := range []*process{one, begin(t, env)} {
		await(t, "/readyz without the block", func() bool {
			status, _ := worker.page("probe-addr", "/readyz")
			return status == http.StatusOK
		})
	}
}

// wrongClients returns rows of as many organizations that do not exist.
func wrongClients(n int) []byte {
	var rows strings.Builder
	rows.WriteString("organization_id,client_id\n")
	for i := range n {
		fmt.Fprintf(&rows, "org_%016d,abc\n", i)
	}
	return []byte(rows.String())
}
