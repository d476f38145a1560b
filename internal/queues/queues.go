// Package queues serves asynq queues while they have tasks. An asynq server asks Redis for a
// task a hundred times a second and has a connection of its own, so a worker of many
// tenants has one for each of them that has work for it, and none for the others.
//
//	Wake ──────────┐
//	               v        not needed for half a minute
//	not served ── start ── served ─────────────────────────> its tasks end ── not served
//	               ^
//	poll, 1/s ─────┘
//
// Wake starts a server at once. It is called where tasks are enqueued, in this process. The
// poll finds tasks that another process has enqueued, and those that are due again. Any task
// needs the first worker of the tenant; the next ones are needed while there are more tasks
// than the former have places for, or while tasks are not fetched.
//
// # asynq
//
// Traps of asynq, each with its countermeasure:
//
//   - A task is a message with the token of a release, and lives for seconds. The ledger decides
//     whether it may execute. asynq's retry count is never read, its retries are out of reach,
//     and a second delivery is acknowledged without work.
//   - Acknowledgements are retried over a context that has already ended, so the server's client
//     runs every command with a context of its own (redisconn.ForServer).
//   - Leases, retries and retention are compared with the clock of the process, and 30 s between
//     two of them are allowed for. A worker whose clock is more than 10 s apart from Redis'
//     fetches no tasks, is not ready, and serves no tenant in its session.
//   - It dequeues again at once after an error. After a failed dequeue the client polls that
//     queue once a second (redisconn, polls.go). A begin that Redis refuses holds its place for a
//     moment, and counts no attempt.
//   - A task that was dequeued without a lease, or whose keys were evicted, would be active for
//     ever. It is put back every 15 s (reclaim.go), since active tasks narrow the window of the
//     dispatcher and keep servers running.
//   - A task that ended badly is archived for people to see, and deleted after ten minutes or
//     beyond 1,000. A task that is deleted in asynqmon is no loss: its release lapses after ten
//     seconds, and the row is due again.
//   - Unique tasks and groups are not used: locks outlive tasks, and groups lose members. Which
//     removals share a request is the dispatcher's decision.
//   - A tenant has a queue of rows, and one for each webhook endpoint, with places of their own:
//     a slow receiver holds up no other, and no rows. Deliveries alone are kept and retried by
//     asynq: see package deliveries.
package queues

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is how often the queues are read.
	pollEvery = time.Second
	// idleFor is how long a server is not needed before it is shut down.
	idleFor = 30 * time.Second
)

// Config configures [Servers].
type Config struct {
	// Redis is a client whose commands end with their contexts, and Servers one whose
	// commands do not: see [NewServer].
	Redis   redis.Cmdable
	Servers redis.UniversalClient
	// Rank returns this worker's place in the order of the workers of a tenant; nil: it is
	// the first.
	Rank func(tenant string) int
	// Idle is how long a server is not needed before it is shut down; 0: 30 s.
	Idle            time.Duration
	ShutdownTimeout time.Duration // of each server
	Logger          *slog.Logger
}

// Servers are the servers of a process. They are safe for concurrent use.
type Servers struct {
	cfg Config

	mu     sync.Mutex
	queues map[string]*queue
	halted bool // see Halt

	polls       int       // of Run
	reclaimedAt time.Time // of Run
}

// queue is the state of a queue.
type queue struct {
	Queue
	server *server   // nil: it is not served
	usedAt time.Time // when its server was needed last
	oldest string    // the pending task that was the next one at the last poll; "": none

	removed  chan struct{}  // closed by Remove
	retiring sync.WaitGroup // servers that are not needed any more
}

// New returns servers of no queue.
func New(cfg Config) *Servers {
	if cfg.Idle == 0 {
		cfg.Idle = idleFor
	}
	if cfg.Rank == nil {
		cfg.Rank = func(string) int { return 0 }
	}
	return &Servers{cfg: cfg, queues: map[string]*queue{}}
}

// Add adds a queue, which is served once it has a task.
func (s *Servers) Add(q Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[q.Name] = &queue{Queue: q, removed: make(chan struct{})}
}

// Remove removes a queue and fetches no more of its tasks; those in progress continue. The
// function that it returns waits for them, for the shutdown timeout at most.
func (s *Servers) Remove(name string) (shutdown func()) {
	s.mu.Lock()
	q := s.queues[name]
	delete(s.queues, name)
	s.mu.Unlock()
	if q == nil {
		return func() {}
	}
	close(q.removed)
	if q.server != nil {
		q.server.Stop()
	}
	return func() {
		if q.server != nil {
			q.server.Shutdown()
		}
		q.retiring.Wait()
	}
}

// Wake serves a queue at once, since a task was enqueued. An unknown queue is ignored.
func (s *Servers) Wake(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		s.serve(q)
	}
}

// Halt has the servers fetch no more tasks, nor start, until it is called with false. Tasks in
// progress continue.
func (s *Servers) Halt(halted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = halted
	for _, q := range s.queues {
		if halted && q.server != nil {
			s.retire(q)
		}
	}
}

// Run polls the queues until ctx ends. Servers go on until [Servers.Remove].
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

// poll serves the queues that need this worker, and shuts down servers that were not needed
// for long.
func (s *Servers) poll(ctx context.Context) error {
	loads, err := s.loads(ctx)
	if err != nil {
		return err
	}
	s.polls++
	s.reclaim(ctx, loads)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range loads {
		q := s.queues[name]
		if q == nil { // removed meanwhile
			continue
		}
		if q.needs(s.cfg.Rank(q.Tenant), l) {
			s.serve(q)
		} else if q.server != nil && time.Since(q.usedAt) >= s.cfg.Idle {
			s.retire(q)
		}
	}
	return nil
}

// needs reports whether a queue needs the worker of a rank. If the next task is the same as at
// the last poll, those before it are full, or do not live any more.
func (q *queue) needs(rank int, l load) bool {
	most := l.tasks / max(cmp.Or(q.Full, q.Config.Concurrency), 1)
	if l.oldest != "" && l.oldest == q.oldest {
		most++
	}
	q.oldest = l.oldest
	return l.busy && rank <= most
}

// serve starts a server of the queue, unless it has one. s.mu is held.
func (s *Servers) serve(q *queue) {
	q.usedAt = time.Now()
	if q.server != nil || s.halted {
		return
	}
	tuned := q.Queue
	tuned.Config.TaskCheckInterval = askEvery(q.Config.TaskCheckInterval, s.servers()+1)
	server := &server{Server: NewServer(s.cfg.Servers, tuned, s.cfg.ShutdownTimeout, s.cfg.Logger)}
	if err := server.start(q.Handler); err != nil {
		s.cfg.Logger.Error("queue not served", "queue", q.Name, "error", err)
		return
	}
	q.server = server
}

// servers returns the number of queues that are served. s.mu is held.
func (s *Servers) servers() (n int) {
	for _, q := range s.queues {
		if q.server != nil {
			n++
		}
	}
	return n
}

// askEvery returns how often the last of n servers asks Redis for a task while it has none:
// seldom if there are many, so that a thousand tenants with work cost Redis some thousand
// commands a second, and not a hundred thousand. A server with tasks asks at once.
func askEvery(configured time.Duration, n int) time.Duration {
	return max(configured, time.Duration(n)*time.Millisecond)
}

// retire has the server of a queue fetch no more tasks, and shuts it down when those in
// progress have ended. If the queue needs a server meanwhile it gets another one. s.mu is held.
func (s *Servers) retire(q *queue) {
	server := q.server
	q.server = nil
	q.retiring.Go(func() { server.retire(q.removed) })
}

// prefixOf returns the beginning of asynq's keys of a queue.
func prefixOf(queue string) string { return "asynq:{" + queue + "}:" }

// keys are the keys in which asynq keeps the tasks of a queue that are to be executed, and
// their leases. Redis has none of them if there are no such tasks.
func keys(queue string) []string {
	prefix := prefixOf(queue)
	return []string{prefix + "pending", prefix + "active", prefix + "lease", prefix + "scheduled", prefix + "retry"}
}

// load is the state of a queue.
type load struct {
	busy   bool   // it has tasks of any kind
	tasks  int    // pending and in progress
	oldest string // the id of the pending task that is the next one; "": none
}

// loads returns the state of the queues of this poll. Idle queues take a single command
// together, on a Cluster some for each. A queue that is missing has no tasks.
func (s *Servers) loads(ctx context.Context) (map[string]load, error) {
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
	if len(names) == 0 {
		return nil, nil
	}
	type reading struct {
		busy, pending, active *redis.IntCmd
		oldest                *redis.StringCmd
	}
	read := map[string]reading{}
	_, err := s.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			prefix := prefixOf(name)
			read[name] = reading{p.Exists(ctx, keys(name)...), p.LLen(ctx, prefix+"pending"), p.LLen(ctx, prefix+"active"),
				p.LIndex(ctx, prefix+"pending", -1)}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	loads := map[string]load{}
	for name, r := range read {
		if err := r.busy.Err(); err != nil {
			return nil, err
		}
		loads[name] = load{r.busy.Val() > 0, int(r.pending.Val() + r.active.Val()), r.oldest.Val()}
	}
	return loads, nil
}

// names returns the queues of this poll: all that are served, and idle ones, which later
// workers of a tenant read every few polls only. Otherwise fifty workers would read each queue
// once a second.
func (s *Servers) names() (idle, served []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.queues {
		switch {
		case q.server != nil:
			served = append(served, name)
		case s.polls%(s.cfg.Rank(q.Tenant)+1) == 0:
			idle = append(idle, name)
		}
	}
	return idle, served
}
