package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"orgops/internal/cli"
	"orgops/internal/pace"
	tenants "orgops/internal/tenant"
	"orgops/tasks"
)

// oneTenant is the argument of commands that do something to a tenant.
type oneTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`
}

type stopCommand struct {
	oneTenant
	Reason      string `noenv:"true" placeholder:"TEXT" help:"Reason shown to others."`
	By          string `noenv:"true" placeholder:"NAME" help:"Who stops the tenant (default: the user and machine that run this command)."`
	NoWorkerYet bool   `help:"Stop a tenant that no worker has served on this Redis yet."`
}

func (*stopCommand) Help() string {
	return `No PATCH, POST or DELETE is sent for the tenant until "enqueue tenant start". The command returns after 2 seconds, when every
worker has stopped and Redis has kept the stop. Rows stay open, no attempt is counted, and requests that only read are still sent: the
result of a request in progress is found out. A stop applies to all runs and sweeps. Webhook receivers are still notified.

A worker that cannot reach Redis does not learn of a stop. Stop that worker too.

Example:

    enqueue tenant stop acme --reason "wrong file, ticket 4711"`
}

func (c *stopCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, c.NoWorkerYet); err != nil {
		return err
	}
	stop, err := t.limiter(c.Tenant).Stop(ctx, cmp.Or(c.By, whoAmI()), c.Reason)
	if err != nil {
		return err
	}
	return t.tellStop(c.Tenant, &stop, stop.String())
}

type startCommand struct{ oneTenant }

func (*startCommand) Help() string {
	return `Rows that waited are executed again within two minutes.

Example:

    enqueue tenant start acme`
}

func (c *startCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, true); err != nil {
		return err
	}
	stop, err := t.limiter(c.Tenant).Start(ctx)
	if err != nil {
		return err
	}
	effect := "was not stopped"
	if stop != nil {
		effect = "started; it was " + stop.String()
	}
	return t.tellStop(c.Tenant, nil, effect)
}

// connectTo opens Redis for a tenant that a worker has served there.
func (t *tool) connectTo(ctx context.Context, tenant string, noWorkerYet bool) error {
	if err := tasks.CheckTenant(tenant); err != nil {
		return cli.Usage(err)
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	_, served, err := tenants.ReadAnnounced(ctx, t.redis, tenant)
	if err == nil && !served && !noWorkerYet {
		return cli.Usage(fmt.Errorf("no worker has served tenant %s on this Redis: check the name and --redis-url, or add --no-worker-yet", tenant))
	}
	return err
}

func (t *tool) limiter(tenant string) *pace.Limiter {
	return pace.New(pace.Config{Redis: t.redis, Tenant: tenant})
}

// stopJSON is a tenant as --json prints it.
type stopJSON struct {
	Tenant  string       `json:"tenant"`
	Stopped *stoppedJSON `json:"stopped"` // null: it is not
}

type stoppedJSON struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

func stoppedAsJSON(s *pace.Stop) *stoppedJSON {
	if s == nil {
		return nil
	}
	return &stoppedJSON{At: s.At, By: s.By, Reason: s.Reason}
}

// tellStop writes how the tenant is now: a line, or with --json an object.
func (t *tool) tellStop(tenant string, stop *pace.Stop, effect string) error {
	if t.json {
		return t.printJSON(stopJSON{Tenant: tenant, Stopped: stoppedAsJSON(stop)})
	}
	_, err := fmt.Fprintf(t.Stdout, "tenant %s: %s\n", tenant, effect)
	return err
}

// whoAmI returns user@host of this process.
func whoAmI() string {
	name := "unknown user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
