package engine

import (
	"context"

	"orgops/internal/ledger"
)

// Ledger is the part of [ledger.Ledger] that executions use. Tests inject failures
// between any two calls.
type Ledger interface {
	Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution, rows ...ledger.Row) (ledger.Begun, error)
	Intend(ctx context.Context, seg ledger.Segment, n ledger.Nonce, intent []byte,
		rows ...ledger.Row) (ledger.Receipt, error)
	Withdraw(ctx context.Context, seg ledger.Segment, n ledger.Nonce, rows ...ledger.Row) (ledger.Receipt, error)
	End(ctx context.Context, seg ledger.Segment, n ledger.Nonce, ends ...ledger.RowEnd) (ledger.Receipt, error)
	NoteStuck(ctx context.Context, run ledger.Run, why string) error
	AddStep(ctx context.Context, scan ledger.Segment, n ledger.Nonce, s ledger.ScanStep) (ledger.Status, error)
}

// Sessions is the part of [ledger.Ledger] that keeps a session alive.
type Sessions interface {
	Renew(ctx context.Context, s ledger.Session) (ledger.Renewal, error)
}
