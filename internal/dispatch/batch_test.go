package dispatch_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/release"
)

// removals is the kind of the rows.
const removals ledger.Kind = "clients:remove"

// batches has tasks of at most so many rows, all with the same content.
func batches(most int) func(*dispatch.Config) {
	return func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]release.Kind{
			removals: {Batch: most, Group: func(content []byte) string { return string(content) }},
		}
	}
}

// TestBatchesHaveOneGroup has rows of several organizations in one run: each task has
// rows of one, and at most as many as a batch holds.
func TestBatchesHaveOneGroup(t *testing.T) {
	s := newSite(t)
	var rows [][]byte
	for i := range 100 {
		rows = append(rows, fmt.Appendf(nil, "%d", i%7))
	}
	s.submit("a", removals, rows)
	d := s.dispatcher(batches(10))
	for range 3 {
		round(t, d)
	}
	seen, sizes := map[ledger.Row]bool{}, map[string][]int{}
	for _, task := range s.tasks() {
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

// TestGroupsTakeNoMoreTasksThanPermits has groups that are larger than a batch. A round with
// permits for two tasks makes two, and the rows of the next group wait.
func TestGroupsTakeNoMoreTasksThanPermits(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	run, _, err := s.Create(ctx, ledger.NewRun{ID: "a", Tenant: tenant, Kind: removals})
	if err != nil {
		t.Fatal(err)
	}
	stager, err := s.NewStager(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	stager.Group(func(row []byte) string { return string(row) })
	for _, group := range []string{"1", "2", "1", "1"} {
		if err := stager.Add(ctx, []byte(group)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stager.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(batches(2), func(c *dispatch.Config) {
		c.Rate = func() float64 { return 2 }
		kind := c.Kinds[removals]
		kind.Cost.First = 1
		c.Kinds[removals] = kind
	})
	round(t, d)
	var made []string
	for _, task := range s.tasks() {
		made = append(made, fmt.Sprintf("%s: %d", task.Rows[0].Content, len(task.Rows)))
	}
	slices.Sort(made)
	if want := []string{"1: 1", "1: 2"}; !slices.Equal(made, want) {
		t.Errorf("tasks %q, want %q", made, want)
	}
}

// TestGroupedRowsShareTasks has runs of one row: those of a group share tasks of at most a batch
// each, and the others have a task each.
func TestGroupedRowsShareTasks(t *testing.T) {
	s := newSite(t)
	for i := range 25 { // ten of group a, fifteen of b
		s.submitOne(ledger.RunID(fmt.Sprintf("run-%02d", i)), string(rune('a'+min(i/10, 1))))
	}
	s.submitOne("alone-1", "")
	s.submitOne("alone-2", "")
	d := s.dispatcher(batches(8))
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

// TestGroupedRowsNotEnqueued has no task enqueued: all rows are given back, and are in a task
// again.
func TestGroupedRowsNotEnqueued(t *testing.T) {
	s := newSite(t)
	for i := range 5 {
		s.submitOne(ledger.RunID(fmt.Sprintf("run-%d", i)), "a")
	}
	// asynq cannot store tasks in a key of another type.
	pending := "asynq:{" + queue + "}:pending"
	if err := s.rdb.Set(t.Context(), pending, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.dispatcher(batches(100)).Round(t.Context()); err == nil {
		t.Fatal("tasks were enqueued")
	}
	if err := s.rdb.Del(t.Context(), pending).Err(); err != nil {
		t.Fatal(err)
	}
	round(t, s.dispatcher(batches(100), func(c *dispatch.Config) { c.Protocol = 2 }))
	if all := s.tasks(); len(all) != 1 || len(all[0].More) != 4 {
		t.Errorf("tasks %+v", all)
	}
}

// submitOne submits a run of one row of a group, whose content is the group's name.
func (s *site) submitOne(id ledger.RunID, group string) {
	s.t.Helper()
	_, _, err := s.SubmitRow(s.t.Context(), ledger.NewRun{
		ID: id, Tenant: tenant, Kind: removals, Description: ledger.Description{Group: group},
	}, fmt.Appendf(nil, "%q", group))
	if err != nil {
		s.t.Fatal(err)
	}
}
