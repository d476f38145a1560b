package tasks_test

import (
	"context"
	"testing"

	"orgops/apiclient"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// errands notes what each request is for, by operation.
type errands struct {
	tasks.API
	of map[string]tasks.Errand
}

func (e errands) DiscoveryDomain(ctx context.Context, organization, id string) (apiclient.DiscoveryDomain, error) {
	e.of["read"] = tasks.ErrandOf(ctx)
	return e.API.DiscoveryDomain(ctx, organization, id)
}

func (e errands) UpdateDiscoveryDomain(ctx context.Context, organization, id string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	e.of["update"] = tasks.ErrandOf(ctx)
	return e.API.UpdateDiscoveryDomain(ctx, organization, id, u)
}

func (e errands) OrganizationsPage(ctx context.Context, from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	e.of["walk"] = tasks.ErrandOf(ctx)
	return e.API.OrganizationsPage(ctx, from)
}

// TestErrandsOfSweeps: what a sweep reads is held to its share; what it does, and the
// proof of a pending domain, finishes something.
func TestErrandsOfSweeps(t *testing.T) {
	w := newWorld(t)
	e := errands{w.config.API, map[string]tasks.Errand{}}
	w.reboot(func(c *tasks.Config) { c.API = e })
	w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified"}) // its token is not there
	w.sweep(tasks.SweepOrder{Tick: 1, Pending: true})
	w.queue.spare = []string{tasks.TypeJudge, tasks.TypeRelook}
	w.drain()
	for _, request := range []string{"walk", "read"} {
		if got, want := e.of[request], (tasks.Errand{Sweeping: true}); got != want {
			t.Errorf("the %s is on errand %+v, want %+v", request, got, want)
		}
	}
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: "ord_2", Domain: "two.example.org", Status: "pending", Use: new(true)})
	w.sandbox.SetTXT(d.Host, d.TXT)
	if err := w.ledger.Delete(t.Context(), "run0"); err != nil {
		t.Fatal(err)
	}
	w.queue.tasks = nil
	w.sweep(tasks.SweepOrder{Tick: 2, Pending: true})
	w.queue.spare = []string{tasks.TypeJudge, tasks.TypeRelook}
	w.drain()
	w.wantStatus(org, "ord_2", "verified")
	if got, want := e.of["update"], (tasks.Errand{}); got != want {
		t.Errorf("the PATCH is on errand %+v, want %+v", got, want)
	}
}

func TestErrands(t *testing.T) {
	for _, priority := range []tasks.Priority{tasks.ByRows, tasks.NormalPriority} {
		t.Run(string(priority), func(t *testing.T) {
			w := newWorld(t)
			w.priority = priority
			lane := tasks.Lane(priority == tasks.ByRows)
			e := errands{w.config.API, map[string]tasks.Errand{}}
			w.reboot(func(c *tasks.Config) { c.API = e })
			w.proven(sandbox.Domain{Use: new(false)})
			w.submit(tasks.TypeVerify, verifyRow())
			w.step()
			if got, want := e.of["read"], (tasks.Errand{Lane: lane, Looking: true}); got != want {
				t.Errorf("a look reads on errand %+v, want %+v", got, want)
			}
			w.drain()
			for _, request := range []string{"read", "update"} {
				if got, want := e.of[request], (tasks.Errand{Lane: lane}); got != want {
					t.Errorf("the last %s, of a confirm, is on errand %+v, want %+v", request, got, want)
				}
			}
		})
	}
	if got := tasks.ErrandOf(t.Context()); got != (tasks.Errand{}) {
		t.Errorf("no execution's request is on errand %+v", got)
	}
}
