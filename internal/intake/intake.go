package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/remedy"
	"orgops/tasks"
)

// Intake submits rows.
type Intake struct {
	Ledger *ledger.Ledger
	// Redis is that of the ledger. nil: a commit is not read back.
	Redis redis.Cmdable
	// VerifyAfter is how long after a commit it is read back; 0: two seconds, after which
	// Redis cannot lose it any more. Tests need not wait that long.
	VerifyAfter time.Duration
	// Admit is called with the number of rows of a run before they are committed, and refuses them
	// by an error. A run that was committed before is not asked for. nil: all are admitted.
	Admit func(ctx context.Context, run ledger.RunID, rows int64) error
	// Same returns an error for a run that exists under the id of a submission and has other
	// properties; nil: those that the ledger compares suffice.
	Same func(ledger.Run) error
	// Committed is called when the rows of a run are committed, before they are
	// read back, which takes seconds. nil: nothing is.
	Committed func()
	// Traceparent returns the W3C traceparent of a context, or "". nil: there is none.
	Traceparent func(context.Context) string
	// By records submissions. The zero Author records nothing.
	By activity.Author
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

var defaultVerifyAfter = 2 * time.Second

func (i Intake) committed() {
	if i.Committed != nil {
		i.Committed()
	}
}

// New returns an Intake that submits rows to the ledger in rdb.
func New(rdb redis.Cmdable, l *ledger.Ledger) Intake {
	return Intake{Ledger: l, Redis: rdb}
}

// create creates a run, or returns the one that exists under its id, with exact counts.
func (i Intake) create(ctx context.Context, n ledger.NewRun) (run ledger.Run, created bool, err error) {
	if i.Traceparent != nil {
		n.Trace = i.Traceparent(ctx)
	}
	run, created, err = i.Ledger.Create(ctx, n)
	if err == nil && !created && i.Same != nil {
		err = i.Same(run)
	}
	if err != nil {
		return ledger.Run{}, false, err
	}
	return run, created, nil
}

// ErrCancelled says that rows were to be added to a run that was cancelled.
var ErrCancelled = errors.New("was cancelled")

// Cancelled returns [ErrCancelled] of a run, with its remedy.
func Cancelled(run ledger.RunID) error {
	return remedy.With(fmt.Errorf("run %s %w", run, ErrCancelled),
		"submit its rows again as another run, if they are still wanted")
}

// stager returns a stager for the rows of a run. complete says that all of them are
// committed: it then compares rows with these, and stores nothing. The error is
// [ErrCancelled] if the run was cancelled before all of its rows were stored.
func (i Intake) stager(ctx context.Context, run ledger.Run) (stager *ledger.Stager, complete bool, err error) {
	for core := i.Ledger; ; {
		cancelled := !run.CancelledAt.IsZero()
		if run.HasAllRows() && (!cancelled || run.Total() > 0) {
			stager, err = core.NewComparer(ctx, run)
			return stager, true, err
		}
		if cancelled {
			return nil, false, Cancelled(run.ID)
		}
		stager, err = core.NewStager(ctx, run)
		if _, since := errors.AsType[*ledger.MismatchError](err); since { // committed or cancelled since it was read
			if run, err = core.Run(ctx, run.Tenant, run.ID); err == nil {
				continue
			}
		}
		if kind, _ := tasks.KindOf(string(run.Kind)); err == nil && kind.Together > 0 {
			stager.Group(tasks.OrganizationOf)
		}
		return stager, false, err
	}
}

// whyNot returns the error of staging rows: [ErrCancelled] if the run was cancelled
// meanwhile, which takes no more rows.
func (i Intake) whyNot(ctx context.Context, t ledger.Tenant, run ledger.RunID, err error) error {
	if _, refused := errors.AsType[*ledger.MismatchError](err); !refused {
		return err
	}
	now, failed := i.Ledger.Run(ctx, t, run)
	if failed == nil && now.Cancelled {
		return Cancelled(run)
	}
	return err
}

// mayBeLost reports whether Redis may have lost a commit that was made before the call. If so
// it returns when Redis cannot lose it any more.
func (i Intake) mayBeLost(ctx context.Context) (bool, error) {
	if !mayLose(ctx, i.Redis) {
		return false, nil
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(cmp.Or(i.VerifyAfter, defaultVerifyAfter)):
		return true, nil
	}
}

// mayLose reports whether Redis may come back without its last writes and with others:
// from a file that it appends to, or as a replica that takes over.
func mayLose(ctx context.Context, rdb redis.Cmdable) bool {
	if rdb == nil {
		return false
	}
	info, err := rdb.Info(ctx).Result()
	if err != nil {
		_, answered := errors.AsType[redis.Error](err)
		return !answered || redis.IsPermissionError(err)
	}
	if redisconn.InfoValue(info, "aof_enabled") == "1" || redisconn.InfoValue(info, "cluster_enabled") == "1" {
		return true
	}
	replicas := redisconn.InfoValue(info, "connected_slaves")
	return replicas != "" && replicas != "0"
}
