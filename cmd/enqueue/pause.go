package main

import (
	"context"

	"orgops/internal/cli"
)

type pauseCommand struct{ oneRun }

// Run pauses the run.
func (c *pauseCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.ID, cli.Pause)
}

type resumeCommand struct{ oneRun }

// Run resumes the run.
func (c *resumeCommand) Run(ctx context.Context, t *tool) error {
	return t.change(ctx, c.ID, cli.Resume)
}
