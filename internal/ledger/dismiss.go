package ledger

import (
	"context"
	"fmt"
)

// Dismiss settles rows that are neither in progress nor have an intent, such as one that
// cannot be read. Other rows are RowSuperseded.
func (l *Ledger) Dismiss(ctx context.Context, seg Segment, r Result, rows ...Row) (Receipt, error) {
	if err := r.validate(); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: dismiss: %w", seg, err)
	}
	return l.write(ctx, "dismiss", dismissScript, seg, rows, string(r.Outcome), r.stored(), flag(false))
}

// CancelRows settles rows as cancelled that are neither in progress nor have an intent:
// they are RowCancelled. The others are RowWritten: they are asked to cancel. Each later
// receipt of their execution names them in [Receipt.Cancelling], and once they have no
// intent they are cancelled instead of being left open.
func (l *Ledger) CancelRows(ctx context.Context, seg Segment, rows ...Row) (Receipt, error) {
	return l.write(ctx, "cancel rows", dismissScript, seg, rows, string(Cancelled), "", flag(true))
}
