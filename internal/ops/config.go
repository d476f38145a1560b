package ops

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// Config is what the pages and the probes show.
type Config struct {
	// Redis is where the queues are; it is never closed. Needed by Pages only.
	Redis redis.UniversalClient
	// Metrics is what /metrics serves; nil makes it answer 404.
	Metrics *Metrics
	// Ready looks at everything that the worker needs, each time it is asked;
	// ctx ends after 3 s. Nil: ready as soon as it answers.
	Ready func(ctx context.Context) []Check
	// Version is told by the probes.
	Version string
	// Logger is told of refused requests; nil: nobody.
	Logger *slog.Logger
}

// Check is one thing that the worker needs.
type Check struct {
	// Name is a word or two: "redis", "tenant acme".
	Name string
	// Err says what is wrong, in words for an operator; nil if nothing is.
	Err error
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
