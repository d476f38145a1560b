package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/internal/ledger"
)

const (
	// Retention is how long after its end a run is deleted, unless it has a time of its own.
	Retention = ledger.Retention
	// MaxRows is the most rows of a run.
	MaxRows = 100_000_000
	// ChunkRows is the number of rows that a reader of all rows reads at a time.
	ChunkRows = 1000
)

// Ledger reads and controls runs. It is safe for concurrent use, by many processes too.
type Ledger struct {
	rdb  redis.UniversalClient
	core *ledger.Ledger
}

// New returns the ledger in rdb, to which it does not yet talk.
func New(rdb redis.UniversalClient) *Ledger { return &Ledger{rdb, ledger.New(rdb)} }

// Core returns the ledger that has the runs.
func (l *Ledger) Core() *ledger.Ledger { return l.core }

// CheckSchema marks an empty Redis with the version of the ledger: see
// [ledger.Ledger.CheckSchema].
func (l *Ledger) CheckSchema(ctx context.Context) error { return l.core.CheckSchema(ctx) }

// ReadSchema returns an error if Redis holds data that this version cannot use: see
// [ledger.Ledger.ReadSchema].
func (l *Ledger) ReadSchema(ctx context.Context) error { return l.core.ReadSchema(ctx) }

// Create creates a run, or returns the one that exists, in the readers' form and in the
// ledger's. If the run that exists differs in kind, tenant or digest, the error is a
// [MismatchError].
func (l *Ledger) Create(ctx context.Context, n ledger.NewRun) (Run, ledger.Run, bool, error) {
	run, created, err := l.core.Create(ctx, n)
	if err != nil {
		return Run{}, ledger.Run{}, false, mismatch(err)
	}
	counts, err := l.counts(ctx, run)
	if err != nil {
		return Run{}, ledger.Run{}, false, err
	}
	return fromLedger(run, counts), run, created, nil
}

// SubmitRow submits a single row: see [ledger.Ledger.SubmitRow]. If a run has the id with
// another row, tenant or kind, the error is a [MismatchError].
func (l *Ledger) SubmitRow(ctx context.Context, n ledger.NewRun, row []byte) (created bool, err error) {
	_, created, err = l.core.SubmitRow(ctx, n, row)
	return created, mismatch(err)
}

// Get returns a run with exact counts, or [ErrNotFound].
func (l *Ledger) Get(ctx context.Context, run string) (Run, error) {
	header, err := l.header(ctx, run)
	if err != nil {
		return Run{}, err
	}
	counts, err := l.counts(ctx, header)
	if err != nil {
		return Run{}, err
	}
	return fromLedger(header, counts), nil
}

// header returns the run of that id, or [ErrNotFound].
func (l *Ledger) header(ctx context.Context, id string) (ledger.Run, error) {
	run, err := l.core.Get(ctx, ledger.RunID(id))
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return run, err
}

// counts returns the exact counts of a run.
func (l *Ledger) counts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if run.Ended() && run.Counts.Settled() == run.Rows {
		return run.Counts, nil // the header's were summed after the end
	}
	counts, err := l.core.Counts(ctx, run)
	if err != nil {
		return nil, err
	}
	if lost := run.Rows - counts.Settled(); run.Ended() && lost > 0 {
		counts[ledger.Lost] += lost // the segments of these rows are missing
	}
	return counts, nil
}

var (
	// ErrNotFound says that there is no such run: it never existed, or was deleted after
	// its retention.
	ErrNotFound = ledger.ErrNotFound
	// ErrMismatch says that the run exists with other properties than the caller's. Each
	// [MismatchError] wraps it.
	ErrMismatch = errors.New("not the same run")
	// ErrCancelled says that rows were to be added to a run that was cancelled.
	ErrCancelled = errors.New("the run was cancelled: no more of its rows can be submitted")
	// ErrOpen says that the operation requires a run that has ended.
	ErrOpen = ledger.ErrOpen
	// ErrEnded says that the operation requires a run that has not ended.
	ErrEnded = ledger.ErrEnded
	// ErrRaced says that another process changed the run meanwhile: read it again.
	ErrRaced = ledger.ErrRaced
)

// MismatchError says how a run differs from the caller's. Nothing has been changed.
type MismatchError struct {
	Run string
	// Member is "kind", "tenant", "caller", "content" (the digest, or rows stored), or "item"
	// (no row of this run has that number).
	Member string
	// Have is the run's value and Want the caller's.
	Have, Want string
}

// Error names the difference and how to proceed.
func (e *MismatchError) Error() string {
	if e.Member == "item" {
		return fmt.Sprintf("run %s has no row %s", e.Run, e.Want)
	}
	most := maxLabel
	if e.Member == "content" {
		most = 24 // the beginning of a digest says as much as all of it
	}
	return fmt.Sprintf("run %s exists with another %s (existing: %s, given: %s): use another id",
		e.Run, e.Member, apiclient.Plain(e.Have, most), apiclient.Plain(e.Want, most))
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// mismatch converts the ledger's error of that name into a [MismatchError].
func mismatch(err error) error {
	e, ok := errors.AsType[*ledger.MismatchError](err)
	if !ok {
		return err
	}
	member := string(e.Member)
	if member == "digest" || member == "rows" {
		member = "content"
	}
	return fmt.Errorf("run %s: create: %w", e.Run, &MismatchError{Run: string(e.Run), Member: member, Have: e.Have, Want: e.Want})
}
