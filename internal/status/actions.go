package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// Cancel cancels the run in the name of a user, and returns the effect in words.
func Cancel(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	ended := l.Cancel(ctx, run.Tenant, run.ID)
	if ended != nil && !errors.Is(ended, ledger.ErrEnded) {
		return "", ended
	}
	r, err := l.Run(ctx, run.Tenant, run.ID) // it may have been committed meanwhile
	if err != nil {
		return "", err
	}
	rows := r.Counts[ledger.Cancelled] - run.Counts[ledger.Cancelled]
	if ended == nil && run.CancelledAt.IsZero() {
		by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Cancelled, fmt.Sprintf("rows that were open: %d", rows)))
	}
	switch {
	case ended != nil:
	case rows == 0 && !run.Sealed() && run.Scan == nil:
		return "cancelled: it was still being submitted, and none of its rows had started", nil
	case rows == 0 && !run.Sealed() && run.CancelledAt.IsZero():
		return "cancelled: its scan had found no row that was open", nil
	case rows > 0 && r.Ended():
		return fmt.Sprintf("cancelled; rows that were open: %d", rows), nil
	case rows > 0:
		return fmt.Sprintf("cancelled; rows that were open: %d; %s", rows, UnderWay(r)), nil
	}
	return "nothing is left to cancel: " + State(r), nil
}

// Pause pauses the run in the name of a user, and returns the effect in words.
func Pause(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	if err := l.Pause(ctx, run.Tenant, run.ID); err != nil {
		return "", err
	}
	if !run.Paused {
		by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Paused, ""))
	}
	return "paused; to continue: enqueue runs resume " + string(run.ID), nil
}

// Resume resumes the run in the name of a user, and returns the effect in words.
func Resume(ctx context.Context, by activity.Author, l *ledger.Ledger, run ledger.Run) (effect string, err error) {
	err = l.Resume(ctx, run.Tenant, run.ID)
	switch {
	case err != nil:
		return "", err
	case !run.Paused:
		return "it was not paused", nil
	}
	by.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Resumed, ""))
	return fmt.Sprintf("resumed; open rows: %d", run.Rows-run.Settled()), nil
}

// StopTenant stops a tenant in the name of a user: see [pace.Limiter.Stop].
func StopTenant(ctx context.Context, by activity.Author, tenant, reason string) (pace.Stop, error) {
	stop, err := pace.New(pace.Config{Redis: by.Redis, Tenant: tenant}).Stop(ctx, by.Name, reason)
	if err == nil && stop.By == by.Name { // else an earlier stop stays
		by.Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Stopped, Result: stop.Reason})
	}
	return stop, err
}

// StartTenant ends the stop of a tenant in the name of a user: see [pace.Limiter.Start].
func StartTenant(ctx context.Context, by activity.Author, tenant string) (*pace.Stop, error) {
	stop, err := pace.New(pace.Config{Redis: by.Redis, Tenant: tenant}).Start(ctx)
	if stop != nil {
		by.Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Started, Result: "it was " + stop.String()})
	}
	return stop, err
}

// RetryError adds to the error of a retry of the run how to proceed. child is the id of the
// new run, or empty if it was not started.
func RetryError(run string, outcomes []string, child string, err error) error {
	again := "enqueue runs retry " + run
	if len(outcomes) > 0 {
		again += " --outcome " + strings.Join(outcomes, ",")
	}
	if open, ok := errors.AsType[*intake.RetriedError](err); ok {
		switch {
		case open.Ended:
			return cli.Fixed(err, "enqueue runs retry %s", open.Child)
		case open.Incomplete:
			return cli.Fixed(err, "complete it (%s --run %s), or end it (enqueue runs cancel %s)", again, open.Child, open.Child)
		}
		return cli.Fixed(err, "follow it to its end: enqueue runs follow %s", open.Child)
	}
	switch {
	case errors.Is(err, ledger.ErrMismatch) && child == "":
		return cli.Fixed(err, "a retry is completed by the same command as before, the same outcomes too")
	case errors.Is(err, intake.ErrTooManyItems):
		return cli.Fixed(err, "choose fewer rows or outcomes, or follow the run to its end: enqueue runs follow %s", run)
	case errors.Is(err, ledger.ErrOpen):
		return cli.Fixed(fmt.Errorf("run %s has not ended, and its open rows may still succeed", run),
			"follow it to its end (enqueue runs follow %s), or end it (enqueue runs cancel %s)", run, run)
	case errors.Is(err, intake.ErrCancelled):
		return cli.Fixed(fmt.Errorf("run %s was cancelled", child),
			"retry these rows under another id, if they are still wanted")
	case child == "":
		return err
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	return cli.Fixed(err, "only a part of run %s is submitted; to submit the rest: %s --run %s", child, again, child)
}

// SweepNow starts a sweep of the tenant, or of one organization if it is named, and of
// pending domains too if pending or the tenant's settings say so. announced is false if no
// worker has served the tenant on this Redis.
func SweepNow(ctx context.Context, rdb redis.UniversalClient, in intake.Intake, r ledger.NewRun, organization string,
	pending bool) (run ledger.Run, created, announced bool, err error) {
	name := string(r.Tenant)
	settings, announced, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err != nil {
		return ledger.Run{}, false, false, err
	}
	r.ID = cmp.Or(r.ID, ledger.RunID(tasks.NewRunID(time.Now())))
	order := sweep.Progress{Organization: organization, Pending: pending || settings.VerifyPending}
	run, created, err = schedule.Now(ctx, in, sweep.NewStore(rdb, name), r, order)
	return run, created, announced, err
}

// Plan is the estimate of a submission, which changes nothing.
type Plan struct {
	DryRun bool   `json:"dry_run"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	intake.Plan
}
