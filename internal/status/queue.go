package status

import (
	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// PausedQueue returns the name of the tenant's queue of rows if it is paused in asynqmon,
// so that no row is released; else empty.
func PausedQueue(rdb redis.UniversalClient, tenant string) (string, error) {
	name := engine.Queue(ledger.Tenant(tenant))
	load, err := dispatch.NewQueue(rdb, name).Load()
	if err != nil || !load.Paused {
		return "", err
	}
	return name, nil
}

// ResumeQueue is the instruction to resume a paused queue.
const ResumeQueue = "resume it on the page Queues of a worker with --ops-write"

// PausedQueueText describes a paused queue and how to resume it; "" for "".
func PausedQueueText(queue string) string {
	if queue == "" {
		return ""
	}
	return "the queue " + queue + " is paused: no row is released; " + ResumeQueue
}
