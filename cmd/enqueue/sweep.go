package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
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
	DryRun        bool   `noenv:"true" help:"Print how long a sweep would take and what it would do to domains known to be absent; change nothing."`
	Rows          int    `noenv:"true" default:"20" help:"Domains that --dry-run and --confirm print; --json prints all."`
	Confirm       string `noenv:"true" placeholder:"SWEEP" help:"Confirm a sweep that was held back because it found too many domains absent, instead of starting one. Those domains are acted on at the end of the next sweep."`
}

func (*sweepCommand) Help() string {
	return `A worker scans the organizations at the sweeps' share of the tenant's rate and checks the TXT record of each verified domain again.
Results are recorded. A domain whose record is gone is acted on (worker --absent-action) at the end of a sweep, after --absent-checks
sweeps have found it gone over at least --grace. If a sweep finds too many domains gone at once, it is held back until an operator confirms it.

Sweeps start by schedule (worker --sweep); this command starts one now.

Examples:

    enqueue domains sweep --dry-run
    enqueue domains sweep --confirm 20261122-030000-abcdef`
}

func (c *sweepCommand) check() error {
	errs := []error{
		tasks.CheckTenant(c.Tenant), ifGiven(c.Org, tasks.CheckOrganization),
		ifGiven(c.ID, tasks.CheckRunID), ifGiven(c.Confirm, tasks.CheckRunID),
	}
	if c.Rows < 1 {
		errs = append(errs, fmt.Errorf("rows: want 1 or more, got %d", c.Rows))
	}
	if c.DryRun && c.Follow {
		errs = append(errs, errors.New("--dry-run and --follow do not go together: a dry run starts nothing to follow"))
	}
	other := firstGiven(
		flag{c.Org != "", "--org"}, flag{c.ID != "", "--run"}, flag{c.Label != "", "--label"}, flag{c.VerifyPending, "--verify-pending"}, flag{c.Follow, "--follow"}, flag{c.DryRun, "--dry-run"},
	)
	if c.Confirm != "" && other != "" {
		errs = append(errs, fmt.Errorf("--confirm and %s do not go together: it begins no sweep", other))
	}
	return cli.Usage(errors.Join(errs...))
}

func (c *sweepCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case c.Confirm != "":
		return t.confirmBreaker(ctx, c)
	case c.DryRun:
		return t.planSweep(ctx, c.Tenant, c.Org, c.Rows)
	}
	return t.startSweep(ctx, c)
}

// startSweep submits the run of a sweep, whose rows the workers find.
func (t *tool) startSweep(ctx context.Context, c *sweepCommand) error {
	if err := t.connectToSubmit(ctx); err != nil {
		return err
	}
	if _, _, err := t.served(ctx, c.Tenant, c.NoWorkerYet); err != nil {
		return err
	}
	id := cmp.Or(c.ID, tasks.NewRunID(time.Now()))
	run, created, seen, err := status.SweepNow(ctx, t.redis, t.intake(), ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(c.Tenant), Description: ledger.Description{Label: c.Label}}, c.Org, c.VerifyPending)
	if err != nil {
		return notStarted(ctx, "sweep "+id, id, err)
	}
	return t.started(ctx, run, created, seen, c.Follow)
}

// confirmBreaker closes the tenant's breaker, if it is that of the sweep, and prints a preview
// of the next sweep.
func (t *tool) confirmBreaker(ctx context.Context, c *sweepCommand) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	closed, err := status.CloseBreaker(ctx, t.redis, c.Tenant, c.Confirm)
	if err != nil {
		return err
	}
	preview, err := status.PreviewOf(ctx, t.redis, c.Tenant, "", time.Now())
	if err != nil {
		return err
	}
	if t.json {
		return t.printJSON(confirmedJSON{c.Tenant, c.Confirm, closed.Confirmed, candidatesAsJSON(preview.Candidates)})
	}
	fmt.Fprintln(t.Stdout, status.BreakerClosed(c.Tenant, closed))
	fmt.Fprintln(t.Stdout, "Nothing is changed before the next sweep has ended; if it finds the same as the last ones:")
	return status.WriteCandidates(t.Stdout, preview.Candidates, c.Rows)
}

// confirmedJSON is the output of --json for a confirmation.
type confirmedJSON struct {
	Tenant    string          `json:"tenant"`
	Sweep     string          `json:"sweep"` // that held domains back
	Confirmed time.Time       `json:"confirmed_before"`
	Domains   []candidateJSON `json:"domains"` // all that are absent, or were taken away, as the next sweep would decide
}
