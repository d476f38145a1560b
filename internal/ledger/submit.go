package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// SubmitRow creates a run of one row and commits it, in fewer round trips than a [Stager].
// The run is marked as single, and has the digest of its row: see [Description]. If a run
// of that id exists with the same row, tenant and kind, SubmitRow returns it, and stores
// again any part that Redis has lost. A run that has ended, or that was cancelled, stays as it
// is. If the row, tenant or kind differs, the error is a [MismatchError], and nothing
// has changed.
//
// Redis may lose the writes of its last second. To verify that it has not, submit the same
// row again two seconds later.
func (l *Ledger) SubmitRow(ctx context.Context, n NewRun, row []byte) (run Run, created bool, err error) {
	p, err := pack([][]byte{row})
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: %w", n.ID, err)
	}
	n.Single, n.Digest = true, rowDigest(row)
	if run, created, err = l.Create(ctx, n); err != nil || !run.Staged() {
		return run, created, err
	}
	if err = l.stage(ctx, run, staged{last: true, packed: p}); err == nil {
		run, err = l.Commit(ctx, run, []Sum{p.sum})
	}
	if isMismatch(err) { // a staged run that was cancelled takes no row
		if now, failed := l.Run(ctx, n.Tenant, n.ID); failed == nil && now.Cancelled {
			return now, created, nil
		}
	}
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: submit its row: %w", n.ID, err)
	}
	return run, created, nil
}

// rowDigest returns the digest of a run of one row. It differs from that of a file with
// the same text.
func rowDigest(row []byte) string {
	sum := sha256.Sum256(append([]byte("row\x00"), row...))
	return hex.EncodeToString(sum[:])
}
