package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/sandbox"
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

// removed returns what the tenant was asked to remove, as rows in their order.
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

// TestRunIDUsedAgain: a run that was cancelled and deleted is submitted again under its
// id, with other clients. Only these are removed.
func TestRunIDUsedAgain(t *testing.T) {
	f := assemble(t)
	wrong, right := f.clientRows(40)
	f.submitClients("nightly", wrong)
	f.typed("runs", "cancel", "nightly")
	f.typed("runs", "delete", "nightly")
	f.submitClients("nightly", right)
	f.work("one")
	if r := f.ended("nightly"); r.Counts["done"] != int64(len(right)) {
		t.Errorf("counts %v, want %d done", r.Counts, len(right))
	}
	f.wantRemoved(right)
}

// TestArchivedTasksAreHarmless: asynq's archive keeps tasks of rows that were refused.
// Their run is deleted, and submitted again with other clients. The first ones stay
// undone also when an operator runs the archived tasks.
func TestArchivedTasksAreHarmless(t *testing.T) {
	f := assemble(t)
	f.env["ORGOPS_MAX_CLIENTS_PER_REQUEST"] = "1"
	wrong, right := f.clientRows(40)
	f.fault(fmt.Sprintf(`{"operation":%q,"status":400}`, sandbox.OpRemoveOrganizationClients))
	f.work("one")
	f.submitClients("nightly", wrong)
	if r := f.ended("nightly"); r.Counts["refused"] != int64(len(wrong)) {
		t.Errorf("counts %v, want %d refused", r.Counts, len(wrong))
	}
	f.typed("runs", "delete", "nightly")
	f.quick()
	f.submitClients("nightly", right)
	if r := f.ended("nightly"); r.Counts["done"] != int64(len(right)) {
		t.Errorf("counts %v, want %d done", r.Counts, len(right))
	}
	queue := engine.Queue(tasks.DefaultTenant)
	if n, err := asynq.NewInspectorFromRedisClient(f.redis).RunAllArchivedTasks(queue); err != nil || n != len(wrong) {
		t.Fatalf("%d archived tasks, %v; want %d", n, err, len(wrong))
	}
	f.awaitNoTask(queue)
	f.wantRemoved(right)
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

// TestSingleRowStaysCancelled: a row that a service has enqueued by itself, and that was
// cancelled and deleted while the tenant was in trouble, is not carried out later.
func TestSingleRowStaysCancelled(t *testing.T) {
	f := assemble(t)
	rows, _ := f.clientRows(2)
	organization, client, _ := strings.Cut(rows[0], ",")
	f.fault(fmt.Sprintf(`{"operation":%q,"status":503}`, sandbox.OpRemoveOrganizationClients))
	kind, _ := tasks.KindOf(tasks.TypeRemove)
	row, err := kind.Parse(json.RawMessage(fmt.Sprintf(`{"organization_id":%q,"client_id":%q}`, organization, client)), tasks.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.NewProducer(asynq.NewClientFromRedisClient(f.redis), nil).Enqueue(t.Context(), tasks.Alone{ID: "signup-4711", Row: row}); err != nil {
		t.Fatal(err)
	}
	f.work("one")
	await(t, "its run", func() bool { _, err := f.ledger.Get(t.Context(), "signup-4711"); return err == nil })
	f.openFor("signup-4711", 1, "503")
	f.typed("runs", "cancel", "signup-4711")
	f.typed("runs", "delete", "signup-4711")
	f.quick()
	f.awaitNoTask(tasks.APIQueue(tasks.DefaultTenant, tasks.Fast))
	if clients := f.state().Clients[organization]; !slices.Contains(clients, client) {
		t.Errorf("client %s was removed after its row was cancelled and deleted", client)
	}
	if r, err := f.ledger.Get(t.Context(), "signup-4711"); err == nil {
		t.Errorf("its run is back: %+v", r)
	}
}
