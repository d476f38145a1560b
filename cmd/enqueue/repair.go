package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/runs"
)

type repairCommand struct{ oneRun }

// Help says when it is of use.
func (*repairCommand) Help() string {
	return `A row is lost if it is open and Redis has no task for it any more: Redis lost its last second, evicted the task, or someone
deleted it. Such rows get a new task; all others stay as they are, so the command is always safe.

Example:

    enqueue runs repair nightly`
}

// Run repairs the run.
func (c *repairCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	repaired, err := cli.Repair(ctx, t.intake(), c.ID)
	switch {
	case errors.Is(err, runs.ErrUnsealed), errors.Is(err, runs.ErrPaused):
		return err
	case err != nil && ctx.Err() != nil:
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: only a part of run %s may be repaired; for the rest, repair it again", c.ID)}
	case err != nil:
		return err
	case t.json:
		return t.printJSON(repairedJSON{Run: c.ID, OpenRows: repaired.Open, LostRows: repaired.Lost, Tasks: repaired.Tasks, Walk: repaired.Walk})
	}
	return t.told(ctx, c.ID, cli.Repaired(repaired))
}

// repairedJSON is what --json prints of a repair.
type repairedJSON struct {
	Run      string `json:"run"`
	OpenRows int64  `json:"open_rows"`      // rows that are not settled
	LostRows int64  `json:"lost_rows"`      // of these, those for which no task stood
	Tasks    int64  `json:"tasks"`          // enqueued for them
	Walk     bool   `json:"walk,omitempty"` // the run's walk was lost too, and goes on
}

// printTrouble writes a line for each run that takes somebody to go on.
func (t *tool) printTrouble(all []runs.Run) {
	now := time.Now()
	for _, r := range all {
		if lost := cli.Lost(r); lost != "" {
			fmt.Fprintf(t.Stdout, "run %s: lost: %s\n", r.ID, lost)
		}
		if walk := cli.WalkTrouble(r); walk != "" {
			fmt.Fprintf(t.Stdout, "run %s: scan: %s\n", r.ID, walk)
		}
		if silent := cli.Silent(r, now); silent != "" {
			fmt.Fprintf(t.Stdout, "run %s: producer: %s\n", r.ID, silent)
		}
	}
}
