package tasks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/redistest"
	"orgops/tasks"
)

// TestTasksOfRows holds that the task of a row is found wherever it has come to, and
// that one which is to be carried out goes before one that has ended.
func TestTasksOfRows(t *testing.T) {
	rdb := redistest.New(t)
	client, inspector := asynq.NewClientFromRedisClient(rdb), asynq.NewInspectorFromRedisClient(rdb)
	enqueue := func(queue, id string, archived bool) {
		t.Helper()
		_, err := client.EnqueueContext(t.Context(), asynq.NewTask(tasks.TypeVerify, nil), asynq.Queue(queue), asynq.TaskID(id))
		if err == nil && archived {
			err = inspector.ArchiveTask(queue, id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue("default.dns.fast", "r-0-1", false)
	enqueue("default.dns.fast", "r-0-0", false) // of before it was resumed
	enqueue("default.api.fast", "r-1-1c", false)
	enqueue("default.dns.fast", "r-1-1", true)
	enqueue("default.dns.fast", "r-2-1.1", false)
	enqueue("default.dns.fast", "r-3-1", true)
	run := tasks.Run{ID: "r", Kind: tasks.TypeVerify, Tenant: "default", Generation: 1, Rows: 5}
	got, err := tasks.NewQueued(rdb).OfRows(t.Context(), run, []int64{0, 1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]tasks.TaskName{
		0: {Queue: "default.dns.fast", ID: "r-0-1"}, 1: {Queue: "default.api.fast", ID: "r-1-1c"},
		2: {Queue: "default.dns.fast", ID: "r-2-1.1"}, 3: {Queue: "default.dns.fast", ID: "r-3-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	run.Kind = tasks.TypeRemove // rows of which share their tasks
	if got, err := tasks.NewQueued(rdb).OfRows(t.Context(), run, []int64{0}); len(got) != 0 || err != nil {
		t.Errorf("of rows that share their tasks: %v, %v", got, err)
	}
}
