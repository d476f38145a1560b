package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// checkPending refuses what does not go together with --pending.
func (c *verifyCommand) checkPending() error {
	for _, other := range []struct {
		given bool
		flag  string
	}{
		{c.File != "", "a file"}, {c.Domain != "", "--domain"}, {c.SkipInvalid, "--skip-invalid"}, {c.Rejected != "", "--rejected"},
		{len(c.IgnoreColumns) > 0, "--ignore-columns"}, {c.NotBefore != "", "--not-before"},
	} {
		if other.given {
			return cli.Usage(fmt.Errorf("--pending and %s do not go together: the rows are what the workers find pending", other.flag))
		}
	}
	if c.DryRun {
		return cli.Usage(errors.New("--pending and --dry-run do not go together: how many rows there are is known once a worker has scanned the tenant"))
	}
	if c.Org == "" {
		return nil
	}
	// As a row names it.
	if err := tasks.CheckOrganization(c.Org); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// submitPending makes the run of what is pending, which the workers find.
func (t *tool) submitPending(ctx context.Context, o order, organization string) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	giveUp, seen, err := t.giveUp(ctx, o)
	if err != nil {
		return err
	}
	if o.ID == "" {
		o.ID = tasks.NewRunID(time.Now())
	}
	run, created, err := t.intake().BeginPending(ctx, organization, intake.Run{ID: o.ID, Tenant: o.Tenant, Label: o.Label, GiveUp: giveUp, Priority: tasks.Priority(o.Priority)})
	if mismatch, ok := errors.AsType[*runs.MismatchError](err); ok {
		return cli.Usage(mismatch)
	}
	if err != nil && ctx.Err() != nil {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: to make sure that run %s exists, repeat the command with --run %s", o.ID, o.ID)}
	}
	if err != nil {
		return fmt.Errorf("%w\nto make sure that run %s exists, repeat the command with --run %s", err, o.ID, o.ID)
	}
	if err := t.tellPending(ctx, run, created, seen); err != nil || !o.Follow {
		return err
	}
	return t.follow(ctx, []string{run.ID})
}

// tellPending tells the run's id, and what is to be known of it.
func (t *tool) tellPending(ctx context.Context, run runs.Run, created, seen bool) error {
	switch {
	case !run.CancelledAt.IsZero():
		return fmt.Errorf("run %s was cancelled: give it another id, if its domains are still wanted", run.ID)
	case run.Ended():
		t.log.InfoContext(ctx, "run has ended already", "run", run.ID, "rows", run.Total)
	case run.Paused:
		t.log.WarnContext(ctx, "run exists and is paused: resume it to continue", "run", run.ID, "command", "enqueue runs resume "+run.ID)
	case !created:
		t.log.InfoContext(ctx, "run exists and continues", "run", run.ID, "rows", run.Rows(), "settled", run.Settled)
	}
	if !seen {
		t.log.WarnContext(ctx, "no worker has served this tenant on this Redis: the run waits until one starts", "tenant", run.Tenant)
	}
	if t.json {
		return t.printJSON(runAsJSON(run))
	}
	_, err := fmt.Fprintln(t.Stdout, run.ID)
	return err
}

// walkJSON is how far the walk is that finds a run's rows.
type walkJSON struct {
	sweep.Progress
	Waits   string     `json:"waits,omitempty"`    // why it does not go on
	NextTry *time.Time `json:"next_try,omitempty"` // null: not known
}

func walkAsJSON(r runs.Run) *walkJSON {
	told, ok := cli.WalkOf(r)
	if !ok {
		return nil
	}
	j := &walkJSON{Progress: told}
	if !r.Walking() {
		return j
	}
	j.Waits = r.Walk.Note
	if !r.Walk.Next.IsZero() {
		j.NextTry = &r.Walk.Next
	}
	return j
}
