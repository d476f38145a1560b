package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"orgops/internal/runs"
	"orgops/tasks"
)

// BeginPending makes the run whose rows are the pending domains of one organization,
// or of all where that is empty, and sees to it that a worker walks through these to
// find them. The same again changes nothing, save that a walk whose task was lost
// goes on; the same id for something else is a *runs.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string, r Run) (run runs.Run, created bool, err error) {
	told, err := tasks.NewWalked(organization)
	if err != nil {
		return runs.Run{}, false, err
	}
	run, created, err = i.Ledger.Create(ctx, runs.Run{
		ID: r.ID, Kind: tasks.TypeVerify, Tenant: r.Tenant, Label: r.Label, Caller: r.Caller, Format: FormatJSONL, GiveUp: r.GiveUp, Priority: string(r.Priority),
		Digest: digestOfPending(organization), Walk: &runs.Walk{Told: told},
	})
	switch {
	case err != nil:
		return run, created, err
	case created:
		return run, true, i.Producer.Walk(ctx, tasksRun(run, nil), run.Walk.Step)
	case run.Ended(), run.Paused, !run.CancelledAt.IsZero():
		return run, false, nil // there is nothing to do, or resuming does it
	}
	_, err = i.Repair(ctx, run.ID)
	if errors.Is(err, runs.ErrEnded) || errors.Is(err, runs.ErrPaused) {
		err = nil // it has become so since it was read: there is nothing to do either
	}
	return run, false, err
}

// digestOfPending stands for the content of such a run: what was asked for.
func digestOfPending(organization string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "pending domains of %q", organization))
	return hex.EncodeToString(sum[:])
}

// tasksRun is the run as its tasks are enqueued now.
func tasksRun(r runs.Run, search *tasks.Search) tasks.Run {
	return tasks.Run{
		ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CountsFrom(), Generation: r.Generation, Floor: r.Floor,
		Rows: r.Total, Priority: tasks.Priority(r.Priority), GiveUp: r.GiveUp, Lost: search,
	}
}

// WalkLost says whether the run's walk has lost its task: none stands for its next
// step, and nobody has made that meanwhile.
func (i Intake) WalkLost(ctx context.Context, run runs.Run) (bool, error) {
	if !run.Walking() || i.Queue == nil {
		return false, nil
	}
	stands, err := i.search().WalkStands(ctx, tasksRun(run, nil), run.Walk.Step)
	if err != nil || stands {
		return false, err
	}
	now, err := i.Ledger.Get(ctx, run.ID)
	return err == nil && now.Walking() && !now.Paused && now.Walk.Step == run.Walk.Step && now.Generation == run.Generation, err
}

// walkAgain enqueues the run's walk in its generation, if it has one that has not
// come to its end.
func (i Intake) walkAgain(ctx context.Context, run runs.Run) error {
	if !run.Walking() {
		return nil
	}
	return i.Producer.Walk(ctx, tasksRun(run, nil), run.Walk.Step)
}
