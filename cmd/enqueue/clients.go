package main

import (
	"context"
	"time"

	"orgops/internal/cli"
	"orgops/tasks"
)

type removeCommand struct {
	submitFlags
	BatchWait time.Duration `noenv:"true" default:"2s" placeholder:"DURATION" help:"How long a single row waits for others of its organization, to be removed by the same request; 0s: not at all. The rows of a file are removed together anyway."`
}

// Help names the columns.
func (*removeCommand) Help() string {
	return `Columns: organization_id, client_id

Example:

    enqueue clients remove clients.csv --follow

Exit status: 0 if the rows were submitted (with --follow: and none failed), 2 for a usage error or an unusable file, 3 if a row is
invalid or failed.`
}

// Run hands the clients in to be removed.
func (c *removeCommand) Run(ctx context.Context, t *tool) error {
	if err := tasks.CheckBatchWait(c.BatchWait); err != nil {
		return cli.Usage(err)
	}
	return t.submit(ctx, order{submitFlags: c.submitFlags, kind: tasks.TypeRemove, batchWait: c.BatchWait})
}
