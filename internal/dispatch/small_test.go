package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/tasks"
	"orgops/tasks/handlers"
	"orgops/tasks/releases"
)

// pacedAPI answers each request 50 ms after it got its permit, and has the requests in the order in
// which they were sent: of each the clients that it removes, nil for one of another kind.
type pacedAPI struct {
	*pace.Limiter
	mu   sync.Mutex
	sent [][]string
}

// request sends a request with a permit, unless it is not wanted any more then.
func (a *pacedAPI) request(ctx context.Context, b apiclient.Binding, operation string, clients []string) error {
	if err := a.Wait(ctx, pace.Request{Operation: operation, Class: pace.Class(b.Class)}); err != nil {
		return err
	}
	if b.Before != nil {
		if err := b.Before(ctx); err != nil {
			a.Answered(ctx, operation, 0, nil, 0)
			return err
		}
	}
	a.mu.Lock()
	a.sent = append(a.sent, clients)
	a.mu.Unlock()
	err := engine.Sleep(ctx, 50*time.Millisecond)
	a.Answered(ctx, operation, 200, nil, 0)
	return err
}

// pacedClients is the API as the client of an execution reaches it.
type pacedClients struct {
	*pacedAPI
	binding apiclient.Binding
}

// RemoveOrganizationClients implements [handlers.Clients].
func (c pacedClients) RemoveOrganizationClients(ctx context.Context, _ string, clients []string) error {
	return c.request(ctx, c.binding, schema.OpRemoveOrganizationClients, clients)
}

// requests returns how many requests were sent, how many of them before the last removal, and how
// many clients were removed.
func (a *pacedAPI) requests() (all, before, removed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, clients := range a.sent {
		if removed += len(clients); clients != nil {
			before = i
		}
	}
	return len(a.sent), before, removed
}

// TestSmallRunsBesideABigOne submits 110 removals in 20 organizations, each by itself, while a big
// run has used up the tenant's rate for 20 s: none waits for more requests than the tenant allows
// in the batch wait and five seconds.
func TestSmallRunsBesideABigOne(t *testing.T) {
	t.Parallel()
	const big ledger.Kind = "big"
	const perSecond, removals, organizations, batchWait = 20, 110, 20, 2
	once := release.Cost{First: 1, Check: 1, Ready: 1}
	for _, c := range []struct {
		name     string
		cost     release.Cost
		requests int  // of an execution
		proves   bool // at its second execution, of stage ready
	}{
		{"as many requests as they cost", once, 1, false},
		{"more requests than they cost", once, 4, false},
		{"proven rows", release.Cost{Ready: 2}, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onSite(t, func(t *testing.T, s *site) {
				redistest.Mini(t) // on a real one the machine has its part in the waits
				api := &pacedAPI{}
				execute := func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
					if c.proves && row.Stage != ledger.StageReady {
						return engine.Ready("waits for a permit")
					}
					for range c.requests {
						if err := api.request(ctx, x.Fenced(), schema.OpUpdateDiscoveryDomain, nil); err != nil {
							return enginetest.End(err)
						}
					}
					return engine.Settle(ledger.Result{})
				}
				s.submit("big", big, make([][]byte, 2000)) // more than the rate allows in the time of the test
				s.start(func(o *options) {
					api.Limiter = pace.New(pace.Config{Redis: s.rdb, Tenant: string(tenant), Stopping: o.engine.Stopping,
						Limit: pace.Limit{Rate: pace.Rate{Count: perSecond, Per: time.Second}, Burst: perSecond}})
					o.places, o.dispatch.Places = 450, 450 // as those of cmd/worker
					o.dispatch.Pace, o.dispatch.Rate = api.State, func() float64 { return perSecond }
					o.dispatch.Ahead = func() time.Duration { return api.Ahead(pace.Finish) }
					o.dispatch.Kinds = releases.Kinds(schema.MaxClientsPerRequest)
					o.dispatch.Kinds[big] = release.Kind{Cost: c.cost}
					o.engine.Handlers = map[ledger.Kind]engine.Handler{big: engine.One(execute),
						handlers.Remove: handlers.NewRemove(handlers.RemoveConfig{
							API:   func(b apiclient.Binding) handlers.Clients { return pacedClients{api, b} },
							Limit: pace.NewClientLimit(s.rdb, string(tenant))})}
				})
				var submitted int
				s.await("the requests of 20 s", func() bool {
					submitted, _, _ = api.requests()
					return submitted >= 20*perSecond
				})
				for i := range removals {
					s.remove(fmt.Sprint("org_", i%organizations), fmt.Sprint("client_", i), batchWait*time.Second)
				}
				var last int
				s.await("the removals", func() bool {
					_, before, removed := api.requests()
					last = before
					return removed == removals
				})
				if n, most := last-submitted, (batchWait+5)*perSecond; n > most {
					t.Errorf("%d requests were sent before the last removal, want at most %d", n, most)
				}
			})
		})
	}
}

// remove submits the removal of a client by itself.
func (s *site) remove(organization, client string, wait time.Duration) {
	s.t.Helper()
	row, err := json.Marshal(tasks.RemoveRow{OrganizationID: organization, ClientID: client})
	if err != nil {
		s.t.Fatal(err)
	}
	n := ledger.NewRun{ID: ledger.RunID(client), Tenant: tenant, Kind: handlers.Remove,
		Description: ledger.Description{Group: organization, BatchWait: wait}}
	if _, _, err := s.SubmitRow(s.t.Context(), n, row); err != nil {
		s.t.Fatal(err)
	}
}
