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
	rows, due := int64(0), int64(0)
	for _, s := range sums {
		rows += int64(s.Rows)
	}
	if wait := run.BatchWait; wait > 0 {
		due = run.CreatedAt.Truncate(wait).Add(wait).UnixMilli()
	}
	given := storedSums(sums)
	a, err := l.onHeader(ctx, commitScript, run, len(sums), rows, given, due)
	if stored := a.text(1); err == nil && a.status() == statusDiffers && strings.HasPrefix(stored, given) {
		// An earlier producer of the run has staged more rows.
		for number := len(stored)/sumBytes - 1; number >= len(sums) && err == nil; number-- {
			_, err = l.onSegment(ctx, unstageScript, run.segment(number), run.segment(number).String())
		}
		if err == nil {
			a, err = l.onHeader(ctx, commitScript, run, len(sums), rows, given, due)
		}
	}
	if err != nil {
		return Run{}, otherRows(err, run, fmt.Sprintf("%d rows", rows))
	}
	if a.status() == statusDiffers {
		missing, err := l.missing(ctx, run, a.text(1), sums)
		if err != nil {
			return Run{}, err
		}
		return Run{}, &MissingError{Run: run.ID, Segments: missing}
	}
	_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	return parseRun(run.ID, a.hash(1))
}

// storedSums returns the sums of a run's segments as they are stored.
func storedSums(sums []Sum) string {
	var stored strings.Builder
	for _, s := range sums {
		stored.WriteString(s.stored())
	}
	return stored.String()
}

// missing returns the numbers of the segments that are not stored with these sums, or without all
// of their results, given the sums that are stored.
func (l *Ledger) missing(ctx context.Context, run Run, stored string, sums []Sum) (missing []int, err error) {
	heads, err := l.heads(ctx, run, len(sums))
	if err != nil {
		return nil, err
	}
	have := splitSums(stored)
	for number, s := range sums {
		if number >= len(have) || have[number] != s.stored() || heads[number].awaits {
			missing = append(missing, number)
		}
	}
	return missing, nil
}

// Sums returns the sums of the segments that are committed, by number.
func (l *Ledger) Sums(ctx context.Context, run Run) ([]Sum, error) {
	stored, err := l.storedSums(ctx, run)
	if err == nil && len(stored) < run.Segments {
		err = ErrNotFound // deleted, or replaced, since the header was read
	}
	sums := make([]Sum, run.Segments) // it may have grown since
	for i := range sums {
		if err == nil {
			sums[i], err = parseSum(stored[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return sums, nil
}

// Verify reads back a committed run, two seconds after the commit. If committed is false the
// producer stages the missing segments again, which are returned by number, and commits again. The
// error is [ErrNotFound] if the whole run was lost.
func (l *Ledger) Verify(ctx context.Context, run Run, sums []Sum) (committed bool, missing []int, err error) {
	defer wrap(&err, "run %s: verify", run.ID)
	now, err := l.same(ctx, run)
	if err != nil || !now.Staged() {
		return err == nil, nil, err
	}
	stored, err := l.rdb.Get(ctx, headerKey(run.Tenant, run.ID, "sums")).Result()
	if err != nil && !absent(err) {
		return false, nil, err
	}
	missing, err = l.missing(ctx, run, stored, sums)
	return false, missing, err
}
