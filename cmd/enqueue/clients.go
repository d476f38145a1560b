package main

import (
	"context"

	"orgops/tasks"
)

type removeCommand struct{ submitFlags }

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
	return t.submit(ctx, order{submitFlags: c.submitFlags, kind: tasks.TypeRemove})
}
