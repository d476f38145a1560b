package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/internal/terminal"
	"orgops/tasks/handlers"
)

type listCommand struct {
	status.RunFilter

	Limit int `noenv:"true" default:"100" placeholder:"N" help:"Print at most so many runs."`
}

func (c *listCommand) Run(ctx context.Context, t *tool) error {
	if err := c.Check(time.Now()); err != nil {
		return cli.Usage(err)
	}
	if c.Limit < 1 {
		return cli.Usage(errors.New("limit: want 1 or more"))
	}
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	if err := c.ReadHeld(ctx, t.redis); err != nil {
		return err
	}
	found, left, next, err := c.List(ctx, t.ledger, ledger.Place{}, c.Limit)
	if err != nil {
		return err
	}
	if len(found) == 0 && c.Tenant != "" {
		if err := t.mustBeKnown(ctx, c.Tenant); err != nil {
			return err
		}
	}
	all, err := status.Describe(ctx, t.redis, found, status.NewEstimator(t.redis).Estimate(ctx, time.Now(), found))
	if err != nil {
		return err
	}
	if t.JSON {
		for _, r := range all {
			err = errors.Join(err, t.printJSON(r))
		}
		return err
	}
	if err := terminal.WriteRuns(t.Stdout, all); err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintf(t.Stderr, "no such runs in %s, of %s\n", t.place(), cmp.Or(c.Tenant, "any tenant"))
	}
	for _, r := range found {
		for _, trouble := range status.Trouble(r) {
			fmt.Fprintf(t.Stdout, "run %s: %s\n", r.ID, trouble)
		}
	}
	if left {
		fmt.Fprintln(t.Stderr, "more runs are open: raise --limit")
	}
	if next != (ledger.Place{}) {
		at := next.CreatedAt.Add(time.Second) // of the last run that was read
		fmt.Fprintf(t.Stderr, "there may be more runs: to continue, add --until %s\n", stamp.UTC(at))
	}
	return nil
}

type followCommand struct {
	IDs    []string `arg:"" name:"run" help:"Run ids."`
	Tenant string   `noenv:"true" placeholder:"NAME" help:"Tenant of the runs, if several have one of an id."`
}

func (c *followCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx, ifGiven(c.Tenant, ids.CheckTenant)); err != nil {
		return err
	}
	return t.follow(ctx, c.Tenant, c.IDs)
}

// failedShown is the number of failed rows of a run that are printed at its end; runs show
// --rows prints more.
const failedShown = 50

// follow shows progress until the runs have ended, then their results. It is an error if a
// row failed.
func (t *tool) follow(ctx context.Context, tenant string, ids []string) error {
	all, err := terminal.Follow(ctx, t.redis, ledger.Tenant(tenant), ids, t.Stderr, cli.IsTerminal(t.Stderr))
	if err != nil && ctx.Err() != nil {
		continues := remedy.With(errors.New("interrupted: the submitted runs continue"),
			"to follow them again: enqueue runs follow %s", strings.Join(ids, " "))
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: continues}
	}
	if err != nil {
		return t.unknownRun(ctx, tenant, ids, err)
	}
	if err := t.printOutcomes(ctx, all); err != nil {
		return err
	}
	if err := status.Failure(all...); err != nil {
		return &cli.StatusError{Status: cli.StatusRejected, Err: err}
	}
	return nil
}

func (t *tool) printOutcomes(ctx context.Context, all []ledger.Run) error {
	if !t.JSON {
		if err := terminal.WriteRuns(t.Stdout, status.RunsOf(all)); err != nil {
			return err
		}
	}
	for _, r := range all {
		if r.Kind == handlers.Read {
			if err := t.printRead(ctx, r); err != nil {
				return err
			}
		}
		d, err := t.details(ctx, r, failedShown)
		if err != nil {
			return err
		}
		if t.JSON {
			if err := t.printJSON(d); err != nil {
				return err
			}
			continue
		}
		terminal.WriteFailedRows(t.Stdout, d)
		t.printUndo(d.ID, d.Undo)
	}
	return nil
}

// printUndo prints how a run is undone; nothing if it is nil.
func (t *tool) printUndo(run ledger.RunID, undo *status.Undo) {
	if undo != nil {
		fmt.Fprintf(t.Stderr, "to undo run %s: %s\n", run, undo)
	}
}

// details returns the details of the run, with at most so many open and failed rows.
func (t *tool) details(ctx context.Context, r ledger.Run, most int) (status.RunDetails, error) {
	d, err := status.DetailsOf(ctx, t.redis, t.ledger, r, status.WaitingSample)
	if err == nil {
		err = d.ReadRows(ctx, t.redis, t.ledger, most)
	}
	return d, err
}
