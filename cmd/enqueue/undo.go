package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/terminal"
	"orgops/tasks/handlers"
)

// checkUndo returns an error for flags that say something of rows, which an undo finds itself.
func (c *updateCommand) checkUndo() error {
	other := firstGiven(
		flag{c.File != "", "a file"}, flag{c.Domain != "", "--domain"}, flag{c.Org != "", "--org"},
		flag{c.Status != "", "--status"}, flag{c.UseForDiscovery != "", "--use-for-discovery"},
		flag{c.SkipInvalid, "--skip-invalid"}, flag{c.Rejected != "", "--rejected"},
		flag{len(c.IgnoreColumns) > 0, "--ignore-columns"},
	)
	if other != "" {
		return cli.Usage(fmt.Errorf("--undo and %s do not go together: the rows are those that the run has changed", other))
	}
	return cli.Usage(ifGiven(c.Undo, ids.CheckRun))
}

// undoPlan is the plan of an undo: how many rows of each kind it submits.
type undoPlan struct {
	DryRun bool         `json:"dry_run"`
	Undo   ledger.RunID `json:"undo"`
	Verify int          `json:"to_be_verified"` // domains that were verified, by a proof
	Update int          `json:"to_be_updated"`  // the others
}

// Write writes the plan as text.
func (p undoPlan) Write(out io.Writer) error {
	w := terminal.NewTable(out)
	fmt.Fprintf(w, "verified before\t%d, which are proven and verified again\n", p.Verify)
	fmt.Fprintf(w, "other changes\t%d, which are put back\n", p.Update)
	return w.Flush()
}

// undoUpdate submits the rows that undo a run: those that verify domains again as one run, and all
// others as another, if there are both.
func (t *tool) undoUpdate(ctx context.Context, o order, undo oneRun) error {
	if _, err := o.run(); err != nil {
		return err
	}
	connect := t.connectToSubmit
	if o.DryRun {
		connect = func(ctx context.Context) error { return t.connectToRead(ctx) }
	}
	if err := connect(ctx); err != nil {
		return err
	}

	// The run, whose tenant is that of the rows that undo it.
	from, err := t.find(ctx, undo)
	if err != nil {
		return err
	}
	o.Tenant = string(from.Tenant)
	run, err := o.run()
	switch {
	case err != nil:
		return err
	case from.Kind != handlers.Update:
		return cli.Usage(fmt.Errorf("undo: run %s is of kind %s: want one of kind %s", from.ID, from.Kind, handlers.Update))
	case !from.Ended():
		return remedy.With(fmt.Errorf("run %s has not ended: its open rows would change more", from.ID),
			"cancel it first: enqueue runs cancel %s", from.ID)
	}
	run.Undoes = from.ID
	rows, err := t.intake().Undo(ctx, from)
	if err != nil {
		return err
	}
	if o.DryRun {
		p := undoPlan{DryRun: true, Undo: from.ID, Verify: len(rows.Verify), Update: len(rows.Update)}
		return t.print(p, p.Write)
	}
	return t.submitUndoing(ctx, o, run, rows)
}

// submitUndoing submits the rows, and follows their runs if the command says so.
func (t *tool) submitUndoing(ctx context.Context, o order, run ledger.NewRun, rows intake.Undoing) error {
	// Two runs, since one has rows of one kind.
	verify := run
	verify.Kind = handlers.Verify
	update := run
	update.Kind = handlers.Update
	if len(rows.Verify) > 0 {
		update.ID += "-update"
	}
	if err := ids.CheckRun(string(update.ID)); err != nil {
		return cli.Usage(err)
	}
	var ids []string
	for _, part := range []struct {
		run  ledger.NewRun
		rows [][]byte
	}{{verify, rows.Verify}, {update, rows.Update}} {
		if len(part.rows) == 0 {
			continue
		}
		sub, err := t.intake().SubmitChosen(ctx, part.run, part.rows)
		if err != nil {
			return refusal(sub.Found, o.Tenant, interruptedIn(ctx, err))
		}
		if err := t.printSubmitted(ctx, sub); err != nil {
			return err
		}
		ids = append(ids, string(part.run.ID))
	}
	if len(ids) == 0 {
		return errors.New("nothing to undo: the run has changed nothing")
	}
	if !o.Follow {
		return nil
	}
	return t.follow(ctx, o.Tenant, ids)
}
