package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/tenant"
	"orgops/tasks/handlers"
)

// Obstacle is a reason why rows of a tenant are not executed.
type Obstacle struct {
	Kind ObstacleKind `json:"kind"`
	What string       `json:"reason"`
	Fix  string       `json:"fix"`
	// Since is when it began; zero: not known.
	Since time.Time `json:"since,omitzero"`

	operation string    // that is blocked or paused; "": all are concerned
	until     time.Time // when it ends by itself; zero: not known
}

// ObstacleKind is a kind of obstacle.
type ObstacleKind string

// The kinds.
const (
	NoWorker         ObstacleKind = "no worker"
	TenantStopped    ObstacleKind = "tenant stopped"
	OperationBlocked ObstacleKind = "operation blocked" // requests are refused for a fault
	QueuePaused      ObstacleKind = "queue paused"
	TenantPaused     ObstacleKind = "tenant paused"    // by the API; it ends by itself
	OperationPaused  ObstacleKind = "operation paused" // likewise
)

// String returns the obstacle and its remedy.
func (o Obstacle) String() string { return o.What + "; " + o.Fix }

// Obstacles returns the obstacles of a tenant whose budget has that state, the worst first.
// queue is its queue of rows if it is paused: see [ReadPausedQueue].
func Obstacles(tenant string, budget pace.State, queue *PausedQueue) (all []Obstacle) {
	if budget.Stopped != nil {
		all = append(all, Obstacle{
			Kind: TenantStopped, Since: budget.Stopped.At, What: "the tenant is " + budget.Stopped.String(),
			Fix: "nothing is changed there, and rows stay open; to start it: enqueue tenant start " + tenant,
		})
	}
	for _, b := range budget.Blocks {
		what, operation := "the operation "+b.Operation, b.Operation
		if b.Operation == pace.All {
			what, operation = "every operation", ""
		}
		all = append(all, Obstacle{
			Kind: OperationBlocked, operation: operation, Since: b.Since,
			What: what + " is blocked" + since(b.Since) + ": " + b.Reason,
			Fix:  "fix the credentials, the missing scope, the tenant's subscription or the way to the API or token endpoint, as the reason says; a test request is sent from time to time, and work resumes once it succeeds",
		})
	}
	if queue != nil {
		all = append(all, Obstacle{
			Kind: QueuePaused, Since: queue.Since,
			What: "the queue " + queue.Name + " is paused" + since(queue.Since) + ": no row is released",
			Fix:  "resume it on the page Queues",
		})
	}
	if !budget.PausedUntil.IsZero() {
		all = append(all, Obstacle{
			Kind: TenantPaused, until: budget.PausedUntil, Since: budget.RefusedSince,
			What: "the API has asked this tenant to pause (429) until " + Stamp(budget.PausedUntil) + refused(budget.RefusedSince),
			Fix: "work resumes by itself; to try one request now: enqueue tenant start " + tenant +
				", or Try now on its page; if this happens often, lower --rate or raise --reserve",
		})
	}
	for _, p := range budget.Pauses {
		all = append(all, Obstacle{
			Kind: OperationPaused, operation: p.Operation, until: p.Until, Since: p.RefusedSince,
			What: "the API has asked to pause " + p.Operation + " (429) until " + Stamp(p.Until) + refused(p.RefusedSince),
			Fix: "other operations go on, and work resumes by itself; to try one request now: enqueue tenant start " + tenant +
				", or Try now on its page",
		})
	}
	return all
}

// since returns the beginning of an obstacle as a part of a sentence; "": it is not known.
func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " since " + Stamp(at)
}

// refused returns since when the API has accepted no request, as a part of a sentence.
func refused(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " and has accepted no request" + since(at)
}

// Concerns reports whether the obstacle holds rows of the run.
func (o Obstacle) Concerns(r ledger.Run) bool {
	needed := handlers.Released(1)[r.Kind].Operations
	all := slices.Concat(needed.First, needed.Check, needed.Ready)
	return o.operation == "" || r.Scanning() || len(all) == 0 || slices.Contains(all, o.operation)
}

// Fleet counts the living workers of each tenant. In a nil one they are not known.
type Fleet map[ledger.Tenant]int

// ReadFleet reads the living workers.
func ReadFleet(ctx context.Context, l *ledger.Ledger) (Fleet, error) {
	sessions, err := l.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	return FleetOf(sessions), nil
}

// FleetOf counts living workers.
func FleetOf(sessions []ledger.Session) Fleet {
	fleet := Fleet{}
	for _, s := range sessions {
		for _, t := range s.Tenants {
			fleet[t]++
		}
	}
	return fleet
}

// ReadObstacles reads the obstacles of a tenant whose budget has that state, the worst first.
func ReadObstacles(ctx context.Context, rdb redis.UniversalClient, t ledger.Tenant, f Fleet,
	budget pace.State) ([]Obstacle, error) {
	queue, err := ReadPausedQueue(ctx, rdb, string(t))
	settings, _, noSettings := tenant.ReadAnnounced(ctx, rdb, string(t))
	all := Obstacles(string(t), budget, queue)
	if err = cmp.Or(err, noSettings); err == nil && f != nil && f[t] == 0 {
		o := Obstacle{Kind: NoWorker, What: fmt.Sprintf("no worker of tenant %s has been seen on this Redis", t),
			Fix: "start a worker that serves it; rows wait until then"}
		if at := settings.UpdatedAt; !at.IsZero() { // a worker announces its settings every minute
			o.What = fmt.Sprintf("no worker of tenant %s runs; the last one was seen at %s", t, Stamp(at))
			o.Since = at
		}
		all = slices.Insert(all, 0, o)
	}
	return all, err
}

// ObstaclesOf reads the obstacles of a tenant, the worst first.
func ObstaclesOf(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger,
	t ledger.Tenant) ([]Obstacle, error) {
	fleet, noFleet := ReadFleet(ctx, l)
	budget, noBudget := pace.New(pace.Config{Redis: rdb, Tenant: string(t)}).State(ctx)
	all, err := ReadObstacles(ctx, rdb, t, fleet, budget)
	return all, cmp.Or(noFleet, noBudget, err)
}

// PausedQueue is a tenant's queue of rows that is paused in asynqmon, so that no row is released.
type PausedQueue struct {
	Name  string
	Since time.Time // zero: not known
}

// ReadPausedQueue returns the tenant's queue of rows if it is paused; else nil.
func ReadPausedQueue(ctx context.Context, rdb redis.UniversalClient, tenant string) (*PausedQueue, error) {
	name := engine.Queue(ledger.Tenant(tenant))
	load, err := dispatch.NewQueue(rdb, name).Load(ctx)
	if err != nil || !load.Paused {
		return nil, err
	}
	return &PausedQueue{name, load.PausedSince}, nil
}
