package deliveries

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is how often an idle server asks for a task. No person waits for one.
	pollEvery = 100 * time.Millisecond
	// forwardEvery is how often tasks that are due again are made ready.
	forwardEvery = 200 * time.Millisecond
	// places is how many deliveries run at a time. A receiver that does not answer holds
	// a place for 15 s, and at most one of them once that is known.
	places = 8
)

// ServerConfig configures the asynq server of a tenant's deliveries.
type ServerConfig struct {
	Tenant string
	// Redis is a client whose commands outlive the context that they are given: asynq
	// acknowledges with contexts that have ended.
	Redis redis.UniversalClient
	// Refusals is a hook of that client; nil: each lost lease uses up an attempt.
	Refusals        *Refusals
	ShutdownTimeout time.Duration
	Logger          *slog.Logger
}

// NewServer returns the asynq server of the tenant's queue, not started. Start it with a
// [Handler].
func NewServer(cfg ServerConfig) *asynq.Server {
	return asynq.NewServerFromRedisClient(cfg.Redis, asynq.Config{
		Concurrency:              places,
		Queues:                   map[string]int{Queue(cfg.Tenant): 1},
		TaskCheckInterval:        pollEvery,
		DelayedTaskCheckInterval: forwardEvery,
		RetryDelayFunc:           retryDelay,
		IsFailure:                cfg.Refusals.isFailure,
		ShutdownTimeout:          cfg.ShutdownTimeout,
		Logger:                   queueLog{cfg.Logger.With("tenant", cfg.Tenant)},
		LogLevel:                 asynq.DebugLevel,
	})
}

// queueLog writes asynq's own log lines. A warning about an archived task becomes a debug
// line, since the handler logs the outcome.
type queueLog struct{ *slog.Logger }

func (l queueLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l queueLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l queueLog) Error(args ...any) { l.write(slog.LevelError, args) }

func (l queueLog) Warn(args ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(fmt.Sprint(args...), "Retry exhausted") {
		level = slog.LevelDebug
	}
	l.write(level, args)
}

// Fatal does not end the process, which is for cmd to do.
func (l queueLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l queueLog) write(level slog.Level, args []any) {
	l.Log(context.Background(), level, "queue", "message", fmt.Sprint(args...))
}
