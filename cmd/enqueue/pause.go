package main

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/cli"
	"orgops/internal/runs"
)

type pauseCommand struct{ oneRun }

// Run pauses the run.
func (c *pauseCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	if err := t.ledger.Pause(ctx, c.ID); err != nil {
		return err
	}
	return t.told(ctx, c.ID, "paused; to go on: enqueue runs resume %s", c.ID)
}

type resumeCommand struct{ oneRun }

// Run resumes the run.
func (c *resumeCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	sum, resumed, err := t.intake().Resume(ctx, c.ID)
	switch {
	case errors.Is(err, runs.ErrUnsealed):
		return fmt.Errorf("%w: hand in the rest, with the same rows and --run %s, then resume it", err, c.ID)
	case errors.Is(err, runs.ErrEnded), errors.Is(err, runs.ErrNotFound):
		return err
	case err != nil && ctx.Err() != nil:
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: only a part of run %s is resumed; for the rest, resume it again", c.ID)}
	case err != nil:
		return err
	case !resumed:
		return t.told(ctx, c.ID, "it was not paused")
	}
	return t.told(ctx, c.ID, "resumed; open rows: %d", sum.Rows-sum.Settled)
}
