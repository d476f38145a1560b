package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"orgops/internal/runs"
	"orgops/internal/scan"
	"orgops/tasks"
)

// BeginPending creates the run whose rows are the pending domains of one organization, or of
// all if that is empty, which a scan finds. A repetition changes nothing; if a run for
// something else has the id, the error is a *runs.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string, r Run) (run runs.Run, created bool, err error) {
	progress, err := scan.PendingProgress(organization)
	if err != nil {
		return runs.Run{}, false, err
	}
	return i.createScan(ctx, runs.Run{
		ID: r.ID, Kind: tasks.TypeVerify, Tenant: r.Tenant, Label: r.Label, Caller: r.Caller, Format: FormatJSONL, GiveUp: r.GiveUp, Priority: string(r.Priority),
		Digest: digestOfPending(organization),
	}, progress)
}

// goOn puts back what is lost of a run whose rows a walk finds.
func (i Intake) goOn(ctx context.Context, run runs.Run) error {
	if run.Ended() || run.Paused || !run.CancelledAt.IsZero() {
		return nil // there is nothing to do, or resuming does it
	}
	_, err := i.Repair(ctx, run.ID)
	if errors.Is(err, runs.ErrEnded) || errors.Is(err, runs.ErrPaused) {
		return nil // it has become so since it was read: there is nothing to do either
	}
	return err
}

// digestOfPending stands for the content of such a run: what was asked for.
func digestOfPending(organization string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "pending domains of %q", organization))
	return hex.EncodeToString(sum[:])
}

// tasksRun is the run as its tasks are enqueued now.
func tasksRun(r runs.Run, search *tasks.Search) tasks.Run {
	return tasks.Run{
		ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CountsFrom(), First: r.First, Generation: r.Generation, Floor: r.Floor,
		Rows: r.Total, Priority: tasks.Priority(r.Priority), GiveUp: r.GiveUp, Lost: search,
	}
}

// TasksOf says which task stands, or stood last, for each of the run's rows as far as
// it is there to be looked at: see [tasks.Queued.OfRows].
func TasksOf(ctx context.Context, queued *tasks.Queued, r runs.Run, items []int64) (map[int64]tasks.TaskName, error) {
	return queued.OfRows(ctx, tasksRun(r, nil), items)
}

// WalkLost says whether the run has lost the task that goes on with it as a whole: that
// of its walk, where none stands for the next step and nobody has made that meanwhile;
// or the one that judges a sweep whose rows are all found.
func (i Intake) WalkLost(ctx context.Context, run runs.Run) (bool, error) {
	_, judged := toBeJudged(run)
	if i.Queue == nil || !run.Walking() && !judged {
		return false, nil
	}
	stands, err := i.wholeStands(ctx, run)
	if err != nil || stands {
		return false, err
	}
	now, err := i.Ledger.Get(ctx, run.ID)
	if err != nil || now.Paused || now.Generation != run.Generation {
		return false, err
	}
	_, still := toBeJudged(now)
	return now.Walking() && now.Walk.Step == run.Walk.Step || judged && still, nil
}

func (i Intake) wholeStands(ctx context.Context, run runs.Run) (bool, error) {
	r := tasksRun(run, nil)
	if !run.Walking() {
		return i.search().JudgeStands(ctx, r)
	}
	return i.search().WalkStands(ctx, r, run.Walk.Told, run.Walk.Step)
}

// toBeJudged says whether the run is a sweep whose walk is through, and which waits for
// its rows to be judged; tick is the sweep's.
func toBeJudged(run runs.Run) (tick int64, ok bool) {
	var told tasks.Walked
	if run.Kind != tasks.TypeRecheck || run.Walk == nil || !run.Sealed || run.Ended() || !run.CancelledAt.IsZero() || json.Unmarshal(run.Walk.Told, &told) != nil {
		return 0, false
	}
	return told.Tick, told.Tick > 0
}

// walkAgain enqueues, in the run's generation, the task that goes on with it as a
// whole, if it has one that has not come to its end.
func (i Intake) walkAgain(ctx context.Context, run runs.Run) error {
	tick, judged := toBeJudged(run)
	switch {
	case run.Walking():
		return i.Producer.Walk(ctx, tasksRun(run, nil), run.Walk.Step)
	case judged:
		return i.Producer.Judge(ctx, tasksRun(run, nil), tick)
	}
	return nil
}
