package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/release"
	"orgops/tasks/handlers"
)

// TestBlockedChanges: proven rows whose change is blocked hold back no first reads of other
// runs, nor rows that make no request.
func TestBlockedChanges(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		var changes atomic.Int64
		s.start(func(o *options) {
			o.dispatch.Kinds = map[ledger.Kind]release.Kind{
				handlers.Verify: {
					Operations: release.Operations{First: []string{schema.OpGetDiscoveryDomain},
						Ready: []string{schema.OpUpdateDiscoveryDomain}},
					Cost: release.Cost{First: 2, Ready: 2},
				},
				handlers.Recheck: {},
				handlers.Remove: {Operations: release.Always(schema.OpRemoveOrganizationClients),
					Cost: release.Cost{First: 1, Check: 1, Ready: 1}},
			}
			o.dispatch.Rate = func() float64 { return 10 }
			o.dispatch.Pace = func(context.Context) (pace.State, error) {
				at := time.Now()
				return pace.State{
					At: at, Blocks: []pace.Block{{Operation: schema.OpUpdateDiscoveryDomain, NextProbe: at.Add(time.Minute)}},
				}, nil
			}
			o.engine.Handlers = map[ledger.Kind]engine.Handler{
				handlers.Verify: engine.One(func(_ context.Context, _ *engine.Execution, row *engine.Row) *engine.Consequence {
					changes.Add(1)
					row.Stage = ledger.StageReady
					return &engine.Consequence{Outcome: ledger.Blocked, Reason: "blocked", After: time.Second}
				}),
				handlers.Recheck: done,
				handlers.Remove:  done,
			}
		})
		const enough = 12 // they need more than two seconds of the pace
		s.submit("blocked", handlers.Verify, s.domains(enough))
		s.await("all changes are blocked", func() bool { return changes.Load() == enough })
		s.submit("checks", handlers.Recheck, s.domains(5))
		s.submit("removals", handlers.Remove, s.domains(5))
		s.awaitEnd("checks")
		s.awaitEnd("removals")
	})
}

// TestProbesOfAllRuns: rows of an older run cannot end a block, since the API refuses them. The
// probes go to a newer run too, whose first row ends it: neither waits for the other's rows.
func TestProbesOfAllRuns(t *testing.T) {
	t.Parallel()
	for name, operations := range map[string]release.Operations{
		"of rows that need the operation":        release.Always(schema.OpUpdateDiscoveryDomain),
		"of a run that is also served meanwhile": {Ready: []string{schema.OpUpdateDiscoveryDomain}},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				var older, newer atomic.Int64
				s.start(func(o *options) {
					o.dispatch.Kinds = map[ledger.Kind]release.Kind{
						handlers.Verify: {Operations: operations, Cost: release.Cost{First: 1, Check: 1, Ready: 1}},
					}
					o.dispatch.Rate = func() float64 { return 10 }
					o.dispatch.Pace = func(context.Context) (pace.State, error) {
						at := time.Now()
						if newer.Load() > 0 {
							return pace.State{At: at}, nil
						}
						return pace.State{
							At: at, Blocks: []pace.Block{{Operation: schema.OpUpdateDiscoveryDomain, NextProbe: at}},
						}, nil
					}
					o.engine.Handlers = map[ledger.Kind]engine.Handler{
						handlers.Verify: engine.One(func(_ context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
							isBlocked := newer.Load() == 0
							switch {
							case operations.First == nil && row.Stage != ledger.StageReady:
								row.Stage = ledger.StageReady
								return &engine.Consequence{Outcome: ledger.Blocked, Reason: "blocked", After: time.Second}
							case x.Run == "newer":
								newer.Add(1)
							case isBlocked:
								older.Add(1)
							}
							return engine.Settle(ledger.Result{Outcome: ledger.Refused, Detail: "404"})
						}),
					}
				})
				s.submit("older", handlers.Verify, s.domains(100))
				s.await("a probe of the older run", func() bool { return older.Load() > 0 })
				s.submit("newer", handlers.Verify, s.domains(5))
				s.awaitEnd("newer")
				s.awaitEnd("older")
				if n := older.Load(); n > 3 {
					t.Errorf("%d probes of the older run before one of the newer", n)
				}
			})
		})
	}
}

// TestStoppedTenant: while an operator has stopped the tenant, rows that need no request are
// released. One of them that needs a permit in the end is refused it at once, and
// waits without an attempt. Nothing is changed.
func TestStoppedTenant(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		limiter := pace.New(pace.Config{Redis: s.rdb, Tenant: string(tenant), Writes: schema.Writes})
		if _, err := limiter.Stop(t.Context(), "alice", "wrong file"); err != nil {
			t.Fatal(err)
		}
		var found atomic.Int64
		s.start(func(o *options) {
			o.dispatch.Pace = limiter.State
			o.dispatch.Kinds[handlers.Verify] = release.Kind{
				Operations: release.Operations{Ready: []string{schema.OpUpdateDiscoveryDomain}},
			}
			o.dispatch.Kinds[handlers.Recheck] = release.Kind{}
			o.engine.Handlers[handlers.Verify] = engine.One(func(ctx context.Context, _ *engine.Execution,
				row *engine.Row) *engine.Consequence {
				found.Add(1)
				row.Stage = ledger.StageReady
				return enginetest.End(limiter.Wait(ctx, pace.Request{Operation: schema.OpUpdateDiscoveryDomain}))
			})
			o.engine.Handlers[handlers.Recheck] = done
		})
		const rows = 40 // more than there are places
		s.submit("updates", handlers.Update, s.domains(rows))
		s.submit("found", handlers.Verify, s.domains(rows))
		s.submit("checks", handlers.Recheck, s.domains(rows))
		s.awaitEnd("checks")
		s.await("all rows wait for a permit", func() bool {
			return s.open("found").Ready == rows
		})
		if n := found.Load(); n != rows {
			t.Errorf("%d executions of %d rows", n, rows)
		}
		run := s.run("found")
		states, err := s.Rows(t.Context(), ledger.Segment{Tenant: run.Tenant, Run: run.ID,
			Incarnation: run.Incarnation}, 0, rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range states {
			if row.Checkpoint.Attempts != 0 || row.Checkpoint.Stage != ledger.StageReady {
				t.Errorf("row %+v", row)
			}
		}
		if o := s.open("updates"); o.Queued != rows || len(s.patches()) != 0 {
			t.Errorf("open rows %+v, %d PATCHes", o, len(s.patches()))
		}
	})
}
