package intake

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Repaired is what a repair has come to.
type Repaired struct {
	Open  int64 // rows that are not settled
	Lost  int64 // of these, rows for which no task stood
	Tasks int64 // enqueued for them
	// Standing is how many tasks stood before.
	Standing int64
	// Walk: the task of the run's walk was lost too, or the one that judges the sweep,
	// and is enqueued.
	Walk bool
}

// mostRepairs is how often a repair begins anew. Once does, and twice where it
// goes on with one that was killed, some of whose tasks have ended meanwhile and
// left their ids taken.
const mostRepairs = 3

// Repair enqueues a task for those open rows of the run that have none: it was
// lost with Redis' last second, evicted, deleted, or archived. What stands is left
// alone. Who is killed on the way leaves a run that is being repaired; to repair it
// again, or twice at once, enqueues nothing twice.
//
// The error is [runs.ErrNotFound], [runs.ErrEnded], [runs.ErrUnsealed] while a
// producer hands the run in (who repairs it), or [runs.ErrPaused] (to resume it
// makes all tasks anew). Of a run whose rows a walk finds the walk is put back too.
func (i Intake) Repair(ctx context.Context, id string) (Repaired, error) {
	run, err := i.repairable(ctx, id)
	if err != nil {
		return Repaired{}, err
	}
	if run.Core {
		return Repaired{Open: run.Rows() - run.Settled}, nil
	}
	found, err := i.Lost(ctx, run)
	if err != nil {
		return Repaired{}, err
	}
	walk, err := i.WalkLost(ctx, run)
	if err != nil {
		return Repaired{}, err
	}
	sum := Repaired{Open: found.Open, Standing: found.Tasks - found.LostTasks}
	for range mostRepairs {
		if found.Lost == 0 && !walk && !run.Resuming {
			return sum, i.Ledger.NoteLost(ctx, id, 0, false)
		}
		sum.Walk = sum.Walk || walk
		put, err := i.putBack(ctx, id, walk)
		if errors.Is(err, runs.ErrEnded) { // Who had the rest of it went on.
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
		sum.Lost, sum.Tasks = max(sum.Lost, put.Lost), max(sum.Tasks, put.LostTasks)
		if run, err = i.Ledger.Get(ctx, id); err != nil {
			return sum, err
		}
		if found, err = i.Lost(ctx, run); err != nil {
			return sum, err
		}
		if walk, err = i.WalkLost(ctx, run); err != nil {
			return sum, err
		}
	}
	if found.Lost == 0 && !walk { // Others repair it too, one after the other.
		return sum, i.Ledger.NoteLost(ctx, id, 0, false)
	}
	return sum, fmt.Errorf("run %s: repair: after %d attempts %d rows have no task again: does something delete tasks, or does Redis evict keys (maxmemory-policy must be noeviction)?", id, mostRepairs, found.Lost)
}

// repairable returns the run if it can be repaired.
func (i Intake) repairable(ctx context.Context, id string) (run runs.Run, err error) {
	if run, err = i.Ledger.Get(ctx, id); err != nil {
		return run, err
	}
	switch {
	case run.Ended():
		err = runs.ErrEnded
	case !run.Sealed && !run.Walking():
		err = runs.ErrUnsealed
	case run.Paused:
		err = runs.ErrPaused
	default:
		return run, nil
	}
	return run, fmt.Errorf("run %s: repair: %w", id, err)
}

// putBack raises the generation, or goes on with the one of a repair or a resume
// before it, and enqueues what is lost. It looks for that once more, after the
// generation was raised: so whoever repairs after this one finds what it enqueues.
func (i Intake) putBack(ctx context.Context, id string, walk bool) (found tasks.Found, err error) {
	if err := i.Ledger.Repair(ctx, id); err != nil {
		return found, err
	}
	run, err := i.Ledger.Get(ctx, id)
	if err != nil {
		return found, err
	}
	if found, err = i.walk(ctx, run, i.search(), i.Producer.PutBack); err != nil {
		return found, err
	}
	if walk {
		if err := i.walkAgain(ctx, run); err != nil {
			return found, err
		}
	}
	return found, i.Ledger.Resumed(ctx, id, run.Generation)
}

// Lost looks for the tasks of the open rows of a run that is sealed, or of those that
// its walk has enqueued so far, and changes no task. What it finds lost is so: see package tasks.
func (i Intake) Lost(ctx context.Context, run runs.Run) (tasks.Found, error) {
	if run.Core {
		return tasks.Found{}, nil
	}
	return i.walk(ctx, run, i.search(), i.Producer.Lost)
}

// search is nil where no queue is given.
func (i Intake) search() *tasks.Search {
	if i.Queue == nil {
		return nil
	}
	return &tasks.Search{Queue: i.Queue, Marks: i.Ledger}
}

// windowRows reads the stored rows of a window as they were taken when they were
// submitted.
type windowRows struct {
	stored   *storedRows
	window   runs.OpenWindow
	repeated map[int64]bool // rows of it that were found to be duplicates; nil: not asked yet
}

func (s *storedRows) window(w runs.OpenWindow) *windowRows {
	return &windowRows{stored: s, window: w}
}

// row is one of them. A row that is no work has no task, and no place in a batch.
func (w *windowRows) row(ctx context.Context, item int64) (tasks.StoredRow, error) {
	source, err := w.stored.source(ctx, item)
	if err != nil {
		return tasks.StoredRow{}, err
	}
	row, bad := w.stored.row(source)
	if bad != nil {
		return tasks.StoredRow{Outcome: tasks.Invalid, Detail: oneLine(bad)}, nil
	}
	return w.work(ctx, item, row)
}

// work tells a duplicate from work, where that decides on who shares a batch. No
// task settles clients as unchanged, so that those which are were duplicates when
// they were submitted. One whose outcome Redis has forgotten is taken for work: at
// worst a batch is carried out once more, which removes nothing twice.
func (w *windowRows) work(ctx context.Context, item int64, row tasks.Row) (tasks.StoredRow, error) {
	run := w.stored.run
	if run.Kind != tasks.TypeRemove || run.Counts[string(tasks.Unchanged)] == 0 {
		return tasks.StoredRow{Row: row}, nil
	}
	if w.repeated == nil {
		items := make([]int64, w.window.Past-w.window.First)
		for i := range items {
			items[i] = w.window.First + int64(i)
		}
		outcomes, err := w.stored.ledger.OutcomesOf(ctx, run.ID, items)
		if err != nil {
			return tasks.StoredRow{}, err
		}
		w.repeated = map[int64]bool{}
		for i, outcome := range outcomes {
			w.repeated[items[i]] = outcome == string(tasks.Unchanged)
		}
	}
	if w.repeated[item] {
		return tasks.StoredRow{Outcome: tasks.Unchanged}, nil
	}
	return tasks.StoredRow{Row: row}, nil
}
