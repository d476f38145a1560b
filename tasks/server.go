package tasks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Intervals of asynq's polling.
const (
	// checkEvery is how often an idle worker asks for a task: enqueue to
	// handler takes half of it, for under 1 % of a core of Redis.
	checkEvery = 10 * time.Millisecond
	// forwardEvery is how often tasks that are due again are made ready.
	forwardEvery = 200 * time.Millisecond
	// sweepCheckEvery is that of walks and of a sweep's looks, for which
	// nobody waits.
	sweepCheckEvery = 100 * time.Millisecond
)

// sweepConcurrency is how many walks go on at a time.
const sweepConcurrency = 4

// recheckConcurrency is how many looks of a sweep go on at a time. A sweep of 200,000
// domains in a day is three looks a second, and one that is begun by hand is to be
// through in hours: of looks that wait 8 s for servers which do not answer, 100 places
// do twelve a second, of others hundreds.
const recheckConcurrency = 100

// SweepRequests is how many requests of sweeps' looks may be under way at a time, at
// the most: few of them need one.
const SweepRequests = recheckConcurrency

// WalkRequests is how many requests of walks may be under way at a time.
const WalkRequests = sweepConcurrency * stepOrganizations

// ServerConfig is what a tenant's servers are made of.
type ServerConfig struct {
	// Redis is a client whose commands outlive the context they are given:
	// asynq acknowledges over contexts that have ended.
	Redis redis.UniversalClient
	// Refusals is a hook of that client: the loss of a lease that Redis refused to extend
	// uses up no attempt. nil: each loss does.
	Refusals *Refusals
	Tenant   string
	Mux      *Mux
	// DNSConcurrency and APIConcurrency are how many tasks of each group run
	// at a time on the normal lane, and half as many besides on the fast one.
	DNSConcurrency, APIConcurrency int
	ShutdownTimeout                time.Duration
	Logger                         *slog.Logger
	// Middleware goes around the mux, for traces; nil: nothing does.
	Middleware asynq.MiddlewareFunc
	// PollEvery is how often a server asks for tasks, for those that are due again and
	// for those that may be forgotten; 0: each at intervals of its own. It is for clocks
	// that are not real: on them a poll costs more than the time until the next.
	PollEvery time.Duration
}

// Servers run one tenant's tasks: a server for those that look in DNS and one
// for those that write, so that looks which wait for name servers take no place
// that a write could have; one of each for the fast lane, so that there is a
// place for its tasks while all others are held by tasks that wait for permits;
// one for those that walk through the tenant; and one for the looks of its sweeps,
// which are many, and hold up neither what people wait for nor the walks.
type Servers struct {
	handler asynq.Handler
	servers []*asynq.Server
}

// NewServers returns the tenant's servers, not started.
func NewServers(cfg ServerConfig) *Servers {
	server := func(queue string, concurrency int, check time.Duration) *asynq.Server {
		return asynq.NewServerFromRedisClient(cfg.Redis, asynq.Config{
			Concurrency:              concurrency,
			Queues:                   map[string]int{queue: 1},
			TaskCheckInterval:        cmp.Or(cfg.PollEvery, check),
			DelayedTaskCheckInterval: cmp.Or(cfg.PollEvery, forwardEvery),
			JanitorInterval:          cfg.PollEvery,
			RetryDelayFunc:           retryDelay,
			IsFailure:                cfg.Refusals.isFailure,
			ShutdownTimeout:          cfg.ShutdownTimeout,
			Logger:                   asynqLog{cfg.Logger.With("tenant", cfg.Tenant)},
			LogLevel:                 asynq.DebugLevel,
		})
	}
	var handler asynq.Handler = cfg.Mux
	if cfg.Middleware != nil {
		handler = cfg.Middleware(handler)
	}
	return &Servers{handler: handler, servers: []*asynq.Server{
		server(DNSQueue(cfg.Tenant, Fast), FastPlaces(cfg.DNSConcurrency), checkEvery),
		server(APIQueue(cfg.Tenant, Fast), FastPlaces(cfg.APIConcurrency), checkEvery),
		server(DNSQueue(cfg.Tenant, Normal), cfg.DNSConcurrency, checkEvery),
		server(APIQueue(cfg.Tenant, Normal), cfg.APIConcurrency, checkEvery),
		server(SweepQueue(cfg.Tenant), sweepConcurrency, sweepCheckEvery),
		server(RecheckQueue(cfg.Tenant), recheckConcurrency, sweepCheckEvery),
	}}
}

// FastPlaces is how many tasks of a group run on the fast lane at a time, beside
// those of the normal one.
func FastPlaces(normal int) int { return (normal + 1) / 2 }

// Start starts fetching tasks.
func (s *Servers) Start() error {
	for _, server := range s.servers {
		if err := server.Start(s.handler); err != nil {
			return fmt.Errorf("start queue server: %w", err)
		}
	}
	return nil
}

// Stop fetches nothing more; what runs goes on.
func (s *Servers) Stop() {
	s.sideBySide((*asynq.Server).Stop)
}

// Shutdown waits for what runs, for the shutdown timeout at most, and hands
// back the rest. Close the mux's Stopping channel between Stop and it.
func (s *Servers) Shutdown() {
	s.sideBySide((*asynq.Server).Shutdown)
}

// sideBySide has all servers do something, and waits for them: each may wait for
// Redis, or for its tasks.
func (s *Servers) sideBySide(do func(*asynq.Server)) {
	var all sync.WaitGroup
	for _, server := range s.servers {
		all.Go(func() { do(server) })
	}
	all.Wait()
}

// asynqLog writes asynq's own log lines. What it warns of when a task is
// archived or dropped is an outcome of ours, logged by the middleware.
type asynqLog struct{ *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelError, args) }

func (l asynqLog) Warn(args ...any) {
	level := slog.LevelWarn
	if text := fmt.Sprint(args...); strings.HasPrefix(text, "Retry exhausted") || strings.HasPrefix(text, "revoke task") {
		level = slog.LevelDebug
	}
	l.write(level, args)
}

// Fatal must not end the process, which is for cmd to do; asynq calls it
// where it cannot happen here.
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l asynqLog) write(level slog.Level, args []any) {
	l.Log(context.Background(), level, "queue", "message", fmt.Sprint(args...))
}
