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
	return "A row is lost when it is open and no task stands for it any more: Redis lost its last second, evicted the task, " +
		"or someone deleted it. Such rows get a new task; all others are left alone, so that it can be typed at any time."
}

// Run repairs the run.
func (c *repairCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToHandIn(ctx); err != nil {
		return err
	}
	repaired, err := t.intake().Repair(ctx, c.ID)
	switch {
	case errors.Is(err, runs.ErrUnsealed):
		return fmt.Errorf("%w: %s", err, completeOrCancel(c.ID))
	case errors.Is(err, runs.ErrPaused):
		return fmt.Errorf("%w: to go on with it makes all of its tasks anew: enqueue runs resume %s", err, c.ID)
	case err != nil && ctx.Err() != nil:
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: only a part of run %s may be repaired; for the rest, repair it again", c.ID)}
	case err != nil:
		return err
	case t.json:
		return t.printJSON(repairedJSON{Run: c.ID, OpenRows: repaired.Open, LostRows: repaired.Lost, Tasks: repaired.Tasks, Walk: repaired.Walk})
	case repaired.Walk:
		return t.told(ctx, c.ID, "its walk was lost, and goes on; rows that were lost: %d of %d open ones, tasks enqueued for them: %d", repaired.Lost, repaired.Open, repaired.Tasks)
	case repaired.Lost == 0:
		return t.told(ctx, c.ID, "nothing is lost; open rows: %d", repaired.Open)
	}
	return t.told(ctx, c.ID, "put back; rows that were lost: %d of %d open ones, tasks enqueued for them: %d", repaired.Lost, repaired.Open, repaired.Tasks)
}

// repairedJSON is what --json prints of a repair.
type repairedJSON struct {
	Run      string `json:"run"`
	OpenRows int64  `json:"open_rows"`      // rows that are not settled
	LostRows int64  `json:"lost_rows"`      // of these, those for which no task stood
	Tasks    int64  `json:"tasks"`          // enqueued for them
	Walk     bool   `json:"walk,omitempty"` // the run's walk was lost too, and goes on
}

// completeOrCancel says what to do about a run whose producer has gone.
func completeOrCancel(run string) string {
	return fmt.Sprintf("hand in the same rows again with --run %s, or end it: enqueue runs cancel %s", run, run)
}

// lostOf says in words what is lost of the run, and what to do; empty: nothing.
func lostOf(r runs.Run) string {
	if r.Lost == 0 || r.Ended() || r.Paused {
		return ""
	}
	return fmt.Sprintf("rows %d, at %s; no task stands for them: enqueue runs repair %s", r.Lost, stamp(r.LostAt), r.ID)
}

// silentOf says in words that the run's producer has gone; empty: it has not.
func silentOf(r runs.Run, now time.Time) string {
	since := r.SilentSince(now)
	if since.IsZero() {
		return ""
	}
	return fmt.Sprintf("silent since %s; if it has ended: %s", stamp(since), completeOrCancel(r.ID))
}

// printTrouble writes a line for each run that takes somebody to go on.
func (t *tool) printTrouble(all []runs.Run) {
	now := time.Now()
	for _, r := range all {
		if lost := lostOf(r); lost != "" {
			fmt.Fprintf(t.Stdout, "run %s: lost: %s\n", r.ID, lost)
		}
		if out := cli.LeftOut(r); out != "" || r.Walking() && !r.Walk.LostAt.IsZero() {
			fmt.Fprintf(t.Stdout, "run %s: walk: %s\n", r.ID, cli.WalkState(r))
		}
		if silent := silentOf(r, now); silent != "" {
			fmt.Fprintf(t.Stdout, "run %s: producer: %s\n", r.ID, silent)
		}
	}
}
