package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

type sweepCommand struct {
	Tenant        string `default:"default" placeholder:"NAME" help:"Tenant whose domains are looked at."`
	Org           string `noenv:"true" placeholder:"ORG" help:"The domains of this organization alone."`
	ID            string `name:"run" noenv:"true" placeholder:"ID" help:"Id of the run, else one is made. The same again under the same id is harmless."`
	Label         string `noenv:"true" placeholder:"TEXT" help:"Your own word for the run."`
	VerifyPending bool   `noenv:"true" help:"Look at the domains that are pending, too; those whose TXT record is there are proven and marked verified."`
	NoWorkerYet   bool   `help:"Begin a sweep for a tenant that no worker has served on this Redis yet: it waits until one starts."`
	Follow        bool   `noenv:"true" help:"Stay until the sweep has ended, and tell what became of its rows."`
	DryRun        bool   `noenv:"true" help:"Say what a sweep would come to, how long it would take, and what would be done to the domains that are absent as far as is known; change nothing."`
	Rows          int    `noenv:"true" default:"20" help:"How many domains --dry-run and --confirm show; --json has all."`
	Confirm       string `noenv:"true" placeholder:"SWEEP" help:"In the place of a sweep: close the breaker that this sweep has opened. What was absent before that is acted on then, as the rules have it."`
}

// Help says what a sweep does.
func (*sweepCommand) Help() string {
	return "A worker walks through the organizations, at the sweeps' share of the tenant's rate, and the TXT record of each verified domain is looked for once more. " +
		"What was seen is written down. A domain whose record is gone is acted on (worker --absent-action) at the end of a sweep, once --absent-checks sweeps have not seen it, over at least --grace. " +
		"Where too much is gone at once, a breaker opens, and nothing is done until an operator has closed it by --confirm. " +
		"Sweeps begin by themselves where worker --sweep says when; this begins one now. --dry-run needs Redis alone."
}

func (c *sweepCommand) check() error {
	errs := []error{tasks.CheckTenant(c.Tenant)}
	if c.Org != "" {
		errs = append(errs, tasks.CheckOrganization(c.Org))
	}
	for _, run := range []string{c.ID, c.Confirm} {
		if run != "" {
			errs = append(errs, tasks.CheckRunID(run))
		}
	}
	if c.Rows < 1 {
		errs = append(errs, fmt.Errorf("rows: want 1 or more, got %d", c.Rows))
	}
	if c.DryRun && c.Follow {
		errs = append(errs, errors.New("--dry-run and --follow do not go together: nothing begins that could be followed"))
	}
	if other := c.besidesConfirm(); c.Confirm != "" && other != "" {
		errs = append(errs, fmt.Errorf("--confirm and %s do not go together: it begins no sweep", other))
	}
	if err := errors.Join(errs...); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// besidesConfirm is a flag that says something of a sweep to be begun; empty: none does.
func (c *sweepCommand) besidesConfirm() string {
	for _, other := range []struct {
		given bool
		flag  string
	}{{c.Org != "", "--org"}, {c.ID != "", "--run"}, {c.Label != "", "--label"}, {c.VerifyPending, "--verify-pending"}, {c.Follow, "--follow"}, {c.DryRun, "--dry-run"}} {
		if other.given {
			return other.flag
		}
	}
	return ""
}

// Run begins a sweep, says what one would come to, or closes the breaker.
func (c *sweepCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case c.Confirm != "":
		return t.confirmBreaker(ctx, c)
	case c.DryRun:
		return t.planSweep(ctx, c)
	}
	return t.beginSweep(ctx, c)
}

// beginSweep makes the run of a sweep, whose rows the workers find.
func (t *tool) beginSweep(ctx context.Context, c *sweepCommand) error {
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	_, served, err := pace.Announced(ctx, t.redis, c.Tenant)
	switch {
	case err != nil:
		return err
	case !served && !c.NoWorkerYet:
		return noWorker(c.Tenant)
	}
	id := cmp.Or(c.ID, tasks.NewRunID(time.Now()))
	run, created, seen, err := cli.SweepNow(ctx, t.redis, t.intake(), intake.Run{ID: id, Tenant: c.Tenant, Label: c.Label}, c.Org, c.VerifyPending)
	if mismatch, ok := errors.AsType[*runs.MismatchError](err); ok {
		return cli.Usage(mismatch)
	}
	if sweeping, ok := errors.AsType[*intake.SweepingError](err); ok {
		return sweeping
	}
	if apart, ok := errors.AsType[*intake.ClocksError](err); ok {
		return apart
	}
	if err != nil && ctx.Err() != nil {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: to be sure that sweep %s is there, give the same command again with --run %s", id, id)}
	}
	if err != nil {
		return fmt.Errorf("%w\nto be sure that sweep %s is there, give the same command again with --run %s", err, id, id)
	}
	if err := t.tellPending(ctx, run, created, seen); err != nil || !c.Follow {
		return err
	}
	return t.follow(ctx, []string{run.ID})
}
