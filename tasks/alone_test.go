package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestAloneIDs: a row that is submitted twice is one row, and another row under
// its id changes nothing.
func TestAloneIDs(t *testing.T) {
	removal := func(client string) string { return row("organization_id", org, "client_id", client) }
	w := newWorld(t)
	w.sandbox.AddClients(org, "client_1", "client_2")
	w.submitAlone(tasks.TypeRemove, removal("client_1"))
	w.submitAlone(tasks.TypeRemove, removal("client_1"))
	if n := len(w.queue.tasks); n != 1 {
		t.Errorf("%d tasks of one row", n)
	}
	w.drain()
	w.wantFate("run0", 0, "done")

	w.queue.tasks = nil // as after the retention of the finished task
	w.submitAlone(tasks.TypeRemove, removal("client_1"))
	w.drain()
	w.submitAlone(tasks.TypeRemove, removal("client_2"))
	if n := len(w.requests(sandbox.OpRemoveOrganizationClients)); n != 1 {
		t.Errorf("%d requests, want the one of the first task", n)
	}

	w.queue.tasks = nil
	w.submitAlone(tasks.TypeRemove, removal("client_2"))
	q := w.step()
	if q.state != "archived" || !strings.Contains(q.lastErr.Error(), "run0 exists with another content") {
		t.Errorf("another row under the id: %s, %v", q.state, q.lastErr)
	}
	if left := w.sandbox.Clients(org); len(left) != 1 || left[0] != "client_2" {
		t.Errorf("clients left: %v, want client_2", left)
	}
	w.wantEnded("run0")
}

// TestAloneIsRefused holds what cannot come alone: it is archived, and neither
// works nor settles anything.
func TestAloneIsRefused(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, q *queued){
		"a confirm":             func(_ *testing.T, q *queued) { q.typ = tasks.TypeConfirm },
		"a row that is not 0":   func(t *testing.T, q *queued) { q.alter(t, "item", 1) },
		"more rows than it has": func(t *testing.T, q *queued) { q.alter(t, "item", nil); q.alter(t, "items", []int{0, 1}) },
		"no row":                func(t *testing.T, q *queued) { q.alter(t, "item", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.proven(sandbox.Domain{})
			w.submitAlone(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			q := w.queue.tasks[0]
			change(t, q)
			w.drain()
			if q.state != "archived" || len(w.requests()) != 0 {
				t.Errorf("state %q after %d requests: want it archived after none; %v", q.state, len(w.requests()), q.lastErr)
			}
		})
	}
}

// TestAloneWaits: a ledger that does not answer loses no row, and a task
// of a newer worker waits for one.
func TestAloneWaits(t *testing.T) {
	for name, wait := range map[string]func(*world, *queued){
		"for Redis": func(w *world, _ *queued) {
			down := true
			w.config.Ledger = failingLedger{w.config.Ledger, func(call string) bool { return down && call == "register" }, nil}
			w.reboot()
			for range 3 {
				w.step()
			}
			down = false
		},
		"for a newer worker": func(w *world, q *queued) {
			q.alter(w.t, "v", tasks.Version+1)
			w.step()
			q.alter(w.t, "v", tasks.Version)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.proven(sandbox.Domain{})
			w.submitAlone(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			q := w.queue.tasks[0]
			wait(w, q)
			if q.state != "" {
				t.Errorf("state %q, %v: want it left in the queue", q.state, q.lastErr)
			}
			w.drain()
			w.wantEnded("run0")
			w.wantFate("run0", 0, "done")
		})
	}
}

func TestEnqueueRefuses(t *testing.T) {
	w := newWorld(t)
	k, _ := tasks.KindOf(tasks.TypeRemove)
	good, err := k.Parse(json.RawMessage(row("organization_id", org, "client_id", "client_1")), tasks.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]tasks.Alone{
		"id":     {ID: "a.b", Row: good},
		"tenant": {Tenant: "Acme", Row: good},
		"row":    {},
	} {
		if _, err := tasks.NewProducer(w.queue, nil).Enqueue(t.Context(), a); err == nil || !strings.Contains(err.Error(), map[string]string{"id": "run:", "tenant": "tenant:", "row": "row:"}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.queue.tasks) != 0 {
		t.Errorf("%d tasks of refused rows", len(w.queue.tasks))
	}
}

// A service that has a queue client of its own submits one row as it comes. The
// id that it gets back is what `enqueue runs show` takes.
func ExampleProducer_Enqueue() {
	ctx := context.Background()
	rdb, stop := exampleRedis()
	defer stop()
	client := asynq.NewClientFromRedisClient(rdb)

	verify, _ := tasks.KindOf(tasks.TypeVerify)
	row, err := verify.Parse(json.RawMessage(`{"organization_id": "org_1", "discovery_domain_id": "ord_1"}`), tasks.Defaults{})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := tasks.NewProducer(client, nil).Enqueue(ctx, tasks.Alone{ID: "signup-4711", Row: row})
	fmt.Println(id, err)

	waiting, err := asynq.NewInspectorFromRedisClient(rdb).ListPendingTasks("default.dns.fast")
	fmt.Println(len(waiting), err)
	// Output:
	// signup-4711 <nil>
	// 1 <nil>
}

// Many rows are a run: stored before they are enqueued, counted, and harmless
// to submit again under the run's id, which is how a service goes on that died
// on the way.
func ExampleProducer_Begin() {
	ctx := context.Background()
	rdb, stop := exampleRedis()
	defer stop()
	client, ledger := asynq.NewClientFromRedisClient(rdb), runs.New(rdb)

	handIn := func() (tasks.Summary, error) {
		run, created, err := ledger.Create(ctx, runs.Run{ID: "cleanup-7", Kind: tasks.TypeRemove, Tenant: "default", Format: "jsonl"})
		if err != nil {
			return tasks.Summary{}, err
		}
		submission, err := tasks.NewProducer(client, ledger).Begin(tasks.Run{
			ID: run.ID, Kind: run.Kind, Tenant: run.Tenant, CreatedAt: run.CreatedAt, Generation: run.Generation, Existed: !created,
		})
		if err != nil {
			return tasks.Summary{}, err
		}
		defer submission.Close()
		remove, _ := tasks.KindOf(tasks.TypeRemove)
		for i := range 250 {
			source := fmt.Appendf(nil, `{"organization_id": "org_1", "client_id": "client_%d"}`, i)
			row, err := remove.Parse(source, tasks.Defaults{})
			if err == nil {
				err = submission.Add(ctx, int64(i), source, row)
			}
			if err != nil {
				return tasks.Summary{}, fmt.Errorf("row %d: %w", i, err)
			}
		}
		return submission.Finish(ctx)
	}

	sum, err := handIn()
	fmt.Println(sum.Rows, "rows in", sum.Tasks, "tasks", err)
	sum, err = handIn()
	fmt.Println(sum.Rows, "rows again", err)
	waiting, err := asynq.NewInspectorFromRedisClient(rdb).ListPendingTasks("default.api")
	fmt.Println(len(waiting), "tasks wait", err)
	// Output:
	// 250 rows in 3 tasks <nil>
	// 250 rows again <nil>
	// 3 tasks wait <nil>
}

// exampleRedis is a Redis inside the process.
func exampleRedis() (client *redis.Client, stop func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}

// TestAloneStaysCancelled: a row that was cancelled does nothing when its task comes
// up, also where its run was deleted, or is so old that the ledger has forgotten it.
func TestAloneStaysCancelled(t *testing.T) {
	for name, forget := range map[string]func(w *world) error{
		"cancelled": func(*world) error { return nil },
		"deleted":   func(w *world) error { return w.ledger.Delete(w.t.Context(), "run0") },
		"forgotten": func(w *world) error {
			w.clock.advance(31 * 24 * time.Hour)
			return redistest.New(w.t).FlushDB(w.t.Context()).Err() // its time is the machine's
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddClients(org, "client_1")
			w.submitAlone(tasks.TypeRemove, row("organization_id", org, "client_id", "client_1"))
			left := *w.queue.tasks[0]
			w.sandbox.AddFault(sandbox.Fault{Status: 503, Count: 1})
			w.step() // the run is registered, and its row open
			w.cancelRun()
			if err := forget(w); err != nil {
				t.Fatal(err)
			}
			before := len(w.requests())
			w.drain()
			w.queue.tasks = append(w.queue.tasks, &left) // taken from the archive, or enqueued again
			w.drain()
			if n := len(w.requests()) - before; n != 0 {
				t.Errorf("%d requests after it was cancelled", n)
			}
		})
	}
}

// TestAnotherRowUnderTheID has a task of its own, so that it is refused by name and
// not taken for the row that waits.
func TestAnotherRowUnderTheID(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddClients(org, "client_1", "client_2")
	w.submitAlone(tasks.TypeRemove, row("organization_id", org, "client_id", "client_1"))
	w.submitAlone(tasks.TypeRemove, row("organization_id", org, "client_id", "client_2"))
	if len(w.queue.tasks) != 2 {
		t.Fatalf("%d tasks of two rows", len(w.queue.tasks))
	}
	w.drain()
	if q := w.queue.tasks[1]; q.state != "archived" || !strings.Contains(q.lastErr.Error(), "run0 exists with another content") {
		t.Errorf("the other row: %s, %v", q.state, q.lastErr)
	}
	if left := w.sandbox.Clients(org); len(left) != 1 || left[0] != "client_2" {
		t.Errorf("clients left: %v, want client_2", left)
	}
}
