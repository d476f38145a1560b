package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

const (
	// Retention is how long a run is kept after its end, unless it says otherwise.
	Retention = ledger.Retention
	// MaxRows bounds the number of rows of a run.
	MaxRows = 100_000_000
	// ChunkRows is how many rows a reader of all rows reads at a time.
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

// Create creates a run, or returns the one that exists, as readers know it and as the core
// has it. If the run that exists differs in kind, tenant or digest, the error is a
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
	return FromCore(run, counts), run, created, nil
}

// SubmitRow submits a single row, as the core's method of that name does. If a run has the
// id with another row, tenant or kind, the error is a [MismatchError].
func (l *Ledger) SubmitRow(ctx context.Context, n ledger.NewRun, row []byte) (created bool, err error) {
	_, created, err = l.core.SubmitRow(ctx, n, row)
	return created, mismatch(err)
}

// mismatch makes a [MismatchError] of the core's.
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

// header returns the run of that id, or [ErrNotFound].
func (l *Ledger) header(ctx context.Context, id string) (ledger.Run, error) {
	run, err := l.core.Get(ctx, ledger.RunID(id))
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return run, err
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
	return FromCore(header, counts), nil
}

// List returns all runs but those of single rows, the newest first.
func (l *Ledger) List(ctx context.Context) ([]Run, error) {
	headers, err := l.eachTenant(ctx, (*ledger.Ledger).Runs)
	if err != nil {
		return nil, err
	}
	list, err := l.forList(ctx, headers)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b Run) int { return order(Place{a.CreatedAt, a.ID}, Place{b.CreatedAt, b.ID}) })
	return list, nil
}

// Unsettled returns the ids of the runs that have not ended and wait for no producer, in
// order.
func (l *Ledger) Unsettled(ctx context.Context) (unsettled []string, err error) {
	open, err := l.openRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list unsettled runs: %w", err)
	}
	for _, run := range open {
		if !run.Staged() {
			unsettled = append(unsettled, string(run.ID))
		}
	}
	slices.Sort(unsettled)
	return unsettled, nil
}

// IDs returns the ids of all runs, in order, also of single rows, which [Ledger.List] leaves
// out. Some may be deleted by now.
func (l *Ledger) IDs(ctx context.Context) ([]string, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("list all runs: %w", err)
	}
	lists, err := l.core.Entries(ctx, time.Time{}, 0, tenants...)
	if err != nil {
		return nil, fmt.Errorf("list all runs: %w", err)
	}
	for _, t := range tenants {
		singles, err := l.core.Singles(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("list all runs: %w", err)
		}
		lists = append(lists, singles)
	}
	var ids []string
	for _, e := range slices.Concat(lists...) {
		ids = append(ids, string(e.Run))
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
