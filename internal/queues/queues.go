// Package queues serves asynq queues while they have tasks. An asynq server asks Redis for a
// task a hundred times a second and has a connection of its own, so a worker of many
// tenants has one for each of them that has work, and none for the others.
//
//	Wake ──────────┐
//	               v        no task for half a minute
//	not served ── start ── served ──────────────────── shutdown ── not served
//	               ^
//	poll, 1/s ─────┘
//
// Wake starts a server at once. It is called where tasks are enqueued, in this process. The
// poll finds tasks that another process has enqueued, and those that are due again.
package queues

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is how often the queues are read.
	pollEvery = time.Second
	// idleFor is how long a queue has had no task when its server is shut down.
	idleFor = 30 * time.Second
)

// Config configures [Servers].
type Config struct {
	// Redis is a client whose commands end with their contexts, and Servers one whose
	// commands outlive them: see [NewServer].
	Redis, Servers redis.UniversalClient
	// Idle is how long a queue has had no task when its server is shut down; 0: 30 s.
	Idle            time.Duration
	ShutdownTimeout time.Duration // of each server
	Logger          *slog.Logger
}

// Servers are the servers of a process. They are safe for concurrent use.
type Servers struct {
	cfg Config

	mu       sync.Mutex
	queues   map[string]*queue
	stopped  bool
	shutting sync.WaitGroup // servers of idle queues

	reclaimedAt time.Time // of Run
}

// queue is the state of a queue.
type queue struct {
	Queue
	server *asynq.Server // nil: it is not served
	usedAt time.Time     // when it had a task last
	idle   bool          // its server is being shut down
	again  bool          // it had a task meanwhile
}

// New returns servers of no queue.
func New(cfg Config) *Servers {
	if cfg.Idle == 0 {
		cfg.Idle = idleFor
	}
	return &Servers{cfg: cfg, queues: map[string]*queue{}}
}

// Add adds a queue, which is served once it has a task.
func (s *Servers) Add(q Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[q.Name] = &queue{Queue: q}
}

// Wake serves a queue at once, since a task was enqueued. An unknown queue is ignored.
func (s *Servers) Wake(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		s.serve(q)
	}
}

// Run polls the queues until ctx ends. Servers go on until [Servers.Stop].
func (s *Servers) Run(ctx context.Context) {
	for {
		if err := s.poll(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.DebugContext(ctx, "queues not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

// Stop fetches no more tasks; those in progress continue.
func (s *Servers) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.each((*asynq.Server).Stop)
}

// Shutdown waits for the tasks in progress, each server for its shutdown timeout at most. It
// is called after Stop.
func (s *Servers) Shutdown() {
	s.each((*asynq.Server).Shutdown)
	s.shutting.Wait()
}

// each does something with all servers at the same time, and waits for it.
func (s *Servers) each(do func(*asynq.Server)) {
	var all sync.WaitGroup
	defer all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		if server := q.server; server != nil {
			all.Go(func() { do(server) })
		}
	}
}

// poll serves the queues that have tasks, and shuts down servers of queues that had none for
// long.
func (s *Servers) poll(ctx context.Context) error {
	busy, err := s.busy(ctx)
	if err != nil {
		return err
	}
	s.reclaim(ctx, busy)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.queues {
		if busy[name] {
			s.serve(q)
		} else if q.server != nil && time.Since(q.usedAt) >= s.cfg.Idle {
			s.shutDown(q)
		}
	}
	return nil
}

// serve starts a server of the queue, unless it has one. s.mu is held.
func (s *Servers) serve(q *queue) {
	q.usedAt = time.Now()
	switch {
	case s.stopped:
		return
	case q.idle:
		q.again = true
		return
	case q.server != nil:
		return
	}
	server := NewServer(s.cfg.Servers, q.Queue, s.cfg.ShutdownTimeout, s.cfg.Logger)
	if err := server.Start(q.Handler); err != nil {
		s.cfg.Logger.Error("queue not served", "queue", q.Name, "error", err)
		return
	}
	q.server = server
}

// shutDown shuts down the server of an idle queue. s.mu is held.
func (s *Servers) shutDown(q *queue) {
	if q.idle || s.stopped {
		return
	}
	q.idle = true
	s.shutting.Go(func() {
		q.server.Shutdown()
		s.mu.Lock()
		defer s.mu.Unlock()
		again := q.again
		q.server, q.idle, q.again = nil, false, false
		if again {
			s.serve(q)
		}
	})
}

// prefixOf returns the beginning of asynq's keys of a queue.
func prefixOf(queue string) string { return "asynq:{" + queue + "}:" }

// keys are the keys in which asynq keeps the tasks of a queue that are to be executed, and
// their leases. Redis has none of them if there are no such tasks.
func keys(queue string) []string {
	prefix := prefixOf(queue)
	return []string{prefix + "pending", prefix + "active", prefix + "lease", prefix + "scheduled", prefix + "retry"}
}

// busy returns the queues that have tasks. Of idle queues it takes a single command, on a
// Cluster one for each of them.
func (s *Servers) busy(ctx context.Context) (map[string]bool, error) {
	idle, served := s.names()
	if _, cluster := s.cfg.Redis.(*redis.ClusterClient); !cluster && len(idle) > 1 {
		var all []string
		for _, name := range idle {
			all = append(all, keys(name)...)
		}
		n, err := s.cfg.Redis.Exists(ctx, all...).Result()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			idle = nil
		}
	}
	names := append(idle, served...)
	found := make([]*redis.IntCmd, len(names))
	_, err := s.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			found[i] = p.Exists(ctx, keys(name)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	busy := map[string]bool{}
	for i, name := range names {
		busy[name] = found[i].Val() > 0
	}
	return busy, nil
}

// names returns the queues that are not served, and those that are.
func (s *Servers) names() (idle, served []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.queues {
		if q.server == nil {
			idle = append(idle, name)
		} else {
			served = append(served, name)
		}
	}
	return idle, served
}
