package main

import (
	"fmt"
	"time"

	"orgops/internal/capacity"
	"orgops/internal/cli"
	"orgops/internal/health"
	"orgops/internal/tenant"
)

// load holds the properties of the planned load that are no settings.
type load struct {
	Tenants int    `noenv:"true" default:"1" help:"With --plan: tenants with the settings of each."`
	Rows    int64  `noenv:"true" default:"0" help:"With --plan: rows of domains verify that each tenant has open at a time."`
	Kept    *int64 `noenv:"true" placeholder:"N" help:"With --plan: rows of each tenant that end within 30 days, whose results are kept (default: as many as are open)."`
	Domains int64  `noenv:"true" default:"0" help:"With --plan: verified domains of each tenant, which its sweeps check."`
	Workers int    `noenv:"true" default:"0" help:"With --plan: number of workers; 0: as many as are needed, and two at least."`
}

// Bounds of a load. Larger values are taken for mistakes.
const (
	mostPlanned        = 100_000_000 // rows or domains
	mostPlannedTenants = 10_000
)

func (l load) checkLoad() error {
	switch {
	case l.Tenants < 1 || l.Tenants > mostPlannedTenants:
		return fmt.Errorf("plan-tenants: want 1 to %d, got %d", mostPlannedTenants, l.Tenants)
	case l.Workers < 0 || l.Workers > mostPlannedTenants:
		return fmt.Errorf("plan-workers: want 0 to %d, got %d", mostPlannedTenants, l.Workers)
	case l.Rows < 0 || l.Rows > mostPlanned:
		return fmt.Errorf("plan-rows: want 0 to %d, got %d", mostPlanned, l.Rows)
	case l.Kept != nil && (*l.Kept < 0 || *l.Kept > mostPlanned):
		return fmt.Errorf("plan-kept: want 0 to %d, got %d", mostPlanned, *l.Kept)
	case l.Domains < 0 || l.Domains > mostPlanned:
		return fmt.Errorf("plan-domains: want 0 to %d, got %d", mostPlanned, l.Domains)
	}
	return nil
}

// given reports whether flags describe a load.
func (l load) given() bool { return l != load{Tenants: 1} }

// plan prints the needs of the tenants. It opens no connection.
func (d doctorCommand) plan(p cli.Program) error {
	tenants, err := d.planned(p.Env.Get)
	if err == nil {
		err = d.checkLoad()
	}
	if err != nil {
		return cli.Usage(err)
	}
	l := capacity.Load{Workers: d.Workers}
	for _, t := range tenants {
		l.Tenants = append(l.Tenants, d.of(t))
	}
	return d.write(p.Stdout, health.Plan(l))
}

// planned returns the tenants of the settings. Flags may leave out how a tenant is reached.
func (d doctorCommand) planned(env func(string) string) ([]tenant.Settings, error) {
	if d.Config != "" || d.BaseURL != "" {
		return d.tenants(env)
	}
	t := d.WithSecrets(env)
	if err := t.CheckLimit(); err != nil {
		return nil, err
	}
	return []tenant.Settings{t}, t.CheckSweep()
}

// of returns the load of a tenant.
func (l load) of(t tenant.Settings) capacity.Tenant {
	rate, _ := t.Limit.Effective()
	sweeps, _ := t.Limit.Sweeps()
	c := capacity.Tenant{
		Name: t.Name, Count: l.Tenants, Rate: rate.PerSecond(), SweepRate: sweeps.PerSecond(), Rows: l.Rows, Kept: l.Rows, Domains: l.Domains,
	}
	if l.Kept != nil {
		c.Kept = *l.Kept
	}
	if t.Sweep != off {
		c.SweepEvery = 365 * 24 * time.Hour
		if between, ok := t.Cron.Shortest(1); ok {
			c.SweepEvery = between
		}
	}
	return c
}
