package ledger

import (
	"context"
	"fmt"
	"strings"
)

// Commit makes the run's rows available to dispatchers. sums has the sum of each segment,
// in order, as [Ledger.Stage] returned it. The error is a [MissingError] if a
// segment is missing or differs; the run is then as it was before. To commit the same
// again is harmless and completes a commit that was cut short; other sums are a
// [MismatchError]. A run without segments ends at once.
func (l *Ledger) Commit(ctx context.Context, run Run, sums []Sum) (committed Run, err error) {
	defer wrap(&err, "run %s: commit", run.ID)
	if run.Scan != nil {
		return Run{}, errScan
	}
	if err := checkSegments("sums", len(sums)); err != nil {
		return Run{}, err
	}
	missing, err := l.missing(ctx, run, sums)
	if err != nil {
		return Run{}, err
	}
	if len(missing) > 0 {
		return Run{}, &MissingError{Run: run.ID, Segments: missing}
	}
	var rows int64
	var stored strings.Builder
	for _, s := range sums {
		rows += int64(s.Rows)
		stored.WriteString(s.stored())
	}
	if err := l.relist(ctx, run); err != nil {
		return Run{}, err
	}
	_, err = l.onHeader(ctx, commitScript, run, len(sums), rows, stored.String())
	if err != nil {
		return Run{}, otherRows(err, run, fmt.Sprintf("%d rows", rows))
	}
	progress, err := l.Sync(ctx, run.ID)
	if err == nil {
		_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	}
	return progress.Run, err
}

// Sums returns the sums of the segments that are committed, by number.
func (l *Ledger) Sums(ctx context.Context, run Run) ([]Sum, error) {
	stored, err := l.storedSums(ctx, run)
	sums := make([]Sum, len(stored))
	for i := range stored {
		sums[i], err = parseSum(stored[i])
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return sums, nil
}

// Verify reads back the segments and the header of a committed run, two seconds after the
// commit, and restores its entries in the lists of runs and tenants. If committed is false
// the producer stages the missing segments again, which are returned by number, and commits
// again. No segment is missing of a run that has ended. The error is [ErrNotFound] if the
// whole run was lost.
func (l *Ledger) Verify(ctx context.Context, run Run, sums []Sum) (committed bool, missing []int, err error) {
	defer wrap(&err, "run %s: verify", run.ID)
	now, err := l.same(ctx, run)
	if err == nil {
		err = l.relist(ctx, now)
	}
	if err != nil || now.Ended() {
		return err == nil, nil, err
	}
	if missing, err = l.missing(ctx, run, sums); err != nil {
		return false, nil, err
	}
	return !now.Staged() && !now.Growing && now.Segments == len(sums) && len(missing) == 0, missing, nil
}

// missing returns the numbers of the segments that are not stored with these sums, or
// without all of their results.
func (l *Ledger) missing(ctx context.Context, run Run, sums []Sum) (missing []int, err error) {
	heads, err := l.heads(ctx, run, len(sums))
	if err != nil {
		return nil, err
	}
	for number, h := range heads {
		if h.awaits || h.sum != sums[number].stored() {
			missing = append(missing, number)
		}
	}
	return missing, nil
}
