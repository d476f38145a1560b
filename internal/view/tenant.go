package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

// Tenant is a tenant of the user. Redis may know nothing of it.
type Tenant struct {
	view View
	name string
}

// Tenant returns the tenant of that name, or a [NotFoundError]. It reads nothing.
func (v View) Tenant(name string) (Tenant, error) {
	if err := missing(nil, v.ofTenant(name), "tenant", name); err != nil {
		return Tenant{}, err
	}
	return Tenant{v, name}, nil
}

// CheckTenant returns a [NotFoundError] unless a tenant of that name exists, and is the user's.
func (v View) CheckTenant(ctx context.Context, name string) error {
	if _, err := v.Tenant(name); err != nil {
		return err
	}
	return v.noTenant(status.CheckExists(ctx, v.redis, name))
}

// noTenant returns err, or the error of a tenant that does not exist for the user. A tenant of this
// process exists before its first session.
func (v View) noTenant(err error) error {
	none, ok := errors.AsType[*status.NoTenantError](err)
	if !ok {
		return err
	}
	if slices.Contains(v.store.cfg.Tenants(), none.Name) {
		return nil
	}
	return missing(nil, false, "tenant", none.Name)
}

// Tenants returns the tenants of the user that have, or had, a run, in order.
func (v View) Tenants(ctx context.Context) (all []Tenant, err error) {
	names, err := v.ledger.Tenants(ctx)
	for _, name := range names {
		if v.ofTenant(string(name)) {
			all = append(all, Tenant{v, string(name)})
		}
	}
	return all, err
}

// Name returns its name.
func (t Tenant) Name() string { return t.name }

// Over returns the tenant with its reads over those of a view of [View.Batch].
func (t Tenant) Over(batch View) Tenant { return Tenant{batch, t.name} }

// Organization returns a [NotFoundError] unless the organization is the user's. It reads nothing.
func (v View) Organization(id string) error {
	return missing(nil, v.ofOrganization(id), "organization", id)
}

// Announced returns the settings that a worker of it has announced; ok is false if none has.
func (t Tenant) Announced(ctx context.Context) (settings tenant.Announced, ok bool, err error) {
	return tenant.ReadAnnounced(ctx, t.view.redis, t.name)
}

// Meters returns its last hour and its last day.
func (t Tenant) Meters(ctx context.Context) (hour, day []meters.Period, err error) {
	return meters.Read(ctx, t.view.redis, t.name)
}

// Endpoints returns the state of its endpoints of webhooks, of those of the names first.
func (t Tenant) Endpoints(ctx context.Context, names ...string) ([]deliveries.EndpointState, error) {
	return deliveries.ReadEndpoints(ctx, t.view.redis, t.name, names...)
}

// Obstacles returns why no row of it is executed, the worst reason first.
func (t Tenant) Obstacles(ctx context.Context) ([]obstacle.Obstacle, error) {
	return status.ObstaclesOf(ctx, t.view.redis, t.view.ledger, ledger.Tenant(t.name))
}

// Stop stops it: see [actions.StopTenant].
func (t Tenant) Stop(ctx context.Context, reason string) (pace.Stop, error) {
	return actions.StopTenant(ctx, t.view.author(""), t.name, reason)
}

// Start ends its stop and pauses: see [actions.StartTenant].
func (t Tenant) Start(ctx context.Context) (effect string, err error) {
	return actions.StartTenant(ctx, t.view.author(""), t.name)
}

// Sweep starts a sweep of it, or of one organization: see [actions.Sweep].
func (t Tenant) Sweep(ctx context.Context, organization string, pending bool) (run ledger.Run,
	created, announced bool, err error) {
	if organization != "" {
		if err := t.view.Organization(organization); err != nil {
			return ledger.Run{}, false, false, err
		}
	}
	in := t.view.store.cfg.Intake
	in.By = t.view.author("")
	return actions.Sweep(ctx, t.view.redis, in, ledger.NewRun{Tenant: ledger.Tenant(t.name)}, organization, pending)
}

// Resend sends deliveries to an endpoint of webhooks again: see [actions.Resend].
func (t Tenant) Resend(ctx context.Context, endpoint string, which deliveries.Which) (effect string, err error) {
	return actions.Resend(ctx, t.view.author(""), t.name, endpoint, which)
}

// Activity returns a page of the activity of those tenants of the query that are the user's.
func (v View) Activity(ctx context.Context, q activity.Query) (page []activity.Entry, older string, err error) {
	q.Tenants = slices.DeleteFunc(slices.Clone(q.Tenants), func(name string) bool { return !v.ofTenant(name) })
	return activity.Page(ctx, v.redis, q)
}

// OpenWork returns the open runs of tenants, and the single rows of each as one run, which may be
// empty, with the estimates of the first most of them.
func (v View) OpenWork(ctx context.Context, tenants []Tenant, most int) ([]ledger.Run, []status.Estimate, error) {
	names := make([]ledger.Tenant, len(tenants))
	for i, t := range tenants {
		names[i] = ledger.Tenant(t.name)
	}
	if len(names) == 0 {
		return nil, nil, nil // the ledger would take none for all
	}
	singles, err := v.ledger.CountSingles(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	all, err := v.ledger.OpenRuns(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	for _, t := range names {
		all = append(all, ledger.Run{Tenant: t, Incarnation: ledger.Incarnation("singles of " + t), Rows: singles[t],
			CreatedAt: now, StagedAt: now, CommittedAt: now})
	}
	all = all[:min(len(all), most)]
	return all, v.store.estimator.Estimate(ctx, now, all), nil
}
