package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

// Queue returns the name of a tenant's queue in asynq.
func Queue(t ledger.Tenant) string { return string(t) + ".rows" }

const (
	// pollEvery is how often an idle server asks for a task: a task waits half of it, and
	// the polls take less than 1 % of a core of Redis.
	pollEvery = 10 * time.Millisecond
	// forwardEvery is how often asynq's delayed tasks are made ready. There are none but
	// those that asynq repeats, whose rows the ledger has made due meanwhile.
	forwardEvery = 5 * time.Second
)

// ServerConfig configures the asynq server of a tenant's engine.
type ServerConfig struct {
	Tenant ledger.Tenant
	// Redis is a client whose commands outlive the context that they are given: asynq
	// acknowledges with contexts that have ended.
	Redis redis.UniversalClient
	// Places is how many tasks are executed at a time.
	Places          int
	ShutdownTimeout time.Duration
	Logger          *slog.Logger
}

// NewServer returns the asynq server of the tenant's queue, not started.
func NewServer(cfg ServerConfig) *asynq.Server {
	return asynq.NewServerFromRedisClient(cfg.Redis, asynq.Config{
		Concurrency:              cfg.Places,
		Queues:                   map[string]int{Queue(cfg.Tenant): 1},
		TaskCheckInterval:        pollEvery,
		DelayedTaskCheckInterval: forwardEvery,
		ShutdownTimeout:          cfg.ShutdownTimeout,
		Logger:                   queueLog{cfg.Logger.With("tenant", cfg.Tenant)},
		LogLevel:                 asynq.DebugLevel,
	})
}

// queueLog writes asynq's own log lines. A warning about an archived task becomes a debug
// line, since the engine logs the outcome.
type queueLog struct{ *slog.Logger }

func (l queueLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l queueLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l queueLog) Error(args ...any) { l.write(slog.LevelError, args) }

func (l queueLog) Warn(args ...any) {
	level := slog.LevelWarn
	if text := fmt.Sprint(args...); strings.HasPrefix(text, "Retry exhausted") || strings.HasPrefix(text, "revoke task") {
		level = slog.LevelDebug
	}
	l.write(level, args)
}

// Fatal does not end the process, which is for cmd to do.
func (l queueLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l queueLog) write(level slog.Level, args []any) {
	l.Log(context.Background(), level, "queue", "message", fmt.Sprint(args...))
}
