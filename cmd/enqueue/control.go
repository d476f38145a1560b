package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/status"
)

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

type manyRuns struct {
	IDs    []string `arg:"" name:"run" help:"Run ids."`
	Tenant string   `noenv:"true" placeholder:"NAME" help:"Tenant of the runs, if several have one of an id."`
}

// change calls f for each of the runs, also after an error, and prints the effects. The author has
// the reason.
func (t *tool) change(ctx context.Context, of manyRuns, reason string,
	f func(context.Context, activity.Author, *ledger.Ledger, ledger.Run) (string, error)) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	author := t.author(whoAmI())
	author.Reason = reason
	var failed error
	for _, id := range of.IDs {
		run, err := t.find(ctx, oneRun{id, of.Tenant})
		effect := ""
		if err == nil {
			effect, err = f(ctx, author, t.ledger, run)
		}
		if err == nil {
			err = t.printEffect(ctx, run, effect)
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil && len(of.IDs) > 1 {
		return errors.New(failed.Error()) // the remedy of one of them is none of the others
	}
	return failed
}

type pauseCommand struct{ manyRuns }

func (c *pauseCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.manyRuns, "", actions.Pause)
}

type resumeCommand struct{ manyRuns }

func (c *resumeCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.manyRuns, "", actions.Resume)
}

type cancelCommand struct {
	manyRuns
	sure
	because
}

func (*cancelCommand) Help() string {
	return `Rows that have not started do not start. If a request of a row is in progress, its result is found out first and the row settles with
it; nothing more is verified or created. A run that is still being submitted accepts no more rows. On a terminal the command asks first.

Example:

    enqueue runs cancel nightly`
}

func (c *cancelCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	// A run that cannot be read is reported by change, after the others were cancelled.
	var open int64
	for _, id := range c.IDs {
		if run, err := t.find(ctx, oneRun{id, c.Tenant}); err == nil {
			open += run.Total() - run.Settled()
		}
	}
	err := c.confirm(ctx, t, question{because: &c.because,
		text: fmt.Sprintf("Cancel %s: open rows (%d) settle as cancelled", strings.Join(c.IDs, ", "), open)})
	if err != nil {
		return err
	}
	return t.change(ctx, c.manyRuns, c.Reason, actions.Cancel)
}

type deleteCommand struct {
	oneRun
	sure
	because
}

func (*deleteCommand) Help() string {
	return `Its rows, their results and the proofs of its domains are deleted, which cannot be undone. On a terminal the command asks first;
elsewhere, as for cron, it needs --yes.

Example:

    enqueue runs delete nightly`
}

func (c *deleteCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	r, err := t.find(ctx, c.oneRun)
	if err == nil && !r.Ended() && !r.Staged() { // without a question, whose answer would change nothing
		err = ledger.ErrOpen
	}
	if err == nil {
		err = c.confirm(ctx, t, question{because: &c.because, needsYes: true,
			before: fmt.Sprintf("keep them first: enqueue runs results %s", c.ID),
			text:   fmt.Sprintf("Delete run %s, with the results of its rows (%d)", c.ID, r.Total())})
	}
	if err == nil {
		err = t.ledger.Delete(ctx, r.Tenant, r.ID)
	}
	if errors.Is(err, ledger.ErrOpen) {
		return remedy.With(fmt.Errorf("run %s has not ended", c.ID), "to end it first: enqueue runs cancel %s", c.ID)
	}
	if err != nil {
		return err
	}
	author := t.author(whoAmI())
	author.Reason = c.Reason
	author.Record(ctx, activity.OfRun(r.Tenant, r.ID, activity.Deleted, ""))
	if t.JSON {
		return t.printJSON(status.RunOf(r))
	}
	return t.printEffect(ctx, r, "deleted")
}
