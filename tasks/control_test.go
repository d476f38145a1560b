package tasks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/intake"
	"orgops/internal/runs"
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

// afterAll submits a row and waits for its end: by then whatever was queued
// before has come up.
func (o *office) afterAll() {
	o.t.Helper()
	o.submit(tasks.TypeCreate, template)
	for got := ""; !strings.HasPrefix(got, "template:create "); { // unchanged, the second time
		got = <-o.signals
	}
	o.close()
}

// TestCancelWithWorkersRunning: what is under way ends as it does, and nothing
// starts after.
func TestCancelWithWorkersRunning(t *testing.T) {
	o, run, letThrough := interrupted(t, 40)
	rows, err := o.ledger.Cancel(t.Context(), run)
	if err != nil || rows != 36 {
		t.Errorf("cancelled %d rows, %v; want the 36 that have not begun", rows, err)
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

// TestPauseInTheMiddleAndResume: each row once, whatever is still queued of it.
func TestPauseInTheMiddleAndResume(t *testing.T) {
	o, run, letThrough := interrupted(t, 40)
	if err := o.ledger.Pause(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	letThrough()
	o.afterAll()
	if n := len(o.requests("update_discovery_domain")); n != 4 {
		t.Errorf("%d requests while paused, want those 4 that were under way", n)
	}
	r, err := o.ledger.Get(t.Context(), run)
	if err != nil || r.Settled != 4 || r.Counts["done"] != 4 || !r.Paused || r.Ended() {
		t.Errorf("paused run is %+v, %v; want 4 done, and the others open", r, err)
	}
	taker := intake.Intake{Ledger: o.ledger, Producer: tasks.NewProducer(o.enqueuer, o.ledger)}
	sum, resumed, err := taker.Resume(t.Context(), run)
	if err != nil || !resumed || sum.Tasks != 36 {
		t.Fatalf("resumed %v with %d tasks, %v; want 36", resumed, sum.Tasks, err)
	}
	o.open(func(c *tasks.Config) { c.API = c.API.(doorAPI).API })
	o.afterAll()
	if n := len(o.requests("update_discovery_domain")); n != 40 {
		t.Errorf("%d requests, want one a row", n)
	}
	if r := o.wantEnded(run); r.Counts["done"] != 40 {
		t.Errorf("counts %v, want 40 done", r.Counts)
	}
}

// TestTasksOfBeforeAResumeAreDropped: what was still queued when the run went on
// has another task by then.
func TestTasksOfBeforeAResumeAreDropped(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddClients(org, clients(150)...)
	run := w.submit(tasks.TypeRemove, w.removals(clients(150)...)...)
	if err := w.ledger.Pause(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if n := w.step(); n.state != "revoked" || n.retried != 0 {
		t.Errorf("a task of a paused run is %q after %d attempts, want it dropped", n.state, n.retried)
	}
	taker := intake.Intake{Ledger: w.ledger, Producer: tasks.NewProducer(w.queue, w.ledger)}
	if _, _, err := taker.Resume(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.drain()
	if n := len(w.requests("remove_organization_clients")); n != 2 {
		t.Errorf("%d requests for two batches, want 2", n)
	}
	if r := w.wantEnded(run); r.Counts["done"] != 150 {
		t.Errorf("counts %v", r.Counts)
	}
}

// dyingQueue takes so many tasks, then none.
type dyingQueue struct {
	tasks.Enqueuer
	left atomic.Int64
}

func (q *dyingQueue) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if q.left.Add(-1) < 0 {
		return nil, errors.New("killed")
	}
	return q.Enqueuer.EnqueueContext(ctx, task, opts...)
}

// TestResumeKilledAndRunAgain: the second one completes it, also where a part of
// what the first one enqueued has been worked on.
func TestResumeKilledAndRunAgain(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{})
	run := w.submit(tasks.TypeUpdate, slices.Repeat([]string{row("organization_id", org, "discovery_domain_id", d.ID, "use_for_organization_discovery", false)}, 20)...)
	if err := w.ledger.Pause(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.drain()
	dying := &dyingQueue{Enqueuer: w.queue}
	dying.left.Store(7)
	killed := intake.Intake{Ledger: w.ledger, Producer: tasks.NewProducer(dying, w.ledger)}
	if _, _, err := killed.Resume(t.Context(), run); err == nil {
		t.Fatal("no error where the queue died")
	}
	for range 3 {
		w.step()
	}
	if r, err := w.ledger.Get(t.Context(), run); err != nil || !r.Resuming || r.Settled != 3 {
		t.Errorf("run is %+v, %v; want it being resumed", r, err)
	}
	taker := intake.Intake{Ledger: w.ledger, Producer: tasks.NewProducer(w.queue, w.ledger)}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, _, err := taker.Resume(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	w.drain()
	if _, resumed, err := taker.Resume(t.Context(), run); resumed || !errors.Is(err, runs.ErrEnded) {
		t.Errorf("after its end: resumed %v, %v; want ErrEnded", resumed, err)
	}
	if n := len(w.requests("update_discovery_domain")); n != 20 {
		t.Errorf("%d requests, want one a row", n)
	}
	if r := w.wantEnded(run); r.Counts["done"] != 20 || r.Generation != r.First+1 {
		t.Errorf("generation %d, counts %v", r.Generation, r.Counts)
	}
}
