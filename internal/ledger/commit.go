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
func (l *Ledger) Commit(ctx context.Context, run Run, sums []Sum) (Run, error) {
	return l.commitUpTo(ctx, run, sums, true)
}

// CommitPart makes the rows of the first segments available to dispatchers while more
// segments are staged: for a run whose rows are found over hours. sums has the sum of
// each segment so far. The run cannot end before [Ledger.Commit] or [Ledger.Cancel]. If Redis
// loses a part, the next call with all sums stores it again.
func (l *Ledger) CommitPart(ctx context.Context, run Run, sums []Sum) (Run, error) {
	return l.commitUpTo(ctx, run, sums, false)
}

func (l *Ledger) commitUpTo(ctx context.Context, run Run, sums []Sum, final bool) (Run, error) {
	committed, err := l.commit(ctx, run, sums, final)
	if err != nil {
		return Run{}, fmt.Errorf("run %s: commit: %w", run.ID, err)
	}
	_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	return committed, nil
}

func (l *Ledger) commit(ctx context.Context, run Run, sums []Sum, final bool) (Run, error) {
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
	a, err := l.onHeader(ctx, commitScript, run.ID, string(run.Incarnation), len(sums), rows, stored.String(), flag(final))
	if err != nil {
		return Run{}, err
	}
	if a.status() == "mismatch" {
		return Run{}, &MismatchError{Run: run.ID, Member: "rows", Have: "other rows", Want: fmt.Sprintf("%d rows", rows)}
	}
	progress, err := l.Sync(ctx, run.ID)
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

// Verify reads back the segments and the header of a committed run, and restores its
// entries in the lists of runs and tenants. Redis may lose the
// writes of its last second, so the producer calls it two seconds after the commit. If
// committed is false the producer stages the missing segments again, which are returned
// by number, and commits again. No segment is missing of a run that has ended. The error is
// [ErrNotFound] if the whole run was lost.
func (l *Ledger) Verify(ctx context.Context, run Run, sums []Sum) (committed bool, missing []int, err error) {
	now, err := l.same(ctx, run)
	if err == nil {
		err = l.relist(ctx, now)
	}
	if err == nil && now.Ended() {
		return true, nil, nil
	}
	if err == nil {
		missing, err = l.missing(ctx, run, sums)
	}
	if err != nil {
		return false, nil, fmt.Errorf("run %s: verify: %w", run.ID, err)
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
