package main

import (
	"context"

	"orgops/tasks"
)

type removeCommand struct{ submitFlags }

// Help names the columns.
func (*removeCommand) Help() string { return "Columns: organization_id, client_id" }

// Run hands the clients in to be removed.
func (c *removeCommand) Run(ctx context.Context, t *tool) error {
	return t.submit(ctx, order{submitFlags: c.submitFlags, kind: tasks.TypeRemove})
}
