package main

import (
	"context"

	"orgops/internal/intake"
)

type failedCommand struct {
	ID string `arg:"" name:"run" help:"Id of the run."`
}

// Help says what is written.
func (*failedCommand) Help() string {
	return "The rows come in the form in which they were handed in, with orgops_outcome and orgops_error: " +
		"CSV as CSV, safe to open in a spreadsheet, JSON Lines as JSON Lines; with --json always JSON Lines. " +
		"The file can be handed in as it is: what begins with orgops_ is ignored."
}

// Run writes the rows to stdout.
func (c *failedCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	r, err := t.ledger.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	rows, err := intake.ExportUnwell(ctx, t.ledger, r, t.json, t.Stdout)
	if err != nil {
		return err
	}
	t.log.InfoContext(ctx, "rows written that did not settle well", "run", r.ID, "rows", rows, "settled", r.Settled, "total", r.Total)
	return nil
}
