package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/stamp"
	"orgops/internal/status"
)

// Fleet is the state of the workers and tenants of a user.
type Fleet struct {
	At      time.Time       // of the reading; zero: Redis was never read
	Tenants []status.Tenant // by name
	// Workers are those that live and serve a tenant of the user, which have only these tenants; for
	// a user without limits all.
	Workers []ledger.Session
	// Died are those that have died in the last day, likewise.
	Died []ledger.Session
}

// Fleet returns the state of the workers and tenants of the user. With an error it is that of the
// last reading without one, or has the names of the tenants of this process.
func (v View) Fleet(ctx context.Context) (Fleet, error) {
	all, err := v.store.readFleet(ctx)
	f := Fleet{At: all.at}
	for _, t := range all.tenants {
		if v.ofTenant(t.Name) {
			f.Tenants = append(f.Tenants, t)
		}
	}
	f.Workers = v.ownSessions(all.sessions)
	f.Died = v.ownSessions(all.died)
	return f, err
}

// ownSessions returns the sessions that serve a tenant of the user, with only these tenants; for a
// user without limits all.
func (v View) ownSessions(all []ledger.Session) (own []ledger.Session) {
	for _, s := range all {
		s.Tenants = slices.DeleteFunc(slices.Clone(s.Tenants), func(t ledger.Tenant) bool { return !v.ofTenant(string(t)) })
		if len(s.Tenants) > 0 || v.user.Everywhere() {
			own = append(own, s)
		}
	}
	return own
}

// OpenRows returns the open rows of the user's tenants that have some; nil: they are not known.
// They may be old.
func (v View) OpenRows(ctx context.Context) map[string]ledger.OpenCounts {
	all, _ := v.store.open.Get(ctx)
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, _ ledger.OpenCounts) bool { return !v.ofTenant(name) })
	return all
}

// FleetPatience is how long a view waits for a reading of the fleet before it has the last one.
const FleetPatience = 3 * time.Second

const (
	// readWithin bounds a reading of the fleet.
	readWithin = 10 * time.Second
	// largeFleet is how many tenants are read every largeFleetEvery, and not for each view.
	largeFleet      = 100
	largeFleetEvery = 2 * time.Second
	// openShare bounds the part of the time in which the open rows are read.
	openShare = 20
)

// newFleet returns the readings of the fleet.
func (s *Store) newFleet() *health.Poll[reading] {
	var last reading
	return &health.Poll[reading]{Within: readWithin, Patience: FleetPatience,
		Ask: func(ctx context.Context) reading {
			if now, err := s.askFleet(ctx); err == nil {
				last = now
			} else {
				last.err = err
			}
			return last
		},
		Fresh: func(f reading, _ time.Duration) time.Duration {
			if f.err == nil && len(f.tenants) > largeFleet {
				return largeFleetEvery
			}
			return 0
		},
	}
}

// newOpen returns the readings of the open rows. They may be old: there may be a million runs.
// Without an answer they are not known.
func (s *Store) newOpen() *health.Poll[map[string]ledger.OpenCounts] {
	return &health.Poll[map[string]ledger.OpenCounts]{Within: time.Minute, Patience: time.Second,
		Ask: func(ctx context.Context) map[string]ledger.OpenCounts {
			open, err := s.cfg.Ledger.OpenByTenant(ctx)
			if err != nil {
				return nil
			}
			return open
		},
		Fresh: func(_ map[string]ledger.OpenCounts, took time.Duration) time.Duration { return openShare * took },
	}
}

// readFleet returns the fleet. With an error it is that of the last reading without one, or has
// the names of this process' tenants.
func (s *Store) readFleet(ctx context.Context) (reading, error) {
	f, since := s.fleet.Get(ctx)
	if f.at.IsZero() {
		for _, name := range s.cfg.Tenants() {
			f.tenants = append(f.tenants, status.Tenant{Name: name})
		}
	}
	if f.err == nil && !since.IsZero() {
		return f, fmt.Errorf("no answer since %s", stamp.UTC(since))
	}
	return f, f.err
}

func (s *Store) askFleet(ctx context.Context) (f reading, err error) {
	if f.sessions, err = s.cfg.Ledger.Sessions(ctx); err != nil {
		return f, err
	}
	if f.died, err = s.cfg.Ledger.Died(ctx); err != nil {
		return f, err
	}
	names, err := status.Tenants(ctx, s.cfg.Ledger, f.sessions...)
	if err != nil {
		return f, err
	}
	names = append(names, s.cfg.Tenants()...) // before their first session
	slices.Sort(names)
	names = slices.Compact(names)
	f.tenants, err = status.ReadTenants(ctx, s.cfg.Redis, names, status.FleetOf(f.sessions))
	f.at = time.Now()
	return f, err
}
