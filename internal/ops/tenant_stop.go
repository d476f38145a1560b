package ops

import (
	"cmp"
	"context"
	"net/http"

	"orgops/internal/pace"
	"orgops/tasks"
)

// stopTenant stops a tenant: POST /tenants/stop. It takes the two seconds after which the
// stop is effective.
func (s *site) stopTenant(w http.ResponseWriter, r *http.Request) {
	by := cmp.Or(UserOf(r.Context()), "a user of the operator pages")
	s.toTenant(w, r, "stop", func(ctx context.Context, l *pace.Limiter) came {
		stop, err := l.Stop(ctx, by, field(r.PostForm, "reason"))
		return came{told: "The tenant is " + stop.String() + ". Nothing is changed there until it is started.", err: err}
	})
}

// startTenant ends the stop of a tenant: POST /tenants/start.
func (s *site) startTenant(w http.ResponseWriter, r *http.Request) {
	s.toTenant(w, r, "start", func(ctx context.Context, l *pace.Limiter) came {
		stop, err := l.Start(ctx)
		if err == nil && stop == nil {
			return came{told: "The tenant was not stopped."}
		}
		return came{told: "The tenant is started: its rows are executed again within two minutes.", err: err}
	})
}

// toTenant carries an action out on the tenant that the form names.
func (s *site) toTenant(w http.ResponseWriter, r *http.Request, action string, do func(context.Context, *pace.Limiter) came) {
	const path = "/tenants"
	tenant := field(r.PostForm, "tenant")
	if err := tasks.CheckTenant(tenant); err != nil {
		s.lead(w, r, path, "Not done: "+err.Error(), true)
		return
	}
	s.carryOut(w, r, action, "tenant "+tenant, path, func(ctx context.Context) came {
		return do(ctx, pace.New(pace.Config{Redis: s.Redis, Tenant: tenant}))
	})
}
