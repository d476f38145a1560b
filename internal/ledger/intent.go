package ledger

import (
	"context"
	"fmt"
)

// maxIntent bounds an intent, in bytes.
const maxIntent = 2 << 10

// Intend stores the intent of a request for each row, 1 to 2,048 bytes, in place of the
// former. A row with an intent is never settled by a cancel, and is finished while its
// run is stopped: its request may be under way. The request may be made for the rows
// that are RowWritten. A row that has no intent yet gets none while its run is stopped
// or after it was cancelled. One that has an intent gets the new one all the same: it is
// needed to finish the first request, and the receipt reports whether a further request
// may begin. [Receipt.Now] is the time that is stored; if the rows
// do not fit one script, the last.
func (l *Ledger) Intend(ctx context.Context, seg Segment, n Nonce, intent []byte, rows ...Row) (Receipt, error) {
	err := n.Validate()
	if err == nil && (len(intent) == 0 || len(intent) > maxIntent) {
		err = fmt.Errorf("intent of %d bytes: want 1 to %d", len(intent), maxIntent)
	}
	return l.writeRows(ctx, "intend", intendScript, seg, err, rows, scriptBytes/maxIntent, string(n), intent)
}

// Withdraw takes the intents of rows away: it is known that no request is under way.
func (l *Ledger) Withdraw(ctx context.Context, seg Segment, n Nonce, rows ...Row) (Receipt, error) {
	return l.writeRows(ctx, "withdraw", intendScript, seg, n.Validate(), rows, scriptRows, string(n), "")
}
