package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/runs"
	"orgops/tasks"
)

// tellEvery is how long the end of a run may go untold.
const tellEvery = 2 * time.Second

// tellEnds tells of runs that have ended, as long as ctx lasts. Who settles a run's
// last row may die right behind that, so the ledger keeps which runs nobody was told
// of: each worker looks there.
func (w *worker) tellEnds(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		if err := w.tellEnded(ctx); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "run end notifications failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tellEnded tells of the runs of our tenants that have ended by now. It is noted
// behind that: who dies in between tells again, under the same id.
func (w *worker) tellEnded(ctx context.Context) error {
	of := map[string]*served{}
	for _, t := range w.tenants {
		of[t.name] = t
	}
	untold, err := w.ledger.Untold(ctx, func(tenant string) bool { return of[tenant] != nil })
	failed := []error{err} // of one that cannot be read; the others are told
	for _, run := range untold {
		err := of[run.Tenant].notices.Tell(ctx, endOf(run))
		if err == nil {
			err = w.ledger.Told(ctx, run.ID)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func endOf(run runs.Run) tasks.Notice {
	return tasks.Notice{
		ID: fmt.Sprintf("run-%s-%d", run.ID, run.EndedAt.Unix()), Type: tasks.NoticeRunFinished, At: run.EndedAt,
		Data: tasks.NoticeData{Run: run.ID, Kind: run.Kind, Counts: run.Counts},
	}
}
