package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/tasks"
)

// shop is a ledger and a queue that rows are submitted to. It notes when a task
// comes whose row is not stored yet.
type shop struct {
	t       *testing.T
	mu      sync.Mutex
	tasks   map[string]*asynq.Task
	options map[string]map[asynq.OptionType]any
	calls   int
	failAt  int  // the enqueue, from 0, that fails; below 0: none
	lost    bool // it fails after it was carried out

	stored  map[int64][]byte
	settled map[int64]bool
	fates   map[int64]string
	total   int64
	early   []string
}

func newShop(t *testing.T) *shop {
	return &shop{t: t, tasks: map[string]*asynq.Task{}, options: map[string]map[asynq.OptionType]any{}, failAt: -1, stored: map[int64][]byte{}, settled: map[int64]bool{}, fates: map[int64]string{}, total: -1}
}

var errEnqueue = errors.New("redis is gone")

func (s *shop) EnqueueContext(_ context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls++
	if n == s.failAt && !s.lost {
		return nil, errEnqueue
	}
	set := map[asynq.OptionType]any{}
	for _, o := range opts {
		set[o.Type()] = o.Value()
	}
	id := set[asynq.TaskIDOpt].(string)
	if _, ok := s.tasks[id]; ok {
		return nil, fmt.Errorf("enqueue: %w", asynq.ErrTaskIDConflict)
	}
	s.tasks[id], s.options[id] = task, set
	e, err := tasks.ReadEnvelope(task.Payload())
	if err != nil {
		s.t.Error(err)
	}
	for _, item := range e.Rows() {
		if _, ok := s.stored[item]; !ok || s.total >= 0 {
			s.early = append(s.early, id)
		}
	}
	if n == s.failAt {
		return nil, errEnqueue
	}
	return &asynq.TaskInfo{}, nil
}

func (s *shop) StoreRows(_ context.Context, _ string, first int64, rows [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first%tasks.ChunkRows != 0 || len(rows) > tasks.ChunkRows {
		s.t.Errorf("%d rows stored from %d", len(rows), first)
	}
	for i, r := range rows {
		s.stored[first+int64(i)] = slices.Clone(r)
	}
	return nil
}

func (s *shop) Seal(_ context.Context, _ string, total int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = total
	return nil
}

func (s *shop) Settled(_ context.Context, _ string, items []int64) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := make([]bool, len(items))
	for i, item := range items {
		settled[i] = s.settled[item]
	}
	return settled, nil
}

func (s *shop) Settle(_ context.Context, _, kind string, _ int, items []int64, outcome, detail string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		if _, ok := s.stored[item]; !ok || s.total >= 0 {
			s.t.Errorf("row %d is settled before it is stored or after the run is sealed", item)
		}
		s.settled[item] = true
		s.fates[item] = fmt.Sprint(kind, " ", outcome, ": ", detail)
	}
	return nil
}

// handIn submits n rows of the kind; a source such as "invalid:why" is a row
// whose outcome is known.
func (s *shop) handIn(kind string, n int, source func(i int) string, change ...func(*tasks.Run)) (tasks.Summary, error) {
	s.t.Helper()
	r := tasks.Run{ID: "run", Kind: kind, Tenant: "default", CreatedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Generation: 1, Rows: int64(n)}
	for _, f := range change {
		f(&r)
	}
	submission, err := tasks.NewProducer(s, s).Begin(r)
	if err != nil {
		return tasks.Summary{}, err
	}
	k, _ := tasks.KindOf(kind)
	for i := range n {
		if outcome, detail, known := strings.Cut(source(i), ":"); known && tasks.Outcome(outcome).Settles() {
			if err := submission.AddSettled(s.t.Context(), int64(i), []byte(source(i)), tasks.Outcome(outcome), detail); err != nil {
				return tasks.Summary{}, err
			}
			continue
		}
		row, err := k.Parse(json.RawMessage(source(i)), tasks.Defaults{})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := submission.Add(s.t.Context(), int64(i), []byte(source(i)), row); err != nil {
			return tasks.Summary{}, err
		}
	}
	return submission.Finish(s.t.Context())
}

func (s *shop) names() []string { return slices.Sorted(maps.Keys(s.tasks)) }

func TestProducerRowsBeforeTasks(t *testing.T) {
	for _, test := range []struct {
		kind   string
		n      int
		source func(int) string
	}{
		{tasks.TypeVerify, 2500, domainRow},
		{tasks.TypeRemove, 12_345, clientRow},
		{tasks.TypeCreate, 1000, func(int) string { return template }},
	} {
		t.Run(test.kind, func(t *testing.T) {
			s := newShop(t)
			sum, err := s.handIn(test.kind, test.n, test.source)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.early) != 0 {
				t.Errorf("%d tasks came before their rows were stored or after the run was sealed, such as %s", len(s.early), s.early[0])
			}
			if len(s.stored) != test.n || s.total != int64(test.n) || sum.Rows != int64(test.n) {
				t.Errorf("%d rows stored, sealed with %d, summary %+v; want %d", len(s.stored), s.total, sum, test.n)
			}
			for i := range test.n {
				if got := string(s.stored[int64(i)]); got != test.source(i) {
					t.Fatalf("row %d is stored as %s", i, got)
				}
			}
			if sum.Tasks != int64(len(s.tasks)) {
				t.Errorf("summary says %d tasks, %d are there", sum.Tasks, len(s.tasks))
			}
		})
	}
}

// TestProducerTask holds what a task is enqueued with.
func TestProducerTask(t *testing.T) {
	s := newShop(t)
	_, err := s.handIn(tasks.TypeVerify, 1, func(int) string {
		return verifyRow("verification_host", "_x.a.example", "verification_txt", "t", "use_for_organization_discovery", false)
	}, func(r *tasks.Run) { r.Generation, r.GiveUp = 3, time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	want := map[asynq.OptionType]any{
		asynq.TaskIDOpt: "run-0-3", asynq.QueueOpt: "default.dns.fast", asynq.MaxRetryOpt: tasks.MaxRetry,
		asynq.TimeoutOpt: 10 * time.Minute, asynq.RetentionOpt: 15 * time.Minute,
	}
	if diff := cmp.Diff(want, s.options["run-0-3"]); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	task := s.tasks["run-0-3"]
	const payload = `{"v":1,"tenant":"default","run":"run","item":0,"created_at":"2026-11-20T12:00:00Z","generation":3,"organization_id":"org_1","discovery_domain_id":"ord_1","verification_host":"_x.a.example","verification_txt":"t","use_for_organization_discovery":false,"give_up_at":"2026-11-20T13:00:00Z"}`
	if task.Type() != tasks.TypeVerify || string(task.Payload()) != payload {
		t.Errorf("type %s, payload\n%s\nwant\n%s", task.Type(), task.Payload(), payload)
	}
}

func TestProducerLanes(t *testing.T) {
	for _, test := range []struct {
		kind, queue string
		rows        int64
		n           int
		priority    tasks.Priority
	}{
		{tasks.TypeVerify, "default.dns.fast", 500, 500, tasks.ByRows},
		{tasks.TypeVerify, "default.dns", 501, 501, tasks.ByRows},
		{tasks.TypeVerify, "default.dns", 0, 3, tasks.ByRows}, // not known how many are coming
		{tasks.TypeUpdate, "default.api.fast", 1, 1, tasks.ByRows},
		{tasks.TypeUpdate, "default.api", 501, 501, tasks.ByRows},
		{tasks.TypeRemove, "default.api.fast", 500, 500, tasks.ByRows},
		{tasks.TypeRemove, "default.api", 501, 501, tasks.ByRows},
		{tasks.TypeCreate, "default.api.fast", 2, 2, tasks.ByRows},
		{tasks.TypeVerify, "default.dns.fast", 501, 501, tasks.HighPriority},
		{tasks.TypeVerify, "default.dns.fast", 0, 3, tasks.HighPriority},
		{tasks.TypeRemove, "default.api", 2, 2, tasks.NormalPriority},
	} {
		t.Run(fmt.Sprint(test.kind, test.rows, test.priority), func(t *testing.T) {
			s := newShop(t)
			source := map[string]func(int) string{
				tasks.TypeVerify: domainRow, tasks.TypeRemove: clientRow,
				tasks.TypeUpdate: func(int) string { return verifyRow("status", "pending") },
				tasks.TypeCreate: func(int) string { return template },
			}[test.kind]
			if _, err := s.handIn(test.kind, test.n, source, func(r *tasks.Run) { r.Rows, r.Priority = test.rows, test.priority }); err != nil {
				t.Fatal(err)
			}
			for id, o := range s.options {
				if o[asynq.QueueOpt] != test.queue {
					t.Fatalf("task %s is in queue %v, want %s", id, o[asynq.QueueOpt], test.queue)
				}
			}
		})
	}
}

// between puts bad rows and duplicates between those of source: each third.
func between(source func(int) string) func(int) string {
	return func(i int) string {
		switch {
		case i%3 != 1:
			return source(i)
		case i%2 == 0:
			return fmt.Sprintf("invalid:line %d: why", i)
		}
		return "unchanged:the same as another"
	}
}

// TestProducerSettlesWhatIsKnown: such rows are stored, counted and settled, and
// become no task; the others keep their numbers.
func TestProducerSettlesWhatIsKnown(t *testing.T) {
	s := newShop(t)
	rows := []string{domainRow(0), "invalid:no", domainRow(2), "unchanged:the same as line 2", "invalid:no"}
	sum, err := s.handIn(tasks.TypeVerify, len(rows), func(i int) string { return rows[i] })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tasks.Summary{Rows: 5, Tasks: 2}, sum); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"run-0-1", "run-2-1"}, s.names()); diff != "" {
		t.Error(diff)
	}
	want := map[int64]string{1: "domain:verify invalid: no", 3: "domain:verify unchanged: the same as line 2", 4: "domain:verify invalid: no"}
	if diff := cmp.Diff(want, s.fates); diff != "" {
		t.Error(diff)
	}
	if len(s.stored) != 5 || s.total != 5 {
		t.Errorf("%d rows stored, sealed with %d", len(s.stored), s.total)
	}
}

// TestProducerBatches: windows of 10,000 rows, batches of one organization and
// at most 100 clients, each row in one of them.
func TestProducerBatches(t *testing.T) {
	const n = 25_000
	s := newShop(t)
	if _, err := s.handIn(tasks.TypeRemove, n, clientRow); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	partial := map[string]int{}
	for id, task := range s.tasks {
		var p tasks.RemovePayload
		if err := json.Unmarshal(task.Payload(), &p); err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("batch %s: %v", id, err)
		}
		window := p.Items[0] / tasks.WindowRows
		for i, item := range p.Items {
			if want := fmt.Sprintf(`{"organization_id":"%s","client_id":"%s"}`, p.OrganizationID, p.Clients[i]); want != clientRow(int(item)) {
				t.Fatalf("batch %s has %s for row %d, which is %s", id, want, item, clientRow(int(item)))
			}
			if seen[item] {
				t.Fatalf("row %d is in two batches", item)
			}
			seen[item] = true
			if item/tasks.WindowRows != window {
				t.Fatalf("batch %s has rows of two windows", id)
			}
		}
		if len(p.Items) < tasks.MaxClients {
			partial[fmt.Sprint(window, p.OrganizationID)]++
		}
	}
	if len(seen) != n {
		t.Errorf("%d rows are in batches, want %d", len(seen), n)
	}
	for where, batches := range partial {
		if batches > 1 {
			t.Errorf("window and organization %s have %d batches that are not full, want one at most", where, batches)
		}
	}
	if most := n/tasks.MaxClients + 3*7; len(s.tasks) > most {
		t.Errorf("%d batches, want at most %d", len(s.tasks), most)
	}
}

// TestProducerKilled: submitted again after it failed at any enqueue, a run has
// the same tasks as if it had not failed, and each once.
//
// The rows between the others whose outcome is known do not change that.
func TestProducerKilled(t *testing.T) {
	for _, test := range []struct {
		kind   string
		n      int
		source func(int) string
		ks     []int
	}{
		{tasks.TypeVerify, 2100, domainRow, []int{0, 1, 31, 32, 33, 999, 1000, 1001, 2099}},
		{tasks.TypeRemove, 21_000, clientRow, []int{0, 1, 50, 99, 100, 101, 102, 103, 104, 105, 106, 107, 200, 211}},
		{tasks.TypeVerify, 2100, between(domainRow), []int{0, 1, 31, 700, 701, 1399}},
		{tasks.TypeRemove, 21_000, between(clientRow), []int{0, 1, 50, 70, 71, 72, 73, 74, 75, 76, 140, 141}},
		{tasks.TypeCreate, 40, func(int) string { return template }, func() (all []int) {
			for k := range 40 {
				all = append(all, k)
			}
			return all
		}()},
	} {
		whole := newShop(t)
		if _, err := whole.handIn(test.kind, test.n, test.source); err != nil {
			t.Fatal(err)
		}
		for _, k := range test.ks {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d %t", test.kind, k, lost), func(t *testing.T) {
					s := newShop(t)
					s.failAt, s.lost = k, lost
					if _, err := s.handIn(test.kind, test.n, test.source); !errors.Is(err, errEnqueue) {
						t.Fatalf("got %v, want the error of the queue", err)
					}
					if s.total >= 0 {
						t.Error("the run is sealed, though it is not whole")
					}
					sum, err := s.handIn(test.kind, test.n, test.source, func(r *tasks.Run) { r.Existed = true })
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(whole.names(), s.names()); diff != "" {
						t.Errorf("the tasks differ from those of a run that never failed:\n%s", diff)
					}
					for id, task := range s.tasks {
						if string(task.Payload()) != string(whole.tasks[id].Payload()) {
							t.Fatalf("task %s differs: %s, want %s", id, task.Payload(), whole.tasks[id].Payload())
						}
					}
					if diff := cmp.Diff(whole.fates, s.fates); diff != "" {
						t.Errorf("rows that are settled at once differ from those of a run that never failed:\n%s", diff)
					}
					if s.total != int64(test.n) || sum.Tasks != int64(len(whole.tasks)) {
						t.Errorf("sealed with %d, summary %+v", s.total, sum)
					}
				})
			}
		}
	}
}

// TestProducerLeavesSettledRows: the batches stay what they were, and one of
// which everything is settled is not enqueued again.
func TestProducerLeavesSettledRows(t *testing.T) {
	t.Run("rows", func(t *testing.T) {
		s := newShop(t)
		s.settled[1], s.settled[3] = true, true
		sum, err := s.handIn(tasks.TypeVerify, 5, domainRow, func(r *tasks.Run) { r.Existed = true })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"run-0-1", "run-2-1", "run-4-1"}, s.names()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(tasks.Summary{Rows: 5, Tasks: 3, Settled: 2}, sum); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("batches", func(t *testing.T) {
		one := func(i int) string { return fmt.Sprintf(`{"organization_id":"o","client_id":"c_%d"}`, i) }
		whole := newShop(t)
		if _, err := whole.handIn(tasks.TypeRemove, 250, one); err != nil {
			t.Fatal(err)
		}
		s := newShop(t)
		for i := range int64(100) {
			s.settled[i] = true
		}
		s.settled[150] = true
		sum, err := s.handIn(tasks.TypeRemove, 250, one, func(r *tasks.Run) { r.Existed = true })
		if err != nil {
			t.Fatal(err)
		}
		if len(whole.tasks) != 3 || len(s.tasks) != 2 || sum.Settled != 101 {
			t.Errorf("%d batches, of which %d are left; summary %+v", len(whole.tasks), len(s.tasks), sum)
		}
		for id := range s.tasks {
			if _, ok := whole.tasks[id]; !ok {
				t.Errorf("batch %s is another than before", id)
			}
		}
	})
}

func TestProducerRefuses(t *testing.T) {
	for name, change := range map[string]func(*tasks.Run){
		"run id": func(r *tasks.Run) { r.ID = "a b" }, "tenant": func(r *tasks.Run) { r.Tenant = "A" },
		"kind": func(r *tasks.Run) { r.Kind = tasks.TypeConfirm }, "no time": func(r *tasks.Run) { r.CreatedAt = time.Time{} },
	} {
		if _, err := newShop(t).handIn(tasks.TypeVerify, 0, nil, change); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	submission, err := tasks.NewProducer(newShop(t), newShop(t)).Begin(tasks.Run{ID: "r", Kind: tasks.TypeUpdate, Tenant: "t", CreatedAt: time.Now(), Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	k, _ := tasks.KindOf(tasks.TypeVerify)
	row, err := k.Parse(json.RawMessage(domainRow(0)), tasks.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	if err := submission.Add(t.Context(), 0, nil, row); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a row of another kind: %v", err)
	}
	if err := submission.Add(t.Context(), 1, nil, row); err == nil || !strings.Contains(err.Error(), "row 0") {
		t.Errorf("a row left out: %v", err)
	}
}

// TestProducerOnTheLedger: the same over the ledger and asynq themselves.
func TestProducerOnTheLedger(t *testing.T) {
	const n = 2300
	rdb := redistest.New(t)
	ledger, client := runs.New(rdb), asynq.NewClientFromRedisClient(rdb)
	r, _, err := ledger.Create(t.Context(), runs.Run{ID: "run", Kind: tasks.TypeRemove, Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		submission, err := tasks.NewProducer(client, ledger).Begin(tasks.Run{
			ID: "run", Kind: tasks.TypeRemove, Tenant: "default", CreatedAt: r.CreatedAt, Generation: r.Generation, Rows: n, Existed: round > 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		k, _ := tasks.KindOf(tasks.TypeRemove)
		for i := range n {
			row, err := k.Parse(json.RawMessage(clientRow(i)), tasks.Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			if err := submission.Add(t.Context(), int64(i), []byte(clientRow(i)), row); err != nil {
				t.Fatal(err)
			}
			if round == 0 && i == 1500 { // killed
				break
			}
		}
		if round == 0 {
			continue
		}
		if _, err := submission.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := asynq.NewInspectorFromRedisClient(rdb).GetQueueInfo("default.api")
		if err != nil {
			t.Fatal(err)
		}
		whole := newShop(t)
		if _, err := whole.handIn(tasks.TypeRemove, n, clientRow); err != nil {
			t.Fatal(err)
		}
		if info.Pending != len(whole.tasks) {
			t.Errorf("round %d: %d tasks are pending, want %d", round, info.Pending, len(whole.tasks))
		}
		got, err := ledger.Get(t.Context(), "run")
		if err != nil || !got.Sealed || got.Total != n {
			t.Errorf("round %d: %+v, %v; want it sealed with %d", round, got, err, n)
		}
	}
}
