package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/pace"
)

// TestBlockedChanges: proven rows whose change is blocked hold back no first reads of other
// runs, nor rows that make no request.
func TestBlockedChanges(t *testing.T) {
	s := newSite(t)
	var changes atomic.Int64
	s.start(func(o *options) {
		o.dispatch.Kinds = map[ledger.Kind]dispatch.Kind{
			kinds.Verify: {
				Operations: dispatch.Operations{First: []string{apiclient.OpGetDiscoveryDomain}, Ready: []string{apiclient.OpUpdateDiscoveryDomain}},
				Cost:       dispatch.Cost{First: 2, Ready: 2},
			},
			kinds.Relook: {},
			kinds.Remove: {Operations: dispatch.Always(apiclient.OpRemoveOrganizationClients), Cost: dispatch.Cost{First: 1, Check: 1, Ready: 1}},
		}
		o.dispatch.Rate = func() float64 { return 10 }
		o.dispatch.Pace = func(context.Context) (pace.State, error) {
			at := time.Now()
			return pace.State{At: at, Blocks: []pace.Block{{Operation: apiclient.OpUpdateDiscoveryDomain, NextProbe: at.Add(time.Minute)}}}, nil
		}
		done := engine.One(func(context.Context, *engine.Execution, *engine.Row) (ledger.Result, error) {
			return ledger.Result{Outcome: ledger.Done}, nil
		})
		o.engine.Handlers = map[ledger.Kind]engine.Handler{
			kinds.Verify: engine.One(func(_ context.Context, _ *engine.Execution, row *engine.Row) (ledger.Result, error) {
				changes.Add(1)
				row.Stage = ledger.StageReady
				return ledger.Result{}, &engine.WaitError{Outcome: engine.Blocked, Reason: "blocked", After: time.Second}
			}),
			kinds.Relook: done,
			kinds.Remove: done,
		}
	})
	const enough = 12 // they need more than two seconds of the pace
	s.submit("blocked", kinds.Verify, s.domains(enough))
	s.await("all changes are blocked", func() bool { return changes.Load() == enough })
	s.submit("checks", kinds.Relook, s.domains(5))
	s.submit("removals", kinds.Remove, s.domains(5))
	s.awaitEnd("checks")
	s.awaitEnd("removals")
}
