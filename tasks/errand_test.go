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
