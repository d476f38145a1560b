package queues

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Queue is a queue of asynq and how its tasks are executed.
type Queue struct {
	Name   string
	Tenant string // for log lines
	// Config has the places, intervals and retries of the tasks. Queue, log and shutdown
	// timeout are set by [NewServer].
	Config  asynq.Config
	Handler asynq.Handler
	// Full is how many tasks a worker has when the next worker is needed too; 0: as many as
	// it executes at a time.
	Full int
}

// NewServer returns a server of the queue, not started. Commands of rdb must not end with
// their contexts: asynq acknowledges tasks with contexts that have ended.
func NewServer(rdb redis.UniversalClient, q Queue, shutdown time.Duration, logger *slog.Logger) *asynq.Server {
	cfg := q.Config
	cfg.Queues = map[string]int{q.Name: 1}
	cfg.ShutdownTimeout = shutdown
	cfg.Logger = log{logger.With("tenant", q.Tenant)}
	cfg.LogLevel = asynq.DebugLevel
	return asynq.NewServerFromRedisClient(rdb, cfg)
}

// server is a server that counts its tasks.
type server struct {
	*asynq.Server
	running atomic.Int64
}

// start starts the server.
func (s *server) start(h asynq.Handler) error {
	return s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		s.running.Add(1)
		defer s.running.Add(-1)
		return h.ProcessTask(ctx, t)
	}))
}

// retire fetches no more tasks, and shuts the server down when those in progress have ended,
// or when removed is closed.
func (s *server) retire(removed <-chan struct{}) {
	s.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ended := false; !ended && s.running.Load() > 0; {
		select {
		case <-removed:
			ended = true
		case <-tick.C:
		}
	}
	s.Shutdown()
}

// log writes asynq's own log lines. A warning about an archived task becomes a debug line,
// since the handler logs the outcome.
type log struct{ *slog.Logger }

func (l log) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l log) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l log) Error(args ...any) { l.write(slog.LevelError, args) }

func (l log) Warn(args ...any) {
	level := slog.LevelWarn
	if text := fmt.Sprint(args...); strings.HasPrefix(text, "Retry exhausted") || strings.HasPrefix(text, "revoke task") {
		level = slog.LevelDebug
	}
	l.write(level, args)
}

// Fatal does not end the process, which is for cmd to do.
func (l log) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l log) write(level slog.Level, args []any) {
	l.Log(context.Background(), level, "queue", "message", fmt.Sprint(args...))
}
