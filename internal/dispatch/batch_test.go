package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
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
		c.Kinds = map[ledger.Kind]dispatch.Kind{kind: {Batch: 10, Group: func(content []byte) string { return string(content) }}}
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
		task, err := engine.ParseTask(info.Payload)
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

// TestTasksOfManyGroups has 8,192 rows of 300 organizations in random order: each
// organization makes one task, and no round enqueues more tasks than there are places.
func TestTasksOfManyGroups(t *testing.T) {
	const kind ledger.Kind = "clients:remove"
	const groups, batch = 300, 100
	if os.Getenv(redistest.EnvURL) == "" {
		redistest.Mini(t).SetTime(time.Now()) // and there it stays: no release lapses
	}
	s := newSite(t)
	s.submitGroups(kind, groups, batch)
	group := func(content []byte) string { return string(content[:3]) }
	d := s.dispatcher(func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]dispatch.Kind{kind: {Batch: batch, Group: group}}
	})
	round(t, d)
	if n := s.pending(); n != places {
		t.Errorf("%d tasks, want %d", n, places)
	}
	d = s.dispatcher(func(c *dispatch.Config) {
		c.Kinds = map[ledger.Kind]dispatch.Kind{kind: {Batch: batch, Group: group}}
		c.Protocol, c.Places = 2, 2*groups
	})
	tasks := 0
	s.await("no more tasks", func() bool {
		n, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks(queue)
		if err != nil {
			t.Fatal(err)
		}
		tasks += n
		round(t, d)
		return n == 0 && s.pending() == 0
	})
	if tasks != groups {
		t.Errorf("%d tasks, want %d", tasks, groups)
	}
}

// submitGroups commits a full segment of rows that begin with their group, in random order.
func (s *site) submitGroups(kind ledger.Kind, groups, most int) {
	s.t.Helper()
	run, _, err := s.Create(s.t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind})
	if err != nil {
		s.t.Fatal(err)
	}
	stager, err := s.NewStager(s.t.Context(), run)
	if err != nil {
		s.t.Fatal(err)
	}
	stager.Group(most, func(row []byte) string { return string(row[:3]) })
	random := rand.New(rand.NewPCG(1, 1))
	for i := range ledger.SegmentRows {
		if err := stager.Add(s.t.Context(), fmt.Appendf(nil, "%03d client %d", random.IntN(groups), i)); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := stager.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
