package main

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/runs"
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
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	told, err := cli.Resume(ctx, intake.New(t.redis, t.ledger), c.ID)
	switch {
	case errors.Is(err, runs.ErrUnsealed), errors.Is(err, runs.ErrEnded), errors.Is(err, runs.ErrNotFound):
		return err
	case err != nil && ctx.Err() != nil:
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: only a part of run %s is resumed; for the rest, resume it again", c.ID)}
	case err != nil:
		return err
	}
	return t.told(ctx, c.ID, told)
}
