package runs

import (
	"context"
	"errors"
	"maps"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// MaxRows is the most rows of a run.
const MaxRows = 100_000_000

// Text of strangers is shown in terminals, pages and spreadsheets. It is capped and escaped
// once, when it is read.
const (
	maxDetail = 500 // runes: room for a sentence and a quoted TXT value
	maxLabel  = 200 // runes: one line of a list
)

// Ledger reads runs. It is safe for concurrent use, by many processes too.
type Ledger struct {
	rdb  redis.UniversalClient
	core *ledger.Ledger
}

// New returns the ledger in rdb, to which it does not yet talk.
func New(rdb redis.UniversalClient) *Ledger { return &Ledger{rdb, ledger.New(rdb)} }

// Core returns the ledger that has the runs, by which they are created and controlled.
func (l *Ledger) Core() *ledger.Ledger { return l.core }

// Get returns the run of that id of a tenant, as [Exact] shows it, or [ledger.ErrNotFound].
// Without a tenant it looks in all of them: the error is a [ledger.AmbiguousError] if several have
// one.
func (l *Ledger) Get(ctx context.Context, t ledger.Tenant, id ledger.RunID) (run ledger.Run, err error) {
	if t == "" {
		run, err = l.core.Get(ctx, id)
	} else {
		run, err = l.core.Run(ctx, t, id)
	}
	return Exact(run), err
}

// Exact returns a run for its readers: with texts that are safe to show. A cancelled run is no
// longer paused or postponed.
func Exact(run ledger.Run) ledger.Run {
	run.Counts = maps.Clone(run.Counts)
	maps.DeleteFunc(run.Counts, func(_ ledger.Outcome, rows int64) bool { return rows == 0 })
	run.Label, run.Caller = untrusted.Plain(run.Label, maxLabel), untrusted.Plain(run.Caller, maxLabel)
	if run.Cancelled {
		run.Control = ledger.Control{Cancelled: true}
	}
	return run
}

// Cancel cancels a run and returns how many rows that settled: none if the run has ended.
// Rows in progress finish first, and the run ends with the last of them. A run that is
// still being submitted ends without rows. It is not deleted, so that its producer does not
// create it again.
func (l *Ledger) Cancel(ctx context.Context, run ledger.Run) (rows int64, err error) {
	if err := l.core.Cancel(ctx, run.Tenant, run.ID); err != nil {
		if errors.Is(err, ledger.ErrEnded) {
			return 0, nil
		}
		return 0, err
	}
	after, err := l.core.Run(ctx, run.Tenant, run.ID) // it may have been committed meanwhile
	if err != nil {
		return 0, err
	}
	return after.Counts[ledger.Cancelled] - run.Counts[ledger.Cancelled], nil
}
