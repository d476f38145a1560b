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

// Get returns a run with exact counts, or [ledger.ErrNotFound].
func (l *Ledger) Get(ctx context.Context, id ledger.RunID) (ledger.Run, error) {
	run, err := l.core.Get(ctx, id)
	if err != nil {
		return ledger.Run{}, err
	}
	return l.Exact(ctx, run)
}

// Exact returns a run for its readers: with exact counts, and with texts that are safe to
// show. A cancelled run is no longer paused, incomplete or postponed.
func (l *Ledger) Exact(ctx context.Context, run ledger.Run) (ledger.Run, error) {
	counts, err := l.counts(ctx, run)
	return readable(run, counts), err
}

// readable returns the run with these counts, and as [Ledger.Exact] shows it.
func readable(run ledger.Run, counts ledger.Counts) ledger.Run {
	run.Counts = maps.Clone(counts)
	maps.DeleteFunc(run.Counts, func(_ ledger.Outcome, rows int64) bool { return rows == 0 })
	run.Label, run.Caller = untrusted.Plain(run.Label, maxLabel), untrusted.Plain(run.Caller, maxLabel)
	if run.Cancelled {
		run.Control = ledger.Control{Cancelled: true}
	}
	return run
}

// counts returns the exact counts of a run.
func (l *Ledger) counts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if run.Ended() && run.Settled() == run.Rows {
		return run.Counts, nil // the header's were summed after the end
	}
	counts, err := l.core.Counts(ctx, run)
	if err != nil {
		return nil, err
	}
	if lost := run.Rows - counts.Settled(); run.Ended() && lost > 0 {
		counts[ledger.Missing] += lost // the segments of these rows are missing
	}
	return counts, nil
}

// Cancel cancels a run and returns how many rows that settled: none if the run has ended.
// Rows in progress finish first, and the run ends with the last of them. A run that is
// still being submitted ends without rows. It is not deleted, so that its producer does not
// create it again.
func (l *Ledger) Cancel(ctx context.Context, id ledger.RunID) (rows int64, err error) {
	before, err := l.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := l.core.Cancel(ctx, id); err != nil {
		if errors.Is(err, ledger.ErrEnded) {
			return 0, nil
		}
		return 0, err
	}
	after, err := l.core.Get(ctx, id) // it may have been committed meanwhile
	if err != nil {
		return 0, err
	}
	counts, err := l.core.Counts(ctx, after)
	return counts[ledger.Cancelled] - before.Counts[ledger.Cancelled], err
}
