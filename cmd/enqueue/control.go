package main

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
)

// printEffect prints the effect on the run, or with --json the run.
func (t *tool) printEffect(ctx context.Context, run ledger.Run, effect string) error {
	if !t.JSON {
		_, err := fmt.Fprintf(t.Stdout, "run %s: %s\n", run.ID, effect)
		return err
	}
	r, err := t.ledger.Get(ctx, run.Tenant, run.ID)
	if err != nil {
		return err
	}
	return t.printJSON(status.RunOf(r))
}

// change calls f for a run, and prints its effect.
func (t *tool) change(ctx context.Context, of oneRun,
	f func(context.Context, activity.Author, *ledger.Ledger, ledger.Run) (string, error)) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	run, err := t.find(ctx, of)
	if err != nil {
		return err
	}
	effect, err := f(ctx, t.author(whoAmI()), t.ledger, run)
	if err != nil {
		return err
	}
	return t.printEffect(ctx, run, effect)
}

type pauseCommand struct{ oneRun }

func (c *pauseCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.oneRun, status.Pause)
}

type resumeCommand struct{ oneRun }

func (c *resumeCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.oneRun, status.Resume)
}

type cancelCommand struct{ oneRun }

func (*cancelCommand) Help() string {
	return `Rows that have not started do not start. If a request of a row is in progress, its result is found out first and the row settles with
it; nothing more is verified or created. A run that is still being submitted accepts no more rows.

Example:

    enqueue runs cancel nightly`
}

func (c *cancelCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.oneRun, status.Cancel)
}

type deleteCommand struct{ oneRun }

func (c *deleteCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	r, err := t.find(ctx, c.oneRun)
	if err == nil && r.Parent != "" && r.Total() > 0 {
		// Without it the parent's rows could be retried, and carried out, once more.
		if _, gone := t.ledger.Get(ctx, r.Tenant, r.Parent); !errors.Is(gone, ledger.ErrNotFound) {
			return cli.Fixed(fmt.Errorf("run %s has retried rows of run %s, which would be forgotten", r.ID, r.Parent),
				"first delete that run: enqueue runs delete %s", r.Parent)
		}
	}
	if err == nil {
		err = t.ledger.Delete(ctx, r.Tenant, r.ID)
	}
	if errors.Is(err, ledger.ErrOpen) {
		return cli.Fixed(fmt.Errorf("run %s has not ended", c.ID), "to end it first: enqueue runs cancel %s", c.ID)
	}
	if err != nil {
		return err
	}
	t.author(whoAmI()).Record(ctx, activity.OfRun(r.Tenant, r.ID, activity.Deleted, ""))
	if t.JSON {
		return t.printJSON(status.RunOf(r))
	}
	return t.printEffect(ctx, r, "deleted")
}
