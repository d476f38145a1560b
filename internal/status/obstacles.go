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
	What   string
	Do     string // the remedy
	Fault  bool   // requests are refused for a fault
	Passes bool   // it ends by itself
}

// String returns the obstacle and its remedy.
func (o Obstacle) String() string { return o.What + "; " + o.Do }

// Obstacles returns the obstacles of a tenant whose budget has that state, the worst first.
// queue is its queue of rows if it is paused: see [PausedQueue].
func Obstacles(tenant string, budget pace.State, queue string) (all []Obstacle) {
	if budget.Stopped != nil {
		all = append(all, Obstacle{
			What: "the tenant is " + budget.Stopped.String(),
			Do:   "nothing is changed there, and rows stay open; to start it: enqueue tenant start " + tenant,
		})
	}
	for _, b := range budget.Blocks {
		operation := "the operation " + b.Operation
		if b.Operation == pace.All {
			operation = "every operation"
		}
		all = append(all, Obstacle{
			What: operation + " is blocked: " + b.Reason, Fault: true,
			Do: "fix the credentials or grant the missing scope; a test request is sent from time to time, and work resumes once it succeeds",
		})
	}
	if queue != "" {
		all = append(all, Obstacle{
			What: "the queue " + queue + " is paused: no row is released", Do: "resume it on the page Queues",
		})
	}
	if !budget.PausedUntil.IsZero() {
		all = append(all, Obstacle{
			What: "the API has asked this tenant to pause (429) until " + clock(budget.PausedUntil), Passes: true,
			Do: "work resumes by itself; if this happens often, lower --rate or raise --reserve",
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
