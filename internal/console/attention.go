package console

import (
	"context"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
)

// warnings returns the warnings about this worker and the data in Redis.
func (s *site) warnings() (all []status.Warning) {
	if s.faults == nil {
		return nil
	}
	for _, f := range s.faults() {
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
	died     []ledger.Session
}

// overview returns the state of the tenants of the view, or of one of them. With an error it is
// that of the last reading.
func (s *site) overview(ctx context.Context, v view.View, only string) (o overview, err error) {
	f, err := v.Fleet(ctx)
	o.held = map[string]bool{}
	o.Warnings = s.warnings()
	o.At = f.At
	o.sessions = f.Workers
	o.died = f.Died
	o.Workers = len(f.Workers)
	lacking := s.here.noTokens(v)
	for _, t := range f.Tenants {
		o.Tenants = append(o.Tenants, t.Name)
		if only != "" && t.Name != only {
			continue
		}
		if lacking[t.Name] != nil {
			t.Known.Token = lacking[t.Name]
			t.Obstacles = t.Known.Obstacles()
		}
		o.states = append(o.states, t)
		o.held[t.Name] = t.Held()
		o.Warnings = append(o.Warnings, t.Warnings()...)
	}
	return o, err
}
