package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// submitStatus is the part of the help about the exit status.
const submitStatus = `Exit status: 0 if the rows were submitted (with --follow: and none failed), 2 for a usage error or an unusable file, 3 if a row is
invalid or failed.`

// submitHelp returns the help of the command that submits rows of that kind.
func submitHelp(name string) string {
	kind, _ := tasks.KindOf(name)
	columns := ""
	if len(kind.Columns) > 0 {
		columns = "Columns: " + tasks.Usage(kind.Columns) + "\n\n"
	}
	return columns + kind.Help + "\n\n" + submitStatus
}

type verifyCommand struct {
	submitFlags
	oneDomain
	Pending bool          `noenv:"true" help:"Verify all pending domains of the tenant, or of the organization given by --org, instead of a file. The workers find them."`
	Read    bool          `noenv:"true" help:"With --dry-run: let the workers read each domain and check its token once, at the tenant's pace, and print how many are verified already, have their token in DNS or not, or are not found."`
	GiveUp  time.Duration `placeholder:"DURATION" help:"How long to wait for the TXT record to appear (default: the tenant's setting)."`
}

func (*verifyCommand) Help() string { return submitHelp(tasks.TypeVerify) }

func (c *verifyCommand) Run(ctx context.Context, t *tool) error {
	if c.GiveUp < 0 || c.GiveUp%time.Second != 0 {
		return cli.Usage(fmt.Errorf("give-up: want whole seconds, such as 72h, got %s", c.GiveUp))
	}
	if c.GiveUp > 0 && c.GiveUp < tasks.LeastGiveUp {
		return cli.Usage(fmt.Errorf("give-up: %s is shorter than a check may take, so that rows would expire at their first: "+
			"want at least %s, such as 72h", c.GiveUp, tasks.LeastGiveUp))
	}

	// A dry run that reads is a run of its own kind.
	o := c.order(tasks.TypeVerify)
	o.giveUp = c.GiveUp
	switch {
	case c.Read && !c.DryRun:
		return cli.Usage(errors.New("--read requires --dry-run: a submission reads each domain anyway"))
	case c.Read: // a run of its own, whose rows change nothing
		o.kind = tasks.TypeRead
		o.giveUp = 0
		o.DryRun = false
		o.Follow = true
	}

	// The rows: pending domains, one domain, or a file.
	if c.Pending {
		if err := c.checkPending(); err != nil {
			return err
		}
		return t.submitPending(ctx, o, c.Org)
	}
	var err error
	c.byName = true
	c.take(&o.File)
	if o.one, o.Tenant, err = c.row(ctx, t, c.Tenant); err != nil {
		return err
	}
	return t.submit(ctx, o)
}

type updateCommand struct {
	submitFlags
	oneDomain
	Status          string `noenv:"true" placeholder:"STATUS" help:"Status of rows without one: pending. (To set verified, use domains verify: it requires a proof.)"`
	UseForDiscovery string `noenv:"true" placeholder:"BOOL" help:"Value of use_for_organization_discovery for rows without one: true or false."`
	Max             int64  `noenv:"true" placeholder:"N" help:"Most verified domains of the tenant that may be set to pending in seven days, those of other runs and revocations included; more rows are refused (default: 20, or 1 % of the domains of the last complete sweep if that is more)."`
	Undo            string `noenv:"true" placeholder:"RUN" help:"Put back what this run has changed, instead of submitting rows. A record that was changed since is left as it is."`
}

func (*updateCommand) Help() string { return submitHelp(tasks.TypeUpdate) }

func (c *updateCommand) Run(ctx context.Context, t *tool) error {
	if c.Max < 0 {
		return cli.Usage(fmt.Errorf("max: want 1 or more, got %d", c.Max))
	}
	o := c.order(tasks.TypeUpdate)
	o.max = c.Max
	if c.Undo != "" {
		if err := c.checkUndo(); err != nil {
			return err
		}
		return t.undoUpdate(ctx, o, oneRun{c.Undo, c.Tenant})
	}
	c.take(&o.File)
	var err error
	if o.one, o.Tenant, err = c.row(ctx, t, c.Tenant); err != nil {
		return err
	}
	if o.defaults, err = c.defaults(); err != nil {
		return err
	}
	return t.submit(ctx, o)
}

func (c *updateCommand) defaults() (tasks.Defaults, error) {
	switch c.Status {
	case "", "pending":
	case "verified":
		return nil, cli.Usage(errors.New(`status: verified is not set without a proof; use "enqueue domains verify"`))
	default:
		return nil, cli.Usage(fmt.Errorf("status: want pending, got %s", untrusted.Value(c.Status)))
	}
	switch c.UseForDiscovery {
	case "", "true", "false":
	default:
		return nil, cli.Usage(fmt.Errorf("use-for-discovery: want true or false, got %s", untrusted.Value(c.UseForDiscovery)))
	}
	return tasks.Defaults{"status": c.Status, "use_for_organization_discovery": c.UseForDiscovery}, nil
}

type removeCommand struct {
	submitFlags
	everywhereFlags
}

func (*removeCommand) Help() string { return submitHelp(tasks.TypeRemove) }

func (c *removeCommand) Run(ctx context.Context, t *tool) error {
	o := c.order(tasks.TypeRemove)
	if c.Everywhere {
		if err := c.checkEverywhere(t); err != nil {
			return err
		}
		return c.removeEverywhere(ctx, t, o)
	}
	if c.Client != "" || c.Expect != 0 {
		return cli.Usage(errors.New("--client and --expect require --everywhere"))
	}
	return t.submit(ctx, o)
}

type createCommand struct{ submitFlags }

func (*createCommand) Help() string { return submitHelp(tasks.TypeCreate) }

func (c *createCommand) Run(ctx context.Context, t *tool) error {
	return t.submit(ctx, c.order(tasks.TypeCreate))
}
