package status

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/tenant"
	"orgops/tasks/releases"
)

// Concerns reports whether an obstacle holds rows of the run, at whatever stage they are. Of a kind
// that is not known every obstacle does.
func Concerns(o obstacle.Obstacle, r ledger.Run) bool {
	kinds := releases.Kinds(1)
	kind, known := kinds[r.Kind]
	if !known {
		return true
	}
	work := kind.Work()
	if r.Scanning() {
		work = append(work, kinds[ledger.ScanOf(r.Kind)].Work()...)
	}
	return slices.ContainsFunc(work, o.Holds)
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

// ReadState adds to the state of a tenant's budget whether its queue is paused, and whether a
// worker lives, and returns the settings that a worker has announced. A part that could not be read
// is left out, with an error.
func ReadState(ctx context.Context, rdb redis.Cmdable, t ledger.Tenant, f Fleet,
	budget pace.State) (s obstacle.State, settings tenant.Announced, err error) {
	s = obstacle.State{Tenant: string(t), Pace: budget}
	var noQueue error
	s.Queue, noQueue = ReadPausedQueue(ctx, rdb, string(t))
	settings, _, noSettings := tenant.ReadAnnounced(ctx, rdb, string(t))
	if noSettings == nil && f != nil && f[t] == 0 {
		s.Absent = &obstacle.Absence{LastSeen: settings.UpdatedAt}
	}
	return s, settings, cmp.Or(noQueue, noSettings)
}

// ObstaclesOf reads the obstacles of a tenant, the worst first.
func ObstaclesOf(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger,
	t ledger.Tenant) ([]obstacle.Obstacle, error) {
	fleet, noFleet := ReadFleet(ctx, l)
	budget, noBudget := pace.New(pace.Config{Redis: rdb, Tenant: string(t)}).State(ctx)
	s, _, err := ReadState(ctx, rdb, t, fleet, budget)
	return s.Obstacles(), errors.Join(noFleet, noBudget, err)
}

// ReadPausedQueue returns the tenant's queue of rows if it is paused; else nil.
func ReadPausedQueue(ctx context.Context, rdb redis.Cmdable, tenant string) (*obstacle.Queue, error) {
	name := queues.OfRows(tenant)
	load, err := queues.ReadLoad(ctx, rdb, name)
	if err != nil || !load.Paused {
		return nil, err
	}
	return &obstacle.Queue{Name: name, Since: load.PausedSince}, nil
}
