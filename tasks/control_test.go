package tasks_test

import (
	"context"
	"slices"
	"testing"

	"orgops/apiclient"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// doorAPI lets updates wait at a door, and tells of each that has come to it.
type doorAPI struct {
	tasks.API
	came chan struct{}
	open chan struct{}
}

func (d doorAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	d.came <- struct{}{}
	<-d.open
	return d.API.UpdateDiscoveryDomain(ctx, org, id, u)
}

// interrupted is an office with a run of updates, of which the workers' four are
// under way and the others in the queue.
func interrupted(t *testing.T, rows int) (o *office, run string, letThrough func()) {
	t.Helper()
	o = newOffice(t)
	d := o.proven(sandbox.Domain{})
	run = o.submit(tasks.TypeUpdate, slices.Repeat([]string{row("organization_id", org, "discovery_domain_id", d.ID, "status", "pending", "use_for_organization_discovery", false)}, rows)...)
	door := doorAPI{o.config.API, make(chan struct{}, rows), make(chan struct{})}
	o.open(func(c *tasks.Config) { c.API = door })
	for range 4 {
		<-door.came
	}
	return o, run, func() { close(door.open) }
}

// afterAll hands in a row and waits for its end: by then whatever was queued
// before has come up.
func (o *office) afterAll() {
	o.t.Helper()
	o.submit(tasks.TypeCreate, template)
	o.await("template:create done")
	o.close()
}

// TestCancelWithWorkersRunning: what is under way ends as it does, and nothing
// starts after.
func TestCancelWithWorkersRunning(t *testing.T) {
	o, run, letThrough := interrupted(t, 40)
	rows, err := o.ledger.Cancel(t.Context(), run)
	if err != nil || rows != 40 {
		t.Fatalf("cancelled %d rows, %v; want all 40, which are open", rows, err)
	}
	letThrough()
	o.afterAll()
	if n := len(o.requests("update_discovery_domain")); n != 4 {
		t.Errorf("%d requests, want those 4 that were under way", n)
	}
	if r := o.wantEnded(run); r.Counts["done"] != 4 || r.Counts["cancelled"] != 36 {
		t.Errorf("counts %v, want 4 done and 36 cancelled", r.Counts)
	}
	left, err := o.inspector.GetQueueInfo("default.api.fast")
	if err != nil || left.Pending+left.Active+left.Scheduled+left.Retry+left.Archived > 0 {
		t.Errorf("left in the queue: %+v, %v", left, err)
	}
}
