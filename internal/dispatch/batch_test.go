package dispatch_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// TestBatchesHaveOneGroup has rows of several organizations in one run: each task has
// rows of one, and at most as many as a batch holds.
func TestBatchesHaveOneGroup(t *testing.T) {
	s := newSite(t)
	const kind ledger.Kind = "clients:remove"
	var rows [][]byte
	for i := range 100 {
		rows = append(rows, fmt.Appendf(nil, "%d", i%7))
	}
	s.submit("a", kind, rows)
	d := s.dispatcher(func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]dispatch.Kind{
			kind: {Batch: 10, Group: func(content []byte) string { return string(content) }},
		}
	})
	for range 3 {
		round(t, d)
	}
	tasks, err := asynq.NewInspectorFromRedisClient(s.rdb).ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil {
		t.Fatal(err)
	}
	seen, sizes := map[ledger.Row]bool{}, map[string][]int{}
	for _, info := range tasks {
		task, err := engine.ParseTask(tenant, info.Payload)
		if err != nil {
			t.Fatal(err)
		}
		group := string(task.Rows[0].Content)
		for _, row := range task.Rows {
			if string(row.Content) != group {
				t.Errorf("a task has rows of groups %s and %s", group, row.Content)
			}
			if seen[row.Row] {
				t.Errorf("row %d is in two tasks", row.Row)
			}
			seen[row.Row] = true
		}
		sizes[group] = append(sizes[group], len(task.Rows))
	}
	if len(seen) != len(rows) {
		t.Errorf("%d rows in tasks, want %d", len(seen), len(rows))
	}
	for group, of := range sizes { // 14 or 15 rows each
		slices.Sort(of)
		if len(of) != 2 || of[1] != 10 {
			t.Errorf("group %s has tasks of %v rows, want 10 and the rest", group, of)
		}
	}
}

// TestTogether has runs of one row: those of a group share tasks of at most a batch each,
// and the others have a task each.
func TestTogether(t *testing.T) {
	const kind ledger.Kind = "clients:remove"
	s := newSite(t)
	for i := range 25 { // ten of group a, fifteen of b
		s.submitOne(ledger.RunID(fmt.Sprintf("run-%02d", i)), kind, string(rune('a'+min(i/10, 1))), 0)
	}
	s.submitOne("alone-1", kind, "", 0)
	s.submitOne("alone-2", kind, "", 0)
	d := s.dispatcher(func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]dispatch.Kind{
			kind: {Batch: 8, Group: func(content []byte) string { return string(content) }},
		}
	})
	for range 3 {
		round(t, d)
	}
	sizes, seen := map[string][]int{}, map[ledger.RunID]bool{}
	for _, task := range s.tasks() {
		group, parts := string(task.Rows[0].Content), append([]engine.Part{task.Part}, task.More...)
		for _, p := range parts {
			if seen[p.Run] || len(p.Rows) != 1 || string(p.Rows[0].Content) != group {
				t.Errorf("a task of %s has %+v", group, p)
			}
			seen[p.Run] = true
		}
		sizes[group] = append(sizes[group], len(parts))
	}
	for _, of := range sizes {
		slices.Sort(of)
	}
	if want := map[string][]int{`"a"`: {2, 8}, `"b"`: {7, 8}, `""`: {1, 1}}; len(seen) != 27 ||
		!reflect.DeepEqual(sizes, want) {
		t.Errorf("tasks of %v rows of %d runs, want %v", sizes, len(seen), want)
	}
}

// TestTogetherNotEnqueued has no task enqueued: all rows are given back, and are in a task
// again.
func TestTogetherNotEnqueued(t *testing.T) {
	const kind ledger.Kind = "clients:remove"
	s := newSite(t)
	for i := range 5 {
		s.submitOne(ledger.RunID(fmt.Sprintf("run-%d", i)), kind, "a", 0)
	}
	// asynq cannot store tasks in a key of another type.
	pending := "asynq:{" + queue + "}:pending"
	if err := s.rdb.Set(t.Context(), pending, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	change := func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]dispatch.Kind{
			kind: {Batch: 100, Group: func(content []byte) string { return string(content) }},
		}
	}
	if _, err := s.dispatcher(change).Round(t.Context()); err == nil {
		t.Fatal("tasks were enqueued")
	}
	if err := s.rdb.Del(t.Context(), pending).Err(); err != nil {
		t.Fatal(err)
	}
	round(t, s.dispatcher(change, func(c *dispatch.Config) { c.Protocol = 2 }))
	if all := s.tasks(); len(all) != 1 || len(all[0].More) != 4 {
		t.Errorf("tasks %+v", all)
	}
}

// submitOne submits a run of one row of a group, whose content is the group's name.
func (s *site) submitOne(id ledger.RunID, kind ledger.Kind, group string, wait time.Duration) {
	s.t.Helper()
	_, _, err := s.SubmitRow(s.t.Context(), ledger.NewRun{
		ID: id, Tenant: tenant, Kind: kind, Description: ledger.Description{Group: group, BatchWait: wait},
	}, fmt.Appendf(nil, "%q", group))
	if err != nil {
		s.t.Fatal(err)
	}
}

// tasks returns the pending tasks.
func (s *site) tasks() (all []engine.Task) {
	s.t.Helper()
	infos, err := asynq.NewInspectorFromRedisClient(s.rdb).ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, info := range infos {
		task, err := engine.ParseTask(tenant, info.Payload)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, task)
	}
	return all
}
