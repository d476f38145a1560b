package engine

import (
	"time"

	"github.com/hibiken/asynq"
)

const (
	// pollEvery is how often a server without a task asks for one: a task waits half of it,
	// and the polls take 2 % of a core of Redis.
	pollEvery = 4 * time.Millisecond
	// forwardEvery is how often asynq's delayed tasks are made ready. There are none but
	// those that asynq repeats, whose rows the ledger has made due meanwhile.
	forwardEvery = 5 * time.Second
)

// ServerConfig returns how an asynq server executes the tasks of an engine, places at a time.
func ServerConfig(places int) asynq.Config {
	return asynq.Config{Concurrency: places, TaskCheckInterval: pollEvery, DelayedTaskCheckInterval: forwardEvery}
}
