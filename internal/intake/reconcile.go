package intake

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"orgops/internal/runs"
)

// ReconcileEvery is how often the fleet looks for lost rows: what is lost stays so
// until someone repairs the run, and a million open rows take seconds to look at.
const ReconcileEvery = 5 * time.Minute

// mostTold is how many runs one walk warns of one by one.
const mostTold = 20

// Reconciler finds rows that are neither settled nor queued, writes their number
// to the runs, and tells of them; it puts nothing back. One worker of the fleet
// looks at a time, whichever comes first, so that it goes on as long as one runs.
type Reconciler struct {
	Intake Intake
	Logger *slog.Logger
	// Every is the time from one walk to the next; 0: ReconcileEvery.
	Every time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	silent map[string]bool // runs of which it was told that their producer is silent
}

// Run reconciles until ctx is done.
func (r *Reconciler) Run(ctx context.Context) {
	every := r.Every
	if every <= 0 {
		every = ReconcileEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// The turn ends before the next tick, so that who had it may have it again.
		if err := r.Once(ctx, every-every/10); err != nil && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "searching for lost rows failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once looks for lost rows if nobody has within that time.
func (r *Reconciler) Once(ctx context.Context, within time.Duration) error {
	mine, err := r.Intake.Ledger.TakeTurn(ctx, within)
	if err != nil || !mine {
		return err
	}
	return errors.Join(r.findLost(ctx), r.findSilent(ctx))
}

// findLost counts the lost rows of each run that is open and waits for no producer.
func (r *Reconciler) findLost(ctx context.Context) error {
	ids, err := r.Intake.Ledger.Unsettled(ctx)
	if err != nil {
		return err
	}
	told := 0
	var failed []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lost, walk, err := r.count(ctx, id)
		if errors.Is(err, runs.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if walk {
			r.Logger.WarnContext(ctx, "task of a scan or of a sweep's evaluation lost", "run", id, "command", "enqueue runs repair "+id)
		}
		if lost == 0 {
			continue
		}
		if told++; told <= mostTold {
			r.Logger.WarnContext(ctx, "rows lost: they are open and have no task", "run", id, "rows", lost, "command", "enqueue runs repair "+id)
		}
	}
	if told > mostTold {
		r.Logger.WarnContext(ctx, "rows of more runs lost", "runs", told-mostTold, "command", "enqueue runs list")
	}
	return errors.Join(failed...)
}

// count writes down how many rows of the run are lost, and whether its walk is.
func (r *Reconciler) count(ctx context.Context, id string) (lost int64, walk bool, err error) {
	run, err := r.Intake.Ledger.Get(ctx, id)
	if err != nil || run.Ended() || run.Paused {
		return 0, false, err
	}
	found, err := r.Intake.Lost(ctx, run)
	if err == nil {
		walk, err = r.Intake.WalkLost(ctx, run)
	}
	if err != nil {
		return 0, false, err
	}
	before := run.Lost > 0 || run.Walk != nil && !run.Walk.LostAt.IsZero()
	if found.Lost == 0 && !walk && !before {
		return 0, false, nil
	}
	return found.Lost, walk, r.Intake.Ledger.NoteLost(ctx, id, found.Lost, walk)
}

// findSilent tells, once, of runs whose producer has gone: nothing ends them.
func (r *Reconciler) findSilent(ctx context.Context) error {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	all, err := r.Intake.Ledger.List(ctx)
	if err != nil {
		return err
	}
	silent := map[string]bool{}
	for _, run := range all {
		since := run.SilentSince(now())
		if since.IsZero() {
			continue
		}
		silent[run.ID] = true
		if !r.silent[run.ID] {
			r.Logger.WarnContext(ctx, "run submitted in part and its producer is silent: submit the same rows again with --run, or cancel it",
				"run", run.ID, "tenant", run.Tenant, "since", since, "command", "enqueue runs cancel "+run.ID)
		}
	}
	r.silent = silent
	return nil
}
