package tasks_test

import (
	"testing"

	"orgops/tasks"
)

func TestQueues(t *testing.T) {
	for _, test := range []struct {
		name string
		lane tasks.Lane
		want string
	}{
		{tasks.DNSQueue("default", tasks.Normal), tasks.Normal, "default.dns"},
		{tasks.DNSQueue("default", tasks.Fast), tasks.Fast, "default.dns.fast"},
		{tasks.APIQueue("acme-1", tasks.Normal), tasks.Normal, "acme-1.api"},
		{tasks.APIQueue("acme-1", tasks.Fast), tasks.Fast, "acme-1.api.fast"},
	} {
		if test.name != test.want || tasks.LaneOf(test.name) != test.lane {
			t.Errorf("queue %q of lane %t, want %q of lane %t", test.name, tasks.LaneOf(test.name), test.want, test.lane)
		}
	}
}

func TestTaskIDs(t *testing.T) {
	look := tasks.RowTaskID("20261120-run_c", 17, 2)
	for _, test := range []struct{ got, want string }{
		{look, "20261120-run_c-17-2"},
		{tasks.ConfirmTaskID(look), "20261120-run_c-17-2c"},
		{tasks.NextLookTaskID(tasks.ConfirmTaskID(look)), "20261120-run_c-17-2.1"},
		{tasks.ConfirmTaskID("a-0-0.1"), "a-0-0.1c"},
		{tasks.NextLookTaskID("a-0-0.1c"), "a-0-0.2"},
		{tasks.NextLookTaskID("a-0-0.9c"), "a-0-0.10"},
		{tasks.NextLookTaskID("a-0-0.99c"), "a-0-0.100"},
		{tasks.NextLookTaskID("a-0-0.xc"), "a-0-0.x.1"}, // never made, never lost
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
	seen := map[string]bool{}
	id := look
	for range 1000 {
		if seen[id] {
			t.Fatalf("id %q comes twice", id)
		}
		seen[id] = true
		id = tasks.NextLookTaskID(tasks.ConfirmTaskID(id))
	}
}

// TestBatchTaskID: the name is a promise to producers of other versions, which
// must name the same batch the same.
func TestBatchTaskID(t *testing.T) {
	if got, want := tasks.BatchTaskID("run", []int64{0, 1, 2, 10_000}, 0), "run-2e0ba040a67fa64c-0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ids := map[string][]int64{}
	for _, items := range [][]int64{{1}, {2}, {1, 2}, {12}, {1, 2, 3}, {12, 3}, {1, 23}, {123}} {
		id := tasks.BatchTaskID("run", items, 0)
		if other, ok := ids[id]; ok {
			t.Errorf("batches %v and %v have one name", items, other)
		}
		ids[id] = items
		if tasks.BatchTaskID("run", items, 1) == id || tasks.BatchTaskID("run2", items, 0) == id {
			t.Errorf("batch %v has one name in two generations or runs", items)
		}
	}
}
