package tasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestQueuedKnowsEachState brings tasks into each state by asynq itself.
func TestQueuedKnowsEachState(t *testing.T) {
	const queue = "default.api"
	rdb := redistest.New(t)
	client, inspector := asynq.NewClientFromRedisClient(rdb), asynq.NewInspectorFromRedisClient(rdb)
	enqueue := func(id string, options ...asynq.Option) {
		t.Helper()
		options = append(options, asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(25))
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask(id, []byte("{}")), options...); err != nil {
			t.Fatal(err)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hash := func(id string) string { return "asynq:{" + queue + "}:t:" + id }

	for _, id := range []string{"active", "retry", "snoozed", "dropped", "archived", "done", "handed_back"} {
		enqueue(id)
	}
	enqueue("completed", asynq.Retention(time.Hour))
	enqueue("evicted_while_active", asynq.Retention(time.Hour))
	enqueue("evicted_while_pending")
	check(rdb.Del(t.Context(), hash("evicted_while_pending")).Err())
	enqueue("last") // all before it have been taken up when it is

	last, letGo := make(chan struct{}), make(chan struct{})
	worker := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: 20, Queues: map[string]int{queue: 1}, TaskCheckInterval: time.Millisecond, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		IsFailure:      func(err error) bool { return err.Error() != "snoozed" },
	})
	check(worker.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry", "snoozed":
			return errors.New(task.Type())
		case "dropped":
			return asynq.RevokeTask
		case "archived":
			return asynq.SkipRetry
		case "last":
			close(last)
			<-letGo
		case "active", "handed_back", "evicted_while_active":
			<-letGo
		}
		return nil
	})))
	<-last
	inState := func(id string, want asynq.TaskState) func() bool {
		return func() bool {
			info, err := inspector.GetTaskInfo(queue, id)
			return err == nil && info.State == want
		}
	}
	gone := func(id string) func() bool {
		return func() bool { n, err := rdb.Exists(t.Context(), hash(id)).Result(); return err == nil && n == 0 }
	}
	for _, reached := range []func() bool{
		inState("retry", asynq.TaskStateRetry), inState("snoozed", asynq.TaskStateRetry), inState("archived", asynq.TaskStateArchived),
		inState("completed", asynq.TaskStateCompleted), inState("active", asynq.TaskStateActive), gone("dropped"), gone("done"),
	} {
		awaitState(t, reached)
	}
	enqueue("scheduled", asynq.ProcessIn(time.Hour))
	check(inspector.PauseQueue(queue))
	enqueue("pending")
	enqueue("deleted")
	check(inspector.DeleteTask(queue, "deleted"))
	enqueue("archived_by_hand")
	check(inspector.ArchiveTask(queue, "archived_by_hand"))

	want := map[string]bool{
		"pending": true, "active": true, "scheduled": true, "retry": true, "snoozed": true, "handed_back": true, "evicted_while_active": true,
		"completed": false, "archived": false, "archived_by_hand": false, "dropped": false, "done": false, "deleted": false,
		"evicted_while_pending": false, "never_was": false,
	}
	wantStanding(t, queue, want)
	if left := rdb.HGetAll(t.Context(), hash("evicted_while_pending")).Val(); left["state"] != "active" {
		t.Errorf("what is left of an evicted task is %v, want a state alone: asynq does otherwise than it did", left)
	}

	// What was evicted while it ran is handed back without a payload.
	check(rdb.Del(t.Context(), hash("evicted_while_active")).Err())
	worker.Shutdown()
	close(letGo)
	want["evicted_while_active"] = false
	wantStanding(t, queue, want)
	if left := rdb.HGetAll(t.Context(), hash("evicted_while_active")).Val(); left["state"] != "pending" {
		t.Errorf("what is left of it is %v, want a state alone: asynq does otherwise than it did", left)
	}
}

// awaitState waits until ok says yes.
func awaitState(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never came")
		case <-tick.C:
		}
	}
}

func wantStanding(t *testing.T, queue string, want map[string]bool) {
	t.Helper()
	var ids []string
	for id := range want {
		ids = append(ids, id)
	}
	stand, err := tasks.NewQueued(redistest.New(t)).Stand(t.Context(), queue, ids)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for i, id := range ids {
		got[id] = stand[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("which tasks stand (-want +got):\n%s", diff)
	}
}

// TestRepairWithAsynq loses tasks in each way that Redis and people have, while
// others are at every stage, and lets workers finish the run.
func TestRepairWithAsynq(t *testing.T) {
	const rows, queue = 12, "default.api.fast"
	for name, lose := range map[string]func(o *office, id string) error{
		"deleted": func(o *office, id string) error { return o.inspector.DeleteTask(queue, id) },
		"evicted": func(o *office, id string) error {
			return redistest.New(o.t).Del(o.t.Context(), "asynq:{"+queue+"}:t:"+id).Err()
		},
		"archived": func(o *office, id string) error { return o.inspector.ArchiveTask(queue, id) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			d := o.proven(sandbox.Domain{})
			var all []string
			for range rows {
				all = append(all, row("organization_id", org, "discovery_domain_id", d.ID, "use_for_organization_discovery", false))
			}
			run := o.submit(tasks.TypeUpdate, all...)
			for _, id := range []string{run + "-3-0", run + "-4-0", run + "-9-0"} {
				if err := lose(o, redistest.TaskID(t, redistest.New(t), queue, id)); err != nil {
					t.Fatal(err)
				}
			}
			o.wantRepaired(run, intake.Repaired{Open: rows, Lost: 3, Tasks: 3, Standing: rows - 3})
			o.wantRepaired(run, intake.Repaired{Open: rows, Standing: rows})
			o.open()
			o.afterAll()
			if r := o.wantEnded(run); r.Counts["done"] != rows {
				t.Errorf("counts %v, want %d done", r.Counts, rows)
			}
			if n := len(o.requests("update_discovery_domain")); n != rows {
				t.Errorf("%d requests, want one a row", n)
			}
		})
	}
}

// TestRepairAfterTheQueueWasFlushed: all of it is put back.
func TestRepairAfterTheQueueWasFlushed(t *testing.T) {
	o := newOffice(t)
	o.sandbox.AddClients(org, clients(250)...)
	run := o.submit(tasks.TypeRemove, o.removals(clients(250)...)...)
	const queue = "default.api.fast"
	waiting, err := o.inspector.ListPendingTasks(queue)
	if err != nil || len(waiting) != 3 {
		t.Fatalf("%d tasks, %v; want 3", len(waiting), err)
	}
	keys := []string{"asynq:queues", "asynq:{" + queue + "}:pending"}
	for _, task := range waiting {
		keys = append(keys, "asynq:{"+queue+"}:t:"+task.ID)
	}
	rdb := redistest.New(t)
	for _, key := range keys { // on a Cluster not all are in one place
		if err := rdb.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	o.wantRepaired(run, intake.Repaired{Open: 250, Lost: 250, Tasks: 3})
	o.open()
	o.afterAll()
	if r := o.wantEnded(run); r.Counts["done"] != 250 {
		t.Errorf("counts %v, want 250 done", r.Counts)
	}
	if n := len(o.requests("remove_organization_clients")); n != 3 {
		t.Errorf("%d requests for three batches", n)
	}
}

// wantRepaired repairs the run and holds what it came to.
func (o *office) wantRepaired(run string, want intake.Repaired) {
	o.t.Helper()
	got, err := intake.New(redistest.New(o.t), o.ledger).Repair(o.t.Context(), run)
	if err != nil {
		o.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		o.t.Errorf("repaired (-want +got):\n%s", diff)
	}
}
