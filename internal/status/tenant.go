package status

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// Tenant is the state of a tenant, for the whole fleet. It is for readers and operators: it names
// operators. A part that could not be read is nil.
type Tenant struct {
	Name string `json:"tenant"`
	// Identity is the tenant of the platform that the name stands for; nil also if no worker has
	// served it yet.
	Identity  *tenant.StoredIdentity `json:"identity,omitempty"`
	Stopped   *Stop                  `json:"stopped,omitempty"`
	Obstacles []obstacle.Obstacle    `json:"obstacles,omitempty"` // why no row of it is executed, the worst first
	// Refused says that the API has refused requests by 429s for a while; nil: it has
	// not.
	Refused *Refused `json:"refused,omitempty"`
	// Sweep is the last complete one; nil also if there was none.
	Sweep *Sweep `json:"last_sweep,omitempty"`
	// Withdrawn is how many verified domains others have taken back in seven days: set to pending,
	// deleted, or given another token.
	Withdrawn int64 `json:"withdrawn_domains,omitempty"`
	// Stuck are runs that make no progress until a person acts.
	Stuck []StuckRun `json:"stuck_runs,omitempty"`

	Waiting int64 `json:"webhooks_waiting,omitempty"` // deliveries that are not done
	GivenUp int64 `json:"webhooks_given_up,omitempty"`
	// Failing are the endpoints of webhooks to which deliveries fail at present.
	Failing map[string]deliveries.Failing `json:"webhooks_failing,omitempty"`
	// Dropped are the events that were dropped in the last seven days, by endpoint, since too many
	// waited for it.
	Dropped map[string]deliveries.Dropped `json:"webhooks_dropped,omitempty"`
	Pace    *pace.State                   `json:"-"`
	// Known is the state from which its obstacles are derived.
	Known obstacle.State `json:"-"`
	// Announced are the settings of its workers.
	Announced tenant.Announced `json:"-"`
	Ticks     *sweep.Ticks     `json:"-"`
}

// StuckRun is a run that makes no progress.
type StuckRun struct {
	Run ledger.RunID `json:"run"`
	Stuck
}

// readStuck reads the runs of a tenant that make no progress.
func readStuck(ctx context.Context, rdb redis.Cmdable, name string) (all []StuckRun, err error) {
	runs, err := ledger.New(rdb).StuckRuns(ctx, ledger.Tenant(name))
	for _, r := range runs {
		if stuck := StuckOf(r, time.Now()); stuck != nil {
			all = append(all, StuckRun{r.ID, *stuck})
		}
	}
	return all, err
}

// Stop is a [pace.Stop].
type Stop struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// ReadTenant reads the state of a tenant. With an error it returns the parts that it could read.
func ReadTenant(ctx context.Context, rdb redis.Cmdable, name string) (Tenant, error) {
	t := Tenant{Name: name}
	budget, paceErr := pace.New(pace.Config{Redis: rdb, Tenant: name}).State(ctx)
	if paceErr == nil {
		t.Pace = &budget
		t.Stopped = (*Stop)(budget.Stopped)
	}
	var sweepsErr error
	t.Sweep, sweepsErr = SweepOf(ctx, rdb, name)
	var withdrawnErr error
	t.Withdrawn, withdrawnErr = sweep.NewStore(rdb, name).Withdrawn(ctx)
	ticks, ticksErr := sweep.NewStore(rdb, name).Ticks(ctx)
	if ticksErr == nil {
		t.Ticks = &ticks
	}
	var identityErr error
	t.Identity, identityErr = tenant.ReadIdentity(ctx, rdb, name)
	var stuckErr error
	t.Stuck, stuckErr = readStuck(ctx, rdb, name)
	return t, errors.Join(paceErr, sweepsErr, withdrawnErr, ticksErr, identityErr, stuckErr)
}

// ReadDetails reads the state of a tenant with its obstacles.
func ReadDetails(ctx context.Context, rdb redis.Cmdable, name string, fleet Fleet) (Tenant, error) {
	t, err := ReadTenant(ctx, rdb, name)
	budget := pace.State{}
	if t.Pace != nil {
		budget = *t.Pace
	}
	var obstaclesErr error
	t.Known, t.Announced, obstaclesErr = ReadState(ctx, rdb, ledger.Tenant(name), fleet, budget)
	t.Obstacles = t.Known.Obstacles()
	var refusedErr error
	if t.Pace != nil {
		t.Refused, refusedErr = readRefused(ctx, rdb, name, budget)
	}
	counted, notCounted := deliveries.Count(ctx, rdb, name)
	t.Waiting = counted.Waiting
	t.GivenUp = counted.GivenUp
	t.Failing = counted.Failing
	t.Dropped = counted.Dropped
	return t, errors.Join(err, obstaclesErr, refusedErr, notCounted)
}
