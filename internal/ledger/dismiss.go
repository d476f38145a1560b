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
	return l.write(ctx, "dismiss", dismissScript, seg, rows, string(r.Outcome), r.stored())
}
