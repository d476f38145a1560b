package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// NoteStuck stores why a run makes no progress, such as a segment that cannot be read. The
// follow-ups of a run that has ended are tried again a minute later. run has at least tenant, id
// and incarnation. The error is [ErrNotFound] if the run does not exist any more, and [ErrEnded] if
// it is finished.
func (l *Ledger) NoteStuck(ctx context.Context, run Run, why string) (err error) {
	defer wrap(&err, "run %s: note that it makes no progress", run.ID)
	_, err = l.onHeader(ctx, stuckScript, run, why[:min(len(why), maxDetail)])
	return err
}

// StuckRuns returns the runs of a tenant that were found to make no progress within the last
// [StuckFor], at most a hundred.
func (l *Ledger) StuckRuns(ctx context.Context, t Tenant) (runs []Run, err error) {
	defer wrap(&err, "read stuck runs of %s", t)
	names, err := l.rdb.ZRevRangeWithScores(ctx, tenantKey(t, "stuck"), 0, 99).Result()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	now, err := l.rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, z := range names {
		name, _ := z.Member.(string)
		run, malformed := listed(t, name)
		if malformed == nil && now.Sub(fromMillis(int64(z.Score))) < StuckFor {
			entries = append(entries, entry{run: run, name: name})
		}
	}
	l.readHeaders(ctx, entries)
	for _, e := range entries {
		if e.err != nil {
			return nil, e.err
		}
		if e.exists() {
			runs = append(runs, e.run)
		}
	}
	return runs, nil
}

// unreadable reports whether the error says that a segment is missing or damaged.
func unreadable(err error) bool { return isNotFound(err) || errors.Is(err, ErrDamaged) }

// abandon ends a cancelled run that has lost segments, unless other segments have open rows. Nobody
// can settle the rows of these.
func (l *Ledger) abandon(ctx context.Context, run Run, lost []int) error {
	open, err := l.openSegments(ctx, run)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(number int) bool { return slices.Contains(lost, number) })
	if len(open) > 0 {
		return fmt.Errorf("segments that cannot be read: %d, and rows of others are in progress: cancel the run again "+
			"when they are settled", len(lost))
	}
	_, err = l.onHeader(ctx, abandonScript, run)
	return err
}
