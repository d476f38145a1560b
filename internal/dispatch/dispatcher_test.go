package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/internal/workers"
	"orgops/tasks/handlers"
)

// dispatcher returns a dispatcher whose rounds the test calls, without a worker.
func (s *site) dispatcher(change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	c := dispatch.Config{
		Tenant: tenant, Ledger: s.Ledger, Redis: s.rdb, Queue: queue, Session: ledger.NewSessionID(),
		Protocol: 1, Places: places,
		Kinds: map[ledger.Kind]release.Kind{
			handlers.Update: {Operations: release.Always(schema.OpUpdateDiscoveryDomain),
				Cost: release.Cost{First: 1, Check: 1, Ready: 1}},
		},
		Logger: s.logger(),
	}
	for _, f := range change {
		f(&c)
	}
	return dispatch.New(c)
}

// pending returns the number of tasks in the queue.
func (s *site) pending() int {
	s.t.Helper()
	l, err := queues.ReadLoad(s.t.Context(), s.rdb, queue)
	if err != nil {
		s.t.Fatal(err)
	}
	return l.Pending
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
		if err != nil || string(task.Kind) != info.Type {
			s.t.Fatalf("task %s of type %s: %v", info.Payload, info.Type, err)
		}
		all = append(all, task)
	}
	return all
}

// deletePending deletes the pending tasks.
func (s *site) deletePending() {
	s.t.Helper()
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks(queue); err != nil {
		s.t.Fatal(err)
	}
}

func round(t *testing.T, d *dispatch.Dispatcher) time.Duration {
	t.Helper()
	after, err := d.Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// TestRoundReleasesAWindow has fifty workers live: no more is released than one of them has
// places for, and nothing while that is pending.
func TestRoundReleasesAWindow(t *testing.T) {
	s := newSite(t)
	s.submit("a", handlers.Update, s.domains(10*places))
	d := s.dispatcher(func(c *dispatch.Config) {
		c.Place = func() workers.Place { return workers.Place{Workers: 50} }
	})
	for range 3 {
		round(t, d)
		if n := s.pending(); n != places {
			t.Errorf("%d tasks, want %d", n, places)
		}
	}
	if after := round(t, d); after < 50*time.Millisecond {
		t.Errorf("the next round is in %v although the window is full", after)
	}
}

// TestScanIsReleased has the row of a scan released next to the rows that it has found, each by its
// own kind, and no longer than its run may run.
func TestScanIsReleased(t *testing.T) {
	s := newSite(t)
	scanned := ledger.ScanOf(handlers.Update)
	run, _, err := s.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: handlers.Update, Scan: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(func(c *dispatch.Config) { c.Kinds[scanned] = release.Kind{} })
	released := func() (kinds map[ledger.Kind]engine.Task) {
		round(t, d)
		kinds = map[ledger.Kind]engine.Task{}
		for _, task := range s.tasks() {
			kinds[task.Kind] = task
		}
		s.deletePending()
		return kinds
	}
	first := released()
	task := first[scanned]
	if len(first) != 1 || task.Segment != ledger.ScanSegment || task.Run != "a" || len(task.Rows) != 1 {
		t.Fatalf("released %+v, want the scan's row", first)
	}
	scan := ledger.Segment{Tenant: tenant, Run: "a", Incarnation: run.Incarnation, Number: ledger.ScanSegment}
	nonce := ledger.NewNonce()
	if _, err := s.Begin(t.Context(), scan, ledger.Execution{Token: task.Token, Nonce: nonce,
		Session: ledger.NewSessionID()}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddStep(t.Context(), scan, nonce, ledger.ScanStep{Position: []byte(`{}`), Progress: []byte(`{}`),
		Rows: []ledger.FoundRow{{Key: "1", Content: []byte(`{"n":1}`)}}}); err != nil {
		t.Fatal(err)
	}
	if second := released(); len(second) != 1 || len(second[handlers.Update].Rows) != 1 {
		t.Errorf("released %+v, want the row that was found, while the scan continues", second)
	}
	if _, err := s.End(t.Context(), scan, nonce, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck}, 0)...); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(t.Context(), tenant, "a"); err != nil {
		t.Fatal(err)
	}
	if third := released(); len(third) != 0 {
		t.Errorf("released %+v of a paused run", third)
	}
	if err := s.Resume(t.Context(), tenant, "a"); err != nil {
		t.Fatal(err)
	}
	if fourth := released(); fourth[scanned].Segment != ledger.ScanSegment {
		t.Errorf("released %+v, want the scan's row", fourth)
	}
}

// TestRecallSegments has the next dispatcher release rows of segments that the former has in
// memory.
func TestRecallSegments(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.submit("a", handlers.Update, s.domains(100))
		older := s.dispatcher()
		round(t, older)
		newer := dispatch.NewLease(s.rdb, tenant, ledger.NewSessionID(), 2)
		if held, _, err := newer.Take(t.Context(), 3*time.Second, time.Minute); err != nil || !held {
			t.Fatalf("held %t, %v", held, err)
		}
		time.Sleep(1100 * time.Millisecond) // until the older one renews its lease
		round(t, older)
		s.deletePending()
		round(t, s.dispatcher(func(c *dispatch.Config) { c.Protocol = 3 }))
		if n := s.pending(); n != places {
			t.Errorf("%d tasks, want %d of the next dispatcher", n, places)
		}
	})
}

// TestPausedQueue releases nothing while the queue is paused.
func TestPausedQueue(t *testing.T) {
	s := newSite(t)
	s.submit("a", handlers.Update, s.domains(100))
	d := s.dispatcher()
	round(t, d)
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	if err := inspector.PauseQueue(queue); err != nil {
		t.Fatal(err)
	}
	s.deletePending()
	if after := round(t, d); s.pending() != 0 || after < time.Second {
		t.Errorf("%d tasks, the next round in %v", s.pending(), after)
	}
	if err := inspector.UnpauseQueue(queue); err != nil {
		t.Fatal(err)
	}
	round(t, d)
	if s.pending() == 0 {
		t.Error("nothing was released")
	}
}

// TestBlockedOperation releases one row of a sort while its operation is blocked, and the rows of
// other sorts; and nothing while the tenant is paused.
func TestBlockedOperation(t *testing.T) {
	blocked := pace.State{Blocks: []pace.Block{{Operation: schema.OpUpdateDiscoveryDomain}}}
	for _, c := range []struct {
		name       string
		state      pace.State
		operations release.Operations
		want       int
	}{
		{"blocked", blocked, release.Always(schema.OpUpdateDiscoveryDomain), 1},
		{"proven rows are blocked", blocked, release.Operations{Ready: []string{schema.OpUpdateDiscoveryDomain}}, 1 + 3},
		{"paused", pace.State{PausedUntil: time.Now().Add(time.Hour)}, release.Always(schema.OpUpdateDiscoveryDomain), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.proven("proven", 4)
			s.submit("new", handlers.Update, s.domains(3))
			d := s.dispatcher(func(config *dispatch.Config) {
				config.Kinds = map[ledger.Kind]release.Kind{handlers.Update: {Operations: c.operations}}
				config.Pace = func(context.Context) (pace.State, error) {
					c.state.At = time.Now()
					return c.state, nil
				}
			})
			var after time.Duration
			for range 3 {
				after = round(t, d)
			}
			if n := s.pending(); n != c.want || after < time.Second {
				t.Errorf("%d tasks, want %d; the next round in %v", n, c.want, after)
			}
		})
	}
}

// TestBurstIsReleased releases at once what the tenant's bucket holds, and one second of the
// rate if it is empty.
func TestBurstIsReleased(t *testing.T) {
	for available, want := range map[int64]int{30: 30, 0: 2} {
		t.Run(fmt.Sprint(available), func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.submit("a", handlers.Update, s.domains(40))
				d := s.dispatcher(func(config *dispatch.Config) {
					config.Places, config.Rate = 100, func() float64 { return 2 }
					config.Pace = func(context.Context) (pace.State, error) {
						return pace.State{At: time.Now(), Available: available}, nil
					}
				})
				for range 3 {
					round(t, d)
				}
				if n := s.pending(); n != want {
					t.Errorf("%d tasks, want %d", n, want)
				}
			})
		})
	}
}

// TestUnknownKind leaves rows of a kind alone that the dispatcher does not know.
func TestUnknownKind(t *testing.T) {
	s := newSite(t)
	s.submit("a", "newer", [][]byte{[]byte(`{}`)})
	d := s.dispatcher()
	if after := round(t, d); s.pending() != 0 || after < time.Second/2 {
		t.Errorf("%d tasks, the next round in %v", s.pending(), after)
	}
}

// refuse returns a hook that refuses to enqueue for a number of times.
func refuse(times int64) redistest.Around {
	var refused atomic.Int64 // the commands are sent at the same time
	return func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		args := cmds[0].Args()
		if len(args) > 4 && strings.HasPrefix(cmds[0].Name(), "eval") &&
			strings.Contains(fmt.Sprint(args[3]), "asynq:{"+queue+"}:t:") && refused.Add(1) <= times {
			return errors.New("OOM command not allowed when used memory > 'maxmemory'")
		}
		return run()
	}
}

// TestGiveBack gives rows back that were not enqueued: they are due at once, and the
// dispatcher waits for a second.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.submit("a", handlers.Update, s.domains(5))
		rdb := redistest.Open(t)
		rdb.AddHook(refuse(3))
		d := s.dispatcher(func(c *dispatch.Config) { c.Redis = rdb })
		if after, err := d.Round(t.Context()); err == nil || after < time.Second {
			t.Errorf("the next round in %v, %v", after, err)
		}
		if o := s.open("a"); s.pending() != 2 || o.Queued != 3 || o.Released != 2 {
			t.Errorf("%d tasks, open rows %+v", s.pending(), o)
		}
		time.Sleep(1100 * time.Millisecond) // until the sort is asked for again
		s.await("5 tasks", func() bool {
			round(t, d) // more than one if a slow round has narrowed the window
			return s.pending() >= 5
		})
		if n := s.pending(); n != 5 {
			t.Errorf("%d tasks, want 5", n)
		}
	})
}

// TestTrimArchive deletes archived tasks that are old, or too many.
func TestTrimArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	client, inspector := asynq.NewClientFromRedisClient(s.rdb), asynq.NewInspectorFromRedisClient(s.rdb)
	if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("test", nil), asynq.Queue(queue),
		asynq.TaskID("0")); err != nil {
		t.Fatal(err)
	}
	const key = "asynq:{" + queue + "}:"
	task := s.rdb.HGetAll(t.Context(), key+"t:0").Val()
	_, err := s.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { // as asynq does, without a script each
		for i := 1; i < 1005; i++ {
			p.HSet(t.Context(), fmt.Sprint(key, "t:", i), task)
			p.LPush(t.Context(), key+"pending", i)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.ArchiveAllPendingTasks(queue); err != nil {
		t.Fatal(err)
	}
	q := dispatch.NewQueue(s.rdb, queue)
	if n, err := q.TrimArchive(t.Context()); err != nil || n != 5 {
		t.Errorf("%d deleted, %v; want 5", n, err)
	}
	// The time in the queue's set counts, not that in the task, which is of its worker's clock.
	now := time.Now()
	s.rdb.ZAdd(t.Context(), key+"archived", redis.Z{Member: "500", Score: float64(now.Add(-11 * time.Minute).Unix())})
	if n, err := q.TrimArchive(t.Context()); err != nil || n != 1 {
		t.Errorf("%d deleted, %v; want the one that is older than ten minutes", n, err)
	}
	for _, id := range s.rdb.ZRange(t.Context(), key+"archived", 0, -1).Val() {
		s.rdb.ZAdd(t.Context(), key+"archived", redis.Z{Member: id, Score: float64(now.Add(-time.Hour).Unix())})
	}
	if n, err := q.TrimArchive(t.Context()); err != nil || n != 999 {
		t.Errorf("%d deleted, %v; want 999", n, err)
	}
}

// TestTaskWithoutContent has tasks in asynq's sets whose contents are gone, as after an
// eviction: rows are released all the same, and the tasks leave the archive.
func TestTaskWithoutContent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	now := time.Now()
	const key = "asynq:{" + queue + "}:"
	for i := range 150 { // more than are deleted at once
		s.rdb.ZAdd(t.Context(), key+"archived", redis.Z{Member: fmt.Sprint("gone-", i),
			Score: float64(now.Add(-time.Hour).Unix())})
	}
	for _, set := range []string{"archived", "completed", "retry", "scheduled"} {
		s.rdb.ZAdd(t.Context(), key+set, redis.Z{Member: "gone", Score: float64(now.Unix())})
	}
	d := s.dispatcher()
	for _, run := range []ledger.RunID{"a", "b"} { // the queue is known to asynq from the first task on
		s.submit(run, handlers.Update, s.domains(2))
		round(t, d)
	}
	if n := s.pending(); n != 4 {
		t.Errorf("%d tasks, want 4", n)
	}
	if _, err := dispatch.NewQueue(s.rdb, queue).TrimArchive(t.Context()); err != nil {
		t.Error(err)
	}
	if left := s.rdb.ZRange(t.Context(), key+"archived", 0, -1).Val(); !slices.Equal(left, []string{"gone"}) {
		t.Errorf("%d archived tasks, want the one that is not old", len(left))
	}
}

// proven submits a run of rows that were proven and need a permit.
func (s *site) proven(id ledger.RunID, n int, change ...func(*ledger.NewRun)) {
	s.t.Helper()
	ctx := s.t.Context()
	run := s.submit(id, handlers.Update, s.domains(n), change...)
	seg := ledger.Segment{Tenant: tenant, Run: run.ID, Incarnation: run.Incarnation}
	release, err := s.Release(ctx, seg, ledger.Quota{First: n})
	if err != nil {
		s.t.Fatal(err)
	}
	var rows []ledger.Row
	for _, r := range release.Rows {
		rows = append(rows, r.Row)
	}
	e := ledger.Execution{Token: release.Token, Nonce: ledger.NewNonce(), Session: ledger.NewSessionID()}
	if _, err := s.Begin(ctx, seg, e, rows...); err != nil {
		s.t.Fatal(err)
	}
	receipt, err := s.End(ctx, seg, e.Nonce, ledger.Ends(ledger.Waiting{Stage: ledger.StageReady}, rows...)...)
	if err != nil || len(receipt.Statuses) != n ||
		slices.ContainsFunc(receipt.Statuses, func(s ledger.Status) bool { return s != ledger.RowWritten }) {
		s.t.Fatalf("%+v, %v", receipt, err)
	}
}
