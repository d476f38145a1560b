package ledger

import (
	"context"
	"fmt"
)

// Sums returns the sums of the segments that are committed, by number.
func (l *Ledger) Sums(ctx context.Context, run Run) ([]Sum, error) {
	stored, err := l.storedSums(ctx, run)
	if err != nil {
		return nil, err
	}
	sums := make([]Sum, run.Segments) // it may have grown since
	for i := range sums {
		if sums[i], err = parseSum(stored[i]); err != nil {
			return nil, fmt.Errorf("run %s: %w", run.ID, err)
		}
	}
	return sums, nil
}

// storedSums returns the sums of a run's segments in their stored form, by number: at least those
// that are committed.
func (l *Ledger) storedSums(ctx context.Context, run Run) (all []string, err error) {
	defer wrap(&err, "run %s: read sums", run.ID)
	stored := l.rdb.Get(ctx, headerKey(run.Tenant, run.ID, "sums"))
	if run.Incarnation.single() {
		stored = l.rdb.HGet(ctx, headerKey(run.Tenant, run.ID, "header"), "sum")
	}
	if err = stored.Err(); err != nil && !absent(err) {
		return nil, err
	}
	if all = splitSums(stored.Val()); len(all) < run.Segments {
		return nil, ErrNotFound // deleted, or replaced, since the header was read
	}
	return all, nil
}
