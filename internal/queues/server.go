package queues

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Queue is a queue of asynq and how its tasks are executed.
type Queue struct {
	Name   string
	Tenant string // for log lines
	// Config has what the queue's tasks need: places, intervals, retries. Queue, log and
	// shutdown timeout are set by [NewServer].
	Config  asynq.Config
	Handler asynq.Handler
}

// NewServer returns a server of the queue, not started. Commands of rdb outlive the context that
// they are given: asynq acknowledges tasks with contexts that have ended.
func NewServer(rdb redis.UniversalClient, q Queue, shutdown time.Duration, logger *slog.Logger) *asynq.Server {
	cfg := q.Config
	cfg.Queues = map[string]int{q.Name: 1}
	cfg.ShutdownTimeout = shutdown
	cfg.Logger, cfg.LogLevel = log{logger.With("tenant", q.Tenant)}, asynq.DebugLevel
	return asynq.NewServerFromRedisClient(rdb, cfg)
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
