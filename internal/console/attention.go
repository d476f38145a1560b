package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/web"
)

// faults returns the warnings about this worker and the data in Redis.
func (s *site) faults() (all []status.Warning) {
	if s.Faults == nil {
		return nil
	}
	for _, f := range s.Faults() {
		all = append(all, status.Warning{Urgent: true, What: f.Text, Fix: f.Fix})
	}
	return all
}

// overview is the state of the tenants that a user may see, or of one of them.
type overview struct {
	Warnings []status.Warning // those that are not about one tenant first
	Tenants  []string         // all that are known
	Workers  int              // that live
	At       time.Time        // of the reading; zero: Redis was never read
	held     map[string]bool  // tenants of which no row is executed until somebody acts
	states   []status.Tenant
	sessions []ledger.Session
}

// overview returns the state of all known tenants, or of one of them. With an error it is that of
// the last reading.
func (s *site) overview(ctx context.Context, only string) (o overview, err error) {
	f, err := s.readFleet(ctx)
	o.held, o.Warnings, o.At = map[string]bool{}, s.faults(), f.at
	user := web.Of(ctx).User
	for _, t := range f.tenants {
		if !user.MayTenant(t.Name) {
			continue
		}
		o.Tenants = append(o.Tenants, t.Name)
		if only != "" && t.Name != only {
			continue
		}
		t.Obstacles = append(slices.Clip(t.Obstacles), s.noToken(t)...)
		o.states, o.held[t.Name] = append(o.states, t), t.Held()
		o.Warnings = append(o.Warnings, t.Warnings()...)
	}
	for _, w := range f.sessions {
		others := func(t ledger.Tenant) bool { return !user.MayTenant(string(t)) }
		w.Tenants = slices.DeleteFunc(slices.Clone(w.Tenants), others)
		if len(w.Tenants) > 0 || user.Everywhere() {
			o.sessions = append(o.sessions, w)
		}
	}
	o.Workers = len(o.sessions)
	return o, err
}

// noToken returns the obstacle that this worker has no good token for a tenant, which is in Redis
// only once a row needs the token: then an operation is blocked.
func (s *site) noToken(t status.Tenant) []status.Obstacle {
	served, here := s.tenant(t.Name)
	if !here || served.API == nil {
		return nil
	}
	blocked := func(o status.Obstacle) bool { return o.Kind == status.OperationBlocked }
	err := served.API.TokenHealth().Err
	if err == nil || slices.ContainsFunc(t.Obstacles, blocked) {
		return nil
	}
	return []status.Obstacle{{Kind: status.OperationBlocked, What: "no valid API token: " + err.Error(),
		Fix: "fix the client's credentials: until then all work that needs the API waits"}}
}

const (
	// fleetPatience is how long a page waits for the fleet before it shows the last reading.
	fleetPatience = 3 * time.Second
	// largeFleet is how many tenants are read every largeFleetEvery, and not for each page.
	largeFleet, largeFleetEvery = 100, 2 * time.Second
)

// newFleet returns the readings of the fleet.
func (s *site) newFleet() *health.Poll[fleet] {
	var last fleet
	return &health.Poll[fleet]{Within: pageWithin, Patience: fleetPatience,
		Ask: func(ctx context.Context) fleet {
			if now, err := s.askFleet(ctx); err == nil {
				last = now
			} else {
				last.err = err
			}
			return last
		},
		Fresh: func(f fleet, _ time.Duration) time.Duration {
			if f.err == nil && len(f.tenants) > largeFleet {
				return largeFleetEvery
			}
			return 0
		},
	}
}

// readFleet returns the fleet. With an error it is that of the last reading without one, or has
// the names of this worker's tenants.
func (s *site) readFleet(ctx context.Context) (fleet, error) {
	f, since := s.fleet.Get(ctx)
	if f.at.IsZero() {
		for _, t := range s.Tenants() {
			f.tenants = append(f.tenants, status.Tenant{Name: t.Settings.Tenant})
		}
	}
	if f.err == nil && !since.IsZero() {
		return f, fmt.Errorf("no answer since %s", status.Stamp(since))
	}
	return f, f.err
}

func (s *site) askFleet(ctx context.Context) (f fleet, err error) {
	if f.sessions, err = s.Ledger.Sessions(ctx); err != nil {
		return f, err
	}
	names, err := status.Tenants(ctx, s.Ledger, f.sessions...)
	if err != nil {
		return f, err
	}
	for _, t := range s.Tenants() { // before their first session
		names = append(names, t.Settings.Tenant)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	f.tenants, err = status.ReadTenants(ctx, s.Redis, names, status.FleetOf(f.sessions))
	f.at = time.Now()
	return f, err
}
