package main

import (
	"context"

	"orgops/tasks"
)

type createCommand struct{ submitFlags }

// Help says what a row is.
func (*createCommand) Help() string {
	return `JSON Lines only: one request body a line, with name, type, dialect, presentation, well_known_trusted_issuers[, custom_certificate_authority]

Example:

    enqueue templates create templates.jsonl --follow

Exit status: 0 if the rows were submitted (with --follow: and none failed), 2 for a usage error or an unusable file, 3 if a row is
invalid or failed.`
}

// Run hands the templates in to be created.
func (c *createCommand) Run(ctx context.Context, t *tool) error {
	return t.submit(ctx, order{submitFlags: c.submitFlags, kind: tasks.TypeCreate})
}
