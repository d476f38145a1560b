package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"orgops/internal/actions"
	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/tasks"
)

type sweepCommand struct {
	Tenant        string `default:"default" placeholder:"NAME" help:"Tenant to sweep."`
	Org           string `noenv:"true" placeholder:"ORG" help:"Only this organization."`
	ID            string `name:"run" noenv:"true" placeholder:"ID" help:"Run id (default: a new one). Repeating the command with the same id is harmless."`
	Label         string `noenv:"true" placeholder:"TEXT" help:"Label shown with the run."`
	VerifyPending bool   `noenv:"true" help:"Also check pending domains, and verify those whose TXT record is there."`
	NoWorkerYet   bool   `help:"Start a sweep of a tenant that no worker has served on this Redis yet. It waits until one starts."`
	Follow        bool   `noenv:"true" help:"Wait until the sweep has ended, then print the results of its rows."`
	DryRun        bool   `noenv:"true" help:"Print how long a sweep would take; change nothing."`
}

func (*sweepCommand) Help() string {
	return `A worker scans the organizations at the sweeps' share of the tenant's rate and checks the TXT record of each verified domain again.
Results are recorded. The first sweep that finds the record of a domain that others have verified proves it; a domain that was never proven
is unproven, and never lost. A proven domain is reported as lost once --absent-checks sweeps have found its record gone over at least --grace (of the
worker): the row of each later sweep that finds it gone settles as lost. A sweep takes nothing away: see "enqueue domains revoke".

Sweeps start by schedule (worker --sweep); this command starts one now.

Example:

    enqueue domains sweep --dry-run`
}

func (c *sweepCommand) check() error {
	errs := []error{
		ids.CheckTenant(c.Tenant), ifGiven(c.Org, tasks.CheckOrganization),
		ifGiven(c.ID, ids.CheckRun),
	}
	if c.DryRun && c.Follow {
		errs = append(errs, errors.New("--dry-run and --follow do not go together: a dry run starts nothing to follow"))
	}
	return cli.Usage(errors.Join(errs...))
}

func (c *sweepCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.DryRun {
		return t.planSweep(ctx, c.Tenant, c.Org)
	}
	return t.startSweep(ctx, c)
}

func (t *tool) startSweep(ctx context.Context, c *sweepCommand) error {
	if err := t.connectToSubmit(ctx); err != nil {
		return err
	}
	if _, err := t.served(ctx, c.Tenant, c.NoWorkerYet); err != nil {
		return err
	}
	id := cmp.Or(c.ID, tasks.NewRunID(time.Now()))
	run, created, seen, err := actions.Sweep(ctx, t.redis, t.intake(),
		ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(c.Tenant), Description: ledger.Description{Label: c.Label}},
		c.Org, c.VerifyPending)
	if err != nil {
		return notStarted(ctx, "sweep "+id, id, err)
	}
	return t.started(ctx, run, created, seen, c.Follow)
}
