package main

import (
	"context"

	"orgops/internal/intake"
)

type failedCommand struct{ oneRun }

func (*failedCommand) Help() string {
	return `The rows keep the form in which they were submitted, with orgops_outcome and orgops_error added: CSV as CSV, safe to open in a
spreadsheet, JSON Lines as JSON Lines (with --json always JSON Lines). The file can be submitted as it is: columns that begin with orgops_ are ignored.

Example:

    enqueue runs failed nightly >failed.csv`
}

func (c *failedCommand) Run(ctx context.Context, t *tool) error {
	r, err := t.readRun(ctx, c.ID)
	if err != nil {
		return err
	}
	rows, err := intake.ExportUnwell(ctx, t.ledger, r, t.json, t.Stdout)
	if err != nil {
		return err
	}
	t.log.InfoContext(ctx, "failed rows written", "run", r.ID, "rows", rows, "settled", r.Settled, "total", r.Total)
	return nil
}
