package main

import (
	"context"

	"orgops/internal/cli"
)

type pauseCommand struct{ oneRun }

// Run pauses the run.
func (c *pauseCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	told, err := cli.Pause(ctx, t.ledger, c.ID)
	if err != nil {
		return err
	}
	return t.told(ctx, c.ID, told)
}

type resumeCommand struct{ oneRun }

// Run resumes the run.
func (c *resumeCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	told, err := cli.Resume(ctx, t.intake(), c.ID)
	if err != nil {
		return err
	}
	return t.told(ctx, c.ID, told)
}
