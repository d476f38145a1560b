package intake

import (
	"context"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Resume goes on with a paused run: it enqueues every open row anew, as the
// ledger has it and in the batches in which it was handed in. resumed is false
// where the run was not paused. Who is killed on the way leaves a run that is
// being resumed; to resume it again, or twice at once, enqueues nothing twice.
func (i Intake) Resume(ctx context.Context, id string) (sum tasks.Summary, resumed bool, err error) {
	todo, err := i.Ledger.Resume(ctx, id)
	if err != nil || !todo {
		return tasks.Summary{}, false, err
	}
	run, err := i.Ledger.Get(ctx, id)
	if err != nil {
		return tasks.Summary{}, false, err
	}
	if sum, err = i.enqueueStored(ctx, run); err != nil {
		return sum, false, err
	}
	return sum, true, i.Ledger.Resumed(ctx, id, run.Generation)
}

// enqueueStored enqueues the run's open rows from the ledger.
func (i Intake) enqueueStored(ctx context.Context, run runs.Run) (tasks.Summary, error) {
	stored, err := newStoredRows(i.Ledger, run)
	if err != nil {
		return tasks.Summary{}, err
	}
	submission, err := i.Producer.Begin(tasks.Run{
		ID: run.ID, Kind: run.Kind, Tenant: run.Tenant, CreatedAt: run.CreatedAt, Generation: run.Generation,
		Existed: true, Stored: true, Rows: run.Total, GiveUp: run.GiveUp,
	})
	if err != nil {
		return tasks.Summary{}, err
	}
	for item := range run.Total {
		source, err := stored.source(ctx, item)
		if err != nil {
			return tasks.Summary{}, err
		}
		if err := addStored(ctx, submission, item, source, stored); err != nil {
			return tasks.Summary{}, err
		}
	}
	return submission.Finish(ctx)
}

// addStored hands in a stored row as row item. A bad one becomes no work, as when
// it was first handed in: batches are formed of the others alone.
func addStored(ctx context.Context, to *tasks.Submission, item int64, source []byte, stored *storedRows) error {
	row, bad := stored.row(source)
	if bad != nil {
		return to.AddSettled(ctx, item, source, tasks.Invalid, oneLine(bad))
	}
	return to.Add(ctx, item, source, row)
}
