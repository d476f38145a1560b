package main

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/status"
	"orgops/internal/sweep/schedule"
	"orgops/tasks"
)

func (c *verifyCommand) checkPending() error {
	if other := firstGiven(
		flag{c.File != "", "a file"}, flag{c.Domain != "", "--domain"}, flag{c.SkipInvalid, "--skip-invalid"},
		flag{c.Rejected != "", "--rejected"},
		flag{len(c.IgnoreColumns) > 0, "--ignore-columns"}, flag{c.NotBefore != "", "--not-before"},
	); other != "" {
		return cli.Usage(fmt.Errorf("--pending and %s do not go together: the rows are what the workers find pending", other))
	}
	if c.DryRun {
		return cli.Usage(
			errors.New(
				"--pending and --dry-run do not go together: how many rows there are is known once a worker has scanned the tenant"))
	}
	return cli.Usage(ifGiven(c.Org, tasks.CheckOrganization))
}

// submitPending submits a run of the pending domains, which the workers find.
func (t *tool) submitPending(ctx context.Context, o order, organization string) error {
	r, err := o.run()
	if err != nil {
		return err
	}
	seen, err := t.connectToSubmitTo(ctx, o.Tenant, o.NoWorkerYet)
	if err != nil {
		return err
	}
	run, created, err := t.intake().BeginPending(ctx, organization, r)
	if err != nil {
		return notStarted(ctx, "run "+string(r.ID), string(r.ID), err)
	}
	return t.started(ctx, run, created, seen, o.Follow)
}

// notStarted adds to the error of a run whose rows the workers find how to proceed.
func notStarted(ctx context.Context, what, id string, err error) error {
	if mismatch, ok := errors.AsType[*ledger.MismatchError](err); ok {
		return cli.Usage(mismatch)
	}
	if sweeping, ok := errors.AsType[*schedule.InProgressError](err); ok {
		return sweeping
	}
	const again = "to make sure that %s exists, repeat the command with --run %s"
	if ctx.Err() != nil {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: remedy.With(errors.New("interrupted"), again, what, id)}
	}
	return remedy.With(err, again, what, id)
}

// started prints the id of such a run, logs its state, and follows it if follow is set.
func (t *tool) started(ctx context.Context, run ledger.Run, created, seen, follow bool) (err error) {
	switch {
	case !run.CancelledAt.IsZero():
		return intake.Cancelled(run.ID)
	case run.Ended():
		t.log.InfoContext(ctx, "run has ended already", "run", run.ID, "rows", run.Total())
	case run.Paused:
		t.log.WarnContext(ctx, "run exists and is paused: resume it to continue", "run", run.ID, "command",
			"enqueue runs resume "+run.ID)
	case !created:
		t.log.InfoContext(ctx, "run exists and continues", "run", run.ID, "rows", run.Rows, "settled", run.Settled())
	}
	if !seen {
		t.log.WarnContext(ctx, "no worker has served this tenant on this Redis: the run waits until one starts", "tenant",
			run.Tenant)
	}
	if t.JSON {
		err = t.printJSON(status.RunOf(run))
	} else {
		_, err = fmt.Fprintln(t.Stdout, run.ID)
	}
	if err != nil || !follow {
		return err
	}
	return t.follow(ctx, string(run.Tenant), []string{string(run.ID)})
}
