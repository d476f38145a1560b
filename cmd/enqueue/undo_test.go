package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// TestUndoNamesItsRun undoes a run that has set one domain to pending and changed the flag of
// another: each of the two runs says which one it undoes, so that neither is offered for a retry.
func TestUndoNamesItsRun(t *testing.T) {
	mini := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l := ledger.New(client)
	ledgertest.Submit(t, l, ledger.NewRun{ID: "job", Tenant: tasks.DefaultTenant, Kind: tasks.TypeUpdate},
		`{"organization_id":"org_1","discovery_domain_id":"ord_1","status":"pending"}`,
		`{"organization_id":"org_1","discovery_domain_id":"ord_2","use_for_organization_discovery":false}`)
	packed, err := evidence.Evidence{
		Before: &evidence.Before{Status: schema.StatusVerified, UseForOrganizationDiscovery: new(true)},
	}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	segment, nonce, rows := ledgertest.Begin(t, l, "job", 2)
	done := ledger.Result{Outcome: ledger.Done, Evidence: packed}
	_, err = l.End(t.Context(), segment, nonce, ledger.RowEnd{Row: rows[0], Ending: done},
		ledger.RowEnd{Row: rows[1], Ending: done})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := tenant.Announce(t.Context(), client, tenant.Announced{Tenant: tasks.DefaultTenant}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	args := strings.Fields("domains update --undo job --run back")
	environ := []string{"ORGOPS_REDIS_URL=redis://" + mini.Addr()}
	if status := run(t.Context(), args, strings.NewReader(""), &text, &text, environ); status != 0 {
		t.Fatalf("exit status %d: %s", status, text.String())
	}
	for _, id := range []string{"back", "back-update"} {
		if r := ledgertest.Find(t, l, id); r.Undoes != "job" {
			t.Errorf("run %s undoes %q, want job", id, r.Undoes)
		}
	}
}
