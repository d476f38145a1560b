package deliveries

import (
	"context"

	"github.com/hibiken/asynq"
)

// Process is ProcessTask with what asynq would have put into the context.
func (h *Handler) Process(ctx context.Context, t *asynq.Task, id string, retried int) error {
	return h.process(ctx, t, execution{taskID: id, retried: retried})
}

// Verdict is the error for an execution that is repeated.
func Verdict(counts bool) error { return &verdict{outcome: paced, counts: counts} }

var (
	RetryDelay  = retryDelay
	IsFailure   = isFailure
	NextAttempt = nextAttempt
)

const (
	MaxAttempts = maxAttempts
	MaxRetry    = maxRetry
	UnknownFor  = unknownFor
)
