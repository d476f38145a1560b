package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/producer"
	"orgops/tasks"
)

// clientRows returns an input file of clients that the tenant has, in halves.
func (f *fleet) clientRows(n int) (one, other []string) {
	f.t.Helper()
	status, body := fetch(f.t, http.MethodGet, fmt.Sprintf("%s/_sandbox/rows/clients.csv?n=%d", f.authURL, n), "")
	if status != http.StatusOK {
		f.t.Fatalf("rows: %d %s", status, body)
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")[1:]
	return lines[:n/2], lines[n/2:]
}

// submitClients submits rows as the run of that id, as an operator types it.
func (f *fleet) submitClients(run string, rows []string) {
	f.t.Helper()
	file := filepath.Join(f.dir, run+".csv")
	write(f.t, file, "organization_id,client_id\n"+strings.Join(rows, "\n")+"\n")
	f.typed("clients", "remove", "--run", run, file)
}

// removed returns the rows of the removals that the tenant received, in order.
func (f *fleet) removed() (rows []string) {
	f.t.Helper()
	for _, r := range f.requests() {
		if r.Operation != sandbox.OpRemoveOrganizationClients {
			continue
		}
		var body struct{ Clients []string }
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			f.t.Fatal(err)
		}
		organization := strings.Split(r.Path, "/")[4] // /api/v2/organizations/{id}/clients
		for _, client := range body.Clients {
			rows = append(rows, organization+","+client)
		}
	}
	slices.Sort(rows)
	return rows
}

func (f *fleet) wantRemoved(rows []string) {
	f.t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(rows)), f.removed()); diff != "" {
		f.t.Errorf("removed clients (-want +got):\n%s", diff)
	}
}

// awaitNoTask waits until no task of the queue is to be carried out.
func (f *fleet) awaitNoTask(queue string) {
	f.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(f.redis)
	await(f.t, "an empty queue", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			f.t.Fatal(err)
		}
		return info.Pending+info.Active+info.Scheduled+info.Retry == 0
	})
}

// single submits the removal of a client as a single row.
func (f *fleet) single(id, row string) error {
	f.t.Helper()
	organization, client, _ := strings.Cut(row, ",")
	_, err := producer.New(f.redis).Submit(f.t.Context(), producer.Row{
		ID: id, Kind: producer.Remove, Row: fmt.Appendf(nil, `{"organization_id":%q,"client_id":%q}`, organization, client),
	})
	return err
}

// TestSingleRow checks that a row which a service submits alone is executed once, however
// often it is submitted, and that its end sends no notification. Another row under its ID is
// refused.
func TestSingleRow(t *testing.T) {
	t.Parallel()
	f, l := assemble(t), listen(t, true)
	maps.Copy(f.env, map[string]string{"ORGOPS_WEBHOOKS": l.file, "HOOK": hookSecret})
	rows, others := f.clientRows(2)
	f.work("one")
	for range 3 {
		if err := f.single("signup-4711", rows[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.single("signup-4711", others[0]); !errors.Is(err, producer.ErrMismatch) {
		t.Errorf("another row under its id: %v", err)
	}
	if r := f.ended("signup-4711"); r.Counts["done"] != 1 {
		t.Errorf("counts %v, want one row done", r.Counts)
	}
	if err := f.single("signup-4711", rows[0]); err != nil {
		t.Errorf("submitted after its end: %v", err)
	}
	f.submitClients("nightly", others)
	for _, id := range []ledger.RunID{"signup-4711", "nightly"} {
		await(t, "what follows the end of "+string(id), func() bool {
			r, err := f.ledger.Get(t.Context(), "", id)
			return err == nil && !r.FinishedAt.IsZero()
		})
	}
	await(t, "the event of the run", func() bool { return len(l.events()) > 0 })
	if events := l.events(); !slices.Equal(events, []string{"run.finished nightly"}) {
		t.Errorf("events %q, want that of the run alone", events)
	}
	f.wantRemoved(slices.Concat(rows, others))
}

// message returns the first message that a worker has in progress.
func (f *fleet) message() (left *asynq.Task) {
	f.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(f.redis)
	await(f.t, "a task in progress", func() bool {
		active, err := inspector.ListActiveTasks(engine.Queue(tasks.DefaultTenant))
		if err != nil || len(active) == 0 { // an error: there is no queue yet
			return false
		}
		left = asynq.NewTask(active[0].Type, active[0].Payload)
		return true
	})
	return left
}

// deliver enqueues a message again.
func (f *fleet) deliver(left *asynq.Task) {
	f.t.Helper()
	client := asynq.NewClientFromRedisClient(f.redis)
	if _, err := client.EnqueueContext(f.t.Context(), left, asynq.Queue(engine.Queue(tasks.DefaultTenant))); err != nil {
		f.t.Fatal(err)
	}
}

// TestSingleRowStaysCancelled checks that a single row which was cancelled during a failure of
// the tenant is not executed later, also if it was deleted and its task is still in the queue.
func TestSingleRowStaysCancelled(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]func(f *fleet, row string){
		"cancelled": func(f *fleet, row string) {
			if err := f.single("signup-4711", row); err != nil {
				f.t.Errorf("submitted again: %v", err)
			}
		},
		"deleted": func(f *fleet, _ string) {
			f.typed("runs", "delete", "signup-4711")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := assemble(t)
			rows, others := f.clientRows(2)
			f.fault(fmt.Sprintf(`{"operation":%q,"status":503,"latency_ms":200}`, sandbox.OpRemoveOrganizationClients))
			if err := f.single("signup-4711", rows[0]); err != nil {
				t.Fatal(err)
			}
			one := f.work("one")
			left := f.message()
			f.openFor("signup-4711", 1, "503")
			f.typed("runs", "cancel", "signup-4711")
			f.ended("signup-4711")
			rest(f, rows[0])
			f.quick()
			before := len(f.removed())
			f.deliver(left)
			one.signal(syscall.SIGKILL)
			_ = one.wait(patience) // killed
			f.deliver(left)
			f.work("two") // it reads the due rows from the ledger
			f.submitClients("nightly", others)
			f.ended("nightly")
			f.awaitNoTask(engine.Queue(tasks.DefaultTenant))
			if n := len(f.removed()) - before; n != 1 { // that of the other run
				t.Errorf("%d requests after it was cancelled, want 1", n)
			}
			organization, client, _ := strings.Cut(rows[0], ",")
			if clients := f.state().Clients[organization]; !slices.Contains(clients, client) {
				t.Errorf("client %s was removed after its row was cancelled", client)
			}
			if r, err := f.ledger.Get(t.Context(), "", "signup-4711"); name == "deleted" && err == nil {
				t.Errorf("its run is back: %+v", r)
			}
		})
	}
}
