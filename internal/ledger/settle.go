package ledger

import (
	"context"
	"fmt"
)

// Settle settles rows that this nonce executes. A row is settled and counted once. The
// last row of a segment closes it, and the last segment of a committed run ends the
// run.
func (l *Ledger) Settle(ctx context.Context, seg Segment, n Nonce, r Result, rows ...Row) (Receipt, error) {
	if err := firstError(n.Validate(), r.validate()); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: settle: %w", seg, err)
	}
	return l.write(ctx, "settle", settleScript, seg, rows, string(n), string(r.Outcome), r.stored())
}

// Dismiss settles rows that are neither in progress nor have an intent, such as one row
// that is cancelled. Other rows are RowSuperseded.
func (l *Ledger) Dismiss(ctx context.Context, seg Segment, r Result, rows ...Row) (Receipt, error) {
	if err := r.validate(); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: dismiss: %w", seg, err)
	}
	return l.write(ctx, "dismiss", settleScript, seg, rows, "", string(r.Outcome), r.stored())
}
