package queues_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
	"orgops/internal/redistest"
)

// site has the queues q0, q1 and q2, whose tasks are counted.
type site struct {
	*queues.Servers
	t    *testing.T
	rdb  redis.UniversalClient
	done atomic.Int64
	// hold keeps tasks in progress until it is closed.
	hold chan struct{}
}

// inBubble runs a test in a bubble, if the Redis is an embedded one.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) { test(t) })
}

func newSite(t *testing.T, idle time.Duration) *site {
	s := &site{t: t, rdb: redistest.Open(t), hold: make(chan struct{})}
	close(s.hold)
	s.Servers = queues.New(queues.Config{Redis: s.rdb, Servers: s.rdb, Idle: idle, ShutdownTimeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler)})
	for i := range 3 {
		s.Add(s.queue(fmt.Sprint("q", i)))
	}
	return s
}

// queue returns a queue whose tasks wait for hold. A task of q2 makes a worker full, of the
// others two.
func (s *site) queue(name string) queues.Queue {
	full := 0
	if name == "q2" {
		full = 1
	}
	return queues.Queue{
		Name: name, Tenant: "acme", Full: full,
		Config: asynq.Config{Concurrency: 2, TaskCheckInterval: 50 * time.Millisecond,
			DelayedTaskCheckInterval: 100 * time.Millisecond, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
				return 0
			}},
		Handler: asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			<-s.hold
			s.done.Add(1)
			return nil
		}),
	}
}

// run polls until the test ends.
func (s *site) run() {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
		s.removeAll()()
	})
}

// removeAll removes the queues, and returns a function that waits for their tasks.
func (s *site) removeAll() (shutdown func()) {
	var all []func()
	for i := range 3 {
		all = append(all, s.Remove(fmt.Sprint("q", i)))
	}
	return func() {
		for _, shutdown := range all {
			shutdown()
		}
	}
}

func (s *site) enqueue(queue string, options ...asynq.Option) {
	s.t.Helper()
	_, err := asynq.NewClientFromRedisClient(s.rdb).Enqueue(asynq.NewTask("count", nil),
		append(options, asynq.Queue(queue))...)
	if err != nil {
		s.t.Fatal(err)
	}
}

// servers is how many asynq servers run.
func (s *site) servers() int {
	s.t.Helper()
	all, err := asynq.NewInspectorFromRedisClient(s.rdb).Servers()
	if err != nil {
		s.t.Fatal(err)
	}
	return len(all)
}

func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func TestServedWhileBusy(t *testing.T) {
	t.Parallel()
	for name, enqueue := range map[string]func(*site){
		"found by the poll": func(s *site) { s.enqueue("q1") },
		"woken": func(s *site) {
			s.enqueue("q1")
			s.Wake("q1")
		},
		"due later": func(s *site) { s.enqueue("q1", asynq.ProcessIn(2*time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				s := newSite(t, time.Second)
				s.run()
				enqueue(s)
				s.await("its end", func() bool { return s.done.Load() == 1 })
				if n := s.servers(); n > 1 {
					t.Errorf("%d servers, want that of q1", n)
				}
				s.await("no server", func() bool { return s.servers() == 0 })
				s.enqueue("q1") // again
				s.await("its end", func() bool { return s.done.Load() == 2 })
			})
		})
	}
}

// TestRanks: a queue is served by its first worker, and by the second one too if the first does
// not fetch its tasks, or has no places for them. A server that is not needed any more is shut
// down when its task has ended.
func TestRanks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Second)
		s.hold = make(chan struct{})
		second := s.ranked(1)
		second.run()
		third := s.ranked(2)
		third.run()
		s.enqueue("q0")
		s.await("the second, since there is no first", func() bool { return second.active("q0") == 1 })
		s.run()
		for range 3 {
			s.enqueue("q1")
		}
		s.Wake("q1")
		s.await("the second, since the places of the first are taken", func() bool { return s.active("q1") == 3 })
		s.enqueue("q2")
		s.Wake("q2")
		s.await("those of the first and the second for each queue", func() bool { return s.servers() == 6 })
		time.Sleep(3 * time.Second) // until q0 does not need the second one
		close(s.hold)
		s.await("no server", func() bool { return s.servers() == 0 })
		if n := s.done.Load(); n != 5 {
			t.Errorf("%d tasks were executed, want each of 5 once", n)
		}
	})
}

// ranked is another worker of the site, of that rank for all tenants.
func (s *site) ranked(rank int) *site {
	other := &site{t: s.t, rdb: s.rdb, hold: s.hold}
	other.Servers = queues.New(queues.Config{Redis: s.rdb, Servers: s.rdb, Rank: func(string) int { return rank },
		Idle: time.Second, ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"q0", "q1", "q2"} {
		other.Add(s.queue(name))
	}
	return other
}

// active is how many tasks of a queue are in progress.
func (s *site) active(queue string) int {
	info, err := asynq.NewInspectorFromRedisClient(s.rdb).GetQueueInfo(queue)
	if err != nil {
		return 0
	}
	return info.Active
}

// TestAskEvery: however many servers a process has, they ask Redis for tasks some thousand
// times a second.
func TestAskEvery(t *testing.T) {
	t.Parallel()
	const configured = 10 * time.Millisecond
	for n, want := range map[int]time.Duration{1: configured, 10: configured, 100: 100 * time.Millisecond} {
		if got := queues.AskEvery(configured, n); got != want {
			t.Errorf("the last of %d servers asks every %v, want %v", n, got, want)
		}
	}
	perSecond := 0.0
	for n := range 1000 {
		perSecond += 1 / queues.AskEvery(configured, n+1).Seconds()
	}
	if perSecond > 6000 {
		t.Errorf("a thousand servers ask %.0f times a second", perSecond)
	}
}

// TestIdleCommands: queues without tasks cost one command a second, however many there are.
func TestIdleCommands(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Second)
		if _, cluster := s.rdb.(*redis.ClusterClient); cluster {
			t.Skip("on a Cluster it is one command for each queue")
		}
		for i := range 100 {
			s.Add(queues.Queue{Name: fmt.Sprint("other", i)})
		}
		var commands atomic.Int64
		s.rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
			for _, cmd := range cmds {
				if cmd.Name() == "exists" { // which reads a queue
					commands.Add(1)
				}
			}
			return run()
		}))
		s.run()
		time.Sleep(3500 * time.Millisecond)
		if n := commands.Load(); n < 2 || n > 4 {
			t.Errorf("%d commands in 3.5 s, want one a second", n)
		}
	})
}

// TestRemoved: no server of a removed queue starts, its tasks in progress finish, and it can be
// added again.
func TestRemoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Minute)
		s.hold = make(chan struct{})
		s.run()
		s.enqueue("q0")
		s.Wake("q0")
		s.await("a server", func() bool { return s.servers() == 1 })
		s.await("it in progress", func() bool { return s.active("q0") == 1 })
		shutdown := s.removeAll()
		s.enqueue("q2")
		s.Wake("q2")
		time.AfterFunc(200*time.Millisecond, func() { close(s.hold) })
		shutdown()
		if n := s.done.Load(); n != 1 {
			t.Errorf("%d tasks are done, want the one that was in progress", n)
		}
		if n := s.servers(); n != 0 {
			t.Errorf("%d servers after the removal", n)
		}
		s.Add(s.queue("q2"))
		s.await("the task of the queue that was added again", func() bool { return s.done.Load() == 2 })
	})
}

// TestHalt: while the servers are halted no task is fetched, those in progress finish, and others
// are fetched afterwards.
func TestHalt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Minute)
		s.hold = make(chan struct{})
		s.run()
		s.enqueue("q0")
		s.await("it in progress", func() bool { return s.active("q0") == 1 })
		s.Halt(true)
		s.enqueue("q0")
		s.enqueue("q1")
		s.Wake("q1")
		close(s.hold)
		time.Sleep(5 * time.Second)
		if done, servers := s.done.Load(), s.servers(); done != 1 || servers != 0 {
			t.Errorf("halted: %d tasks are done, want the one that was in progress; %d servers", done, servers)
		}
		s.Halt(false)
		s.await("all tasks", func() bool { return s.done.Load() == 3 })
	})
}

// TestRemovedByAnotherTool: a queue that has tasks is in asynq's list again after "asynq queue rm",
// without which no tool lists it. A queue without tasks is not added.
func TestRemovedByAnotherTool(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Minute)
		s.enqueue("q0")
		s.enqueue("q1")
		s.run()
		s.await("both tasks", func() bool { return s.done.Load() == 2 })
		inspector := asynq.NewInspectorFromRedisClient(s.rdb)
		for _, name := range []string{"q0", "q1"} {
			if err := inspector.DeleteQueue(name, true); err != nil {
				t.Fatal(err)
			}
		}
		s.enqueue("q0", asynq.ProcessIn(time.Hour))
		// The process of a worker has added the queue once, and does not add it again.
		if err := s.rdb.Del(t.Context(), "asynq:queues").Err(); err != nil {
			t.Fatal(err)
		}
		s.await("the queue in the list", func() bool {
			names, err := inspector.Queues()
			return err == nil && slices.Equal(names, []string{"q0"})
		})
	})
}
