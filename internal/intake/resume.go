package intake

import (
	"context"
	"errors"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Resume goes on with a paused run: it enqueues every open row anew, as the
// ledger has it and in the batches in which it was submitted. resumed is false
// where the run was not paused. Who is killed on the way leaves a run that is
// being resumed; to resume it again, or twice at once, enqueues nothing twice. A
// repair that was killed is completed as a repair. The walk that finds a run's rows
// goes on too.
func (i Intake) Resume(ctx context.Context, id string) (sum tasks.Summary, resumed bool, err error) {
	before, err := i.Ledger.Get(ctx, id)
	if err != nil && !errors.Is(err, runs.ErrNotFound) { // which Resume reports
		return tasks.Summary{}, false, err
	}
	todo, err := i.Ledger.Resume(ctx, id)
	if err == nil && before.Core {
		return tasks.Summary{Rows: before.Rows(), Settled: before.Settled, Tasks: before.Rows() - before.Settled}, before.Paused, nil
	}
	if err != nil || !todo {
		return tasks.Summary{}, false, err
	}
	run, err := i.Ledger.Get(ctx, id)
	if err != nil {
		return tasks.Summary{}, false, err
	}
	sum = tasks.Summary{Rows: run.Rows(), Settled: run.Settled}
	if run.Repairing() { // What stands of it must not be doubled.
		repaired, err := i.Repair(ctx, id)
		sum.Tasks = repaired.Tasks
		return sum, true, err
	}
	found, err := i.walk(ctx, run, nil, i.Producer.PutBack)
	if err != nil {
		return tasks.Summary{}, false, err
	}
	sum.Tasks, sum.Settled = found.Tasks, run.Rows()-found.Open
	if run.Walking() { // what judges a sweep is not dropped by a pause
		if err := i.walkAgain(ctx, run); err != nil {
			return tasks.Summary{}, false, err
		}
	}
	return sum, true, i.Ledger.Resumed(ctx, id, run.Generation)
}

// walk has each part of the run in which a row is open looked at.
func (i Intake) walk(ctx context.Context, run runs.Run, search *tasks.Search, look func(context.Context, tasks.Run, tasks.Window) (tasks.Found, error)) (sum tasks.Found, err error) {
	stored, err := newStoredRows(i.Ledger, run)
	if err != nil {
		return sum, err
	}
	r, past := tasksRun(run, search), run.Rows()
	if run.Walking() && search != nil {
		past = run.Walk.Enqueued // those above are the walk's to enqueue
	}
	for open, err := range i.Ledger.OpenWindows(ctx, run.ID, past, int64(r.WindowRows())) {
		if err == nil {
			err = ctx.Err() // a worker's client does not ask
		}
		if err != nil {
			return sum, err
		}
		found, err := look(ctx, r, tasks.Window{First: open.First, Past: open.Past, Open: open.Open, Stored: stored.window(open).row})
		if err != nil {
			return sum, err
		}
		sum.Add(found)
	}
	return sum, nil
}
