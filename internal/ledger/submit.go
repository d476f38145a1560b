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
	if run, created, err = l.Create(ctx, n); err != nil {
		return Run{}, false, err
	}
	if created {
		run, err = l.commitRow(ctx, run, staged{last: true, packed: p})
	} else {
		run, err = l.completeRow(ctx, run, p)
	}
	if isMismatch(err) { // a staged run that was cancelled takes no row
		if now, failed := l.Get(ctx, n.ID); failed == nil && now.Cancelled {
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

// completeRow completes the submission of a single row that was interrupted, or of which
// Redis has lost a part.
func (l *Ledger) completeRow(ctx context.Context, run Run, p packed) (Run, error) {
	if run.Ended() || run.Cancelled {
		return run, nil
	}
	if !run.Staged() {
		state, err := l.Sync(ctx, run.ID)
		if err != nil || len(state.Missing) == 0 {
			return state.Run, err
		}
	}
	return l.commitRow(ctx, run, staged{last: true, packed: p})
}

// commitRow stages and commits the row of a run.
func (l *Ledger) commitRow(ctx context.Context, run Run, s staged) (Run, error) {
	p := s.packed
	if err := l.stageRows(ctx, run, s); err != nil {
		return Run{}, err
	}
	a, err := l.onHeader(ctx, commitScript, run, 1, 1, p.sum.stored())
	if err != nil {
		return Run{}, mismatch(err, run, p.sum)
	}
	if run, err = parseRun(run.ID, a.hash(1)); err != nil {
		return Run{}, err
	}
	run, err = l.startRow(ctx, run, p.sum)
	if err == nil {
		_ = l.Wake(ctx, run.Tenant) // else the next poll finds the row
	}
	return run, err
}

// startRow copies the control of a committed run of one row to its segment, and stores when
// it is due. It does what [Ledger.Sync] does for a segment that nothing has happened to,
// and leaves any other to Sync.
func (l *Ledger) startRow(ctx context.Context, run Run, sum Sum) (Run, error) {
	a, err := l.onSegment(ctx, applyScript, run.segment(0), applyArgs(run, sum.stored())...)
	if err != nil && !isNotFound(err) {
		return Run{}, err
	}
	state := copied{Progress: Progress{Run: run}}
	if err := state.add(0, a); err != nil {
		return Run{}, err
	}
	if run.Incomplete || len(state.Segments) == 0 || state.Segments[0].Closed() {
		p, err := l.Sync(ctx, run.ID)
		return p.Run, err
	}
	return run, l.hint(ctx, state.Progress)
}
