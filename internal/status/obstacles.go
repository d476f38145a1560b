package status

import (
	"context"

	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
)

// Obstacle is a reason why rows of a tenant are not executed.
type Obstacle struct {
	Kind ObstacleKind `json:"kind"`
	What string       `json:"reason"`
	Fix  string       `json:"fix"`
}

// ObstacleKind is a kind of obstacle.
type ObstacleKind string

// The kinds.
const (
	TenantStopped    ObstacleKind = "tenant stopped"
	OperationBlocked ObstacleKind = "operation blocked" // requests are refused for a fault
	QueuePaused      ObstacleKind = "queue paused"
	TenantPaused     ObstacleKind = "tenant paused"    // by the API; it ends by itself
	OperationPaused  ObstacleKind = "operation paused" // likewise
)

// String returns the obstacle and its remedy.
func (o Obstacle) String() string { return o.What + "; " + o.Fix }

// Obstacles returns the obstacles of a tenant whose budget has that state, the worst first.
// queue is its queue of rows if it is paused: see [PausedQueue].
func Obstacles(tenant string, budget pace.State, queue string) (all []Obstacle) {
	if budget.Stopped != nil {
		all = append(all, Obstacle{
			Kind: TenantStopped, What: "the tenant is " + budget.Stopped.String(),
			Fix: "nothing is changed there, and rows stay open; to start it: enqueue tenant start " + tenant,
		})
	}
	for _, b := range budget.Blocks {
		operation := "the operation " + b.Operation
		if b.Operation == pace.All {
			operation = "every operation"
		}
		all = append(all, Obstacle{
			Kind: OperationBlocked, What: operation + " is blocked: " + b.Reason,
			Fix: "fix the credentials, the missing scope or the way to the token endpoint, as the reason says; a test request is sent from time to time, and work resumes once it succeeds",
		})
	}
	if queue != "" {
		all = append(all, Obstacle{
			Kind: QueuePaused, What: "the queue " + queue + " is paused: no row is released",
			Fix: "resume it on the page Queues",
		})
	}
	if !budget.PausedUntil.IsZero() {
		all = append(all, Obstacle{
			Kind: TenantPaused, What: "the API has asked this tenant to pause (429) until " + clock(budget.PausedUntil),
			Fix: "work resumes by itself; if this happens often, lower --rate or raise --reserve",
		})
	}
	for _, p := range budget.Pauses {
		all = append(all, Obstacle{
			Kind: OperationPaused, What: "the API has asked to pause " + p.Operation + " (429) until " + clock(p.Until),
			Fix: "other operations go on, and work resumes by itself",
		})
	}
	return all
}

// PausedQueue returns the name of the tenant's queue of rows if it is paused in asynqmon,
// so that no row is released; else empty.
func PausedQueue(ctx context.Context, rdb redis.UniversalClient, tenant string) (string, error) {
	name := engine.Queue(ledger.Tenant(tenant))
	load, err := dispatch.NewQueue(rdb, name).Load(ctx)
	if err != nil || !load.Paused {
		return "", err
	}
	return name, nil
}
