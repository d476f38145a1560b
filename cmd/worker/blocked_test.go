package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestBlockedForTheFleet checks that a denied permission, seen by one worker, blocks both
// workers. Each reports it, and both resume without help once the permission is granted.
func TestBlockedForTheFleet(t *testing.T) {
	redistest.NeedsLong(t, "waits for a probe, half a minute")
	t.Parallel()
	for _, tc := range []struct {
		name        string
		fault       sandbox.Fault
		row, worker string // in the row and in the worker's readiness
	}{
		{"a scope is missing", sandbox.Fault{Status: http.StatusForbidden,
			Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`},
			"Insufficient scope", "the operation update_discovery_domain is blocked: 403"},
		{"no token is good", sandbox.Fault{Status: http.StatusUnauthorized}, "401", "every operation is blocked: 401"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const rows = 12
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
				"ORGOPS_RATE": "50/s", "ORGOPS_BURST": "10"})
			fleet := []*process{begin(t, env), begin(t, env)}
			for _, p := range fleet {
				p.says("worker started", nil)
			}
			tc.fault.Operation = sandbox.OpUpdateDiscoveryDomain
			granted := box.AddFault(tc.fault)
			d.handIn(ledger.NewRun{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			await(t, "a row that says why it waits", func() bool {
				return slices.ContainsFunc(slices.Collect(maps.Values(d.reasons("updates"))), func(why string) bool {
					return strings.HasPrefix(why, "blocked: ") && strings.Contains(why, tc.row)
				})
			})
			// The answer to a read in progress may clear the block of all operations; the next
			// change blocks them again.
			for _, p := range fleet {
				await(t, "/readyz to say "+tc.worker, func() bool {
					status, body := p.page("probe-addr", "/readyz")
					return status == http.StatusServiceUnavailable && strings.Contains(body, tc.worker)
				})
			}

			granted()
			await(t, "both workers ready", func() bool {
				for _, p := range fleet {
					if status, _ := p.page("probe-addr", "/readyz"); status != http.StatusOK {
						return false
					}
				}
				return true
			})
			d.well("updates", rows)
			counts := map[activity.Action]int{}
			q := activity.Query{Tenants: []string{tasks.DefaultTenant}, Limit: 100}
			all, _, err := activity.Page(t.Context(), d.redis, q)
			for _, e := range all {
				counts[e.Action]++
			}
			if n := counts["blocked"]; n == 0 || n != counts["unblocked"] || tc.fault.Status == 403 && n != 1 || err != nil {
				t.Errorf("activity %v, %v; want a block of the fleet, and its end, once", counts, err)
			}
		})
	}
}
