package deliveries

import (
	"time"

	"github.com/hibiken/asynq"
)

const (
	// pollEvery is how often a server without a task asks for one. No person waits for it.
	pollEvery = 100 * time.Millisecond
	// forwardEvery is how often tasks that are due again are made ready.
	forwardEvery = 200 * time.Millisecond
	// places is how many deliveries run at a time. A receiver that does not answer holds
	// a place for 15 s, and at most one of them once that is known.
	places = 8
)

// ServerConfig returns how an asynq server executes deliveries.
func ServerConfig() asynq.Config {
	return asynq.Config{
		Concurrency: places, TaskCheckInterval: pollEvery, DelayedTaskCheckInterval: forwardEvery, RetryDelayFunc: retryDelay, IsFailure: isFailure,
	}
}
