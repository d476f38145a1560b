package dispatch

import (
	"context"

	"orgops/internal/ledger"
)

// Ledger is the part of [ledger.Ledger] that a dispatcher uses.
type Ledger interface {
	Get(ctx context.Context, run ledger.RunID) (ledger.Run, error)
	TakeDue(ctx context.Context, t ledger.Tenant, n int) (ledger.DueSegments, error)
	Hint(ctx context.Context, t ledger.Tenant, hints ...ledger.Hint) error
	Release(ctx context.Context, seg ledger.Segment, q ledger.Quota) (ledger.Release, error)
	GiveBack(ctx context.Context, seg ledger.Segment, t ledger.Token, rows ...ledger.Row) (ledger.Receipt, error)
	Dismiss(ctx context.Context, seg ledger.Segment, r ledger.Result, rows ...ledger.Row) (ledger.Receipt, error)
	ReclaimDead(ctx context.Context, segs ...ledger.Segment) ([]ledger.Reclaimed, error)
	Rebuild(ctx context.Context, t ledger.Tenant) ([]ledger.Progress, error)
	Finish(ctx context.Context, run ledger.RunID) error
	Sweep(ctx context.Context, t ledger.Tenant) (deleted int, err error)
}
