package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestBlockedForTheFleet: what one worker learns that the credentials may not do
// holds back both, each says so, and when it is granted both go on by themselves.
func TestBlockedForTheFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a probe, half a minute")
	}
	t.Parallel()
	for _, tc := range []struct {
		name        string
		fault       sandbox.Fault
		row, worker string // what row and readiness say
	}{
		{"a scope is missing", sandbox.Fault{Status: http.StatusForbidden, Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`},
			"Insufficient scope", "blocked: update_discovery_domain: 403"},
		{"no token is good", sandbox.Fault{Status: http.StatusUnauthorized}, "401", "blocked: *: 401"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const rows = 12
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0", "ORGOPS_RATE": "50/s", "ORGOPS_BURST": "10"})
			fleet := []*process{begin(t, env), begin(t, env)}
			for _, p := range fleet {
				p.says("worker started", nil)
			}
			tc.fault.Operation = sandbox.OpUpdateDiscoveryDomain
			granted := box.AddFault(tc.fault)
			d.handIn(intake.Run{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.openFor("updates", rows, "blocked: ", tc.row)
			for _, p := range fleet {
				if status, body := p.page("probe-addr", "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, tc.worker) {
					t.Errorf("/readyz: %d %s; want it to say %q", status, body, tc.worker)
				}
			}

			granted()
			// Tasks come again after two minutes; here they do at once, and the next probe
			// still waits for its time.
			inspector := asynq.NewInspectorFromRedisClient(d.redis)
			await(t, "both workers ready", func() bool {
				if _, err := inspector.RunAllRetryTasks(tasks.APIQueue(tasks.DefaultTenant, tasks.Fast)); err != nil {
					t.Fatal(err)
				}
				for _, p := range fleet {
					if status, _ := p.page("probe-addr", "/readyz"); status != http.StatusOK {
						return false
					}
				}
				return true
			})
			await(t, "the end of the run", func() bool {
				if _, err := inspector.RunAllRetryTasks(tasks.APIQueue(tasks.DefaultTenant, tasks.Fast)); err != nil {
					t.Fatal(err)
				}
				return d.run("updates").Ended()
			})
			d.well("updates", rows)
		})
	}
}
