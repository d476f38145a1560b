package ledger

import (
	"context"
	"fmt"
	"strings"
)

// commit makes the rows that a writer has staged available to dispatchers. Repeating it is harmless. A
// run without segments ends at once.
func (l *Ledger) commit(ctx context.Context, run Run, writer string, w written) (committed Run, err error) {
	defer wrap(&err, "run %s: commit", run.ID)
	rows, due := int64(0), int64(0)
	var sums strings.Builder
	for _, s := range w.sums {
		rows += int64(s.Rows)
		sums.WriteString(s.stored())
	}
	if wait := run.BatchWait; wait > 0 {
		due = run.CreatedAt.Truncate(wait).Add(wait).UnixMilli()
	}
	args := []any{writer, len(w.sums), rows, sums.String(), due, w.closed}
	for outcome, n := range w.counts {
		args = append(args, string(outcome), n)
	}
	a, err := l.onHeader(ctx, commitScript, run, args...)
	if err == nil && a.status() == statusDiffers {
		err = ErrLost
	}
	if err != nil {
		return Run{}, otherRows(err, run, fmt.Sprintf("%d rows", rows))
	}
	_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	return parseRun(run.ID, a.hash(1))
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
