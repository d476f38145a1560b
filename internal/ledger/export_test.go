package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Age moves all stored times of a segment's releases, executions and waiting rows back by d.
func Age(ctx context.Context, rdb redis.UniversalClient, seg Segment, d time.Duration) error {
	for _, part := range []string{"first", "check", "ready", "intended_check", "intended_ready", "released", "running"} {
		if err := ageScores(ctx, rdb, segmentKey(seg, part), d); err != nil {
			return err
		}
	}
	return nil
}

// SetNotBefore replaces the time before which no row of a committed run may begin, and makes its
// segments due. A run with rows in progress is in this state if Redis' clock has gone back.
func SetNotBefore(ctx context.Context, rdb redis.UniversalClient, run Run, at time.Time) error {
	if err := rdb.HSet(ctx, headerKey(run.Tenant, run.ID, "header"), "not_before", toMillis(at)).Err(); err != nil {
		return err
	}
	for number := range run.Segments {
		due := redis.Z{Score: -1, Member: run.segment(number).String()}
		if err := rdb.ZAdd(ctx, ListKey(run.Tenant, "due"), due).Err(); err != nil {
			return err
		}
	}
	return nil
}

// SegmentKey returns one of a segment's keys.
func SegmentKey(seg Segment, part string) string { return segmentKey(seg, part) }

// Stage stages a segment of any number, as the only stager of the run.
func (l *Ledger) Stage(ctx context.Context, run Run, number int, rows [][]byte) (Sum, error) {
	return l.StageGrouped(ctx, run, number, rows, 0, nil, nil, nil)
}

// Commit commits segments that Stage has staged.
func (l *Ledger) Commit(ctx context.Context, run Run, sums []Sum) (Run, error) {
	writer, err := l.writer(ctx, run)
	if err != nil {
		return Run{}, err
	}
	s := &Stager{ledger: l, run: run, writer: writer, sums: sums, counts: Counts{}}
	for number := range sums {
		head, err := l.rdb.HGetAll(ctx, segmentKey(run.segment(number), "head")).Result()
		if err != nil {
			return Run{}, err
		}
		counts, err := countsOf(head)
		if err != nil {
			return Run{}, err
		}
		for outcome, n := range counts {
			s.counts[outcome] += n
		}
		if len(head) > 0 && head["settled"] == head["rows"] {
			s.closed++
		}
	}
	return s.Commit(ctx)
}

// writer returns the nonce by which the run is staged, and begins to stage it if no stager does.
func (l *Ledger) writer(ctx context.Context, run Run) (string, error) {
	nonce, err := l.rdb.HGet(ctx, HeaderKey(run.Tenant, run.ID), "writer").Result()
	if err != nil {
		nonce = random()
		_, err = l.onHeader(ctx, writerScript, run, nonce)
		if isNotFound(err) || errors.Is(err, ErrMismatch) { // the script to come answers that
			err = nil
		}
	}
	wrap(&err, "run %s", run.ID)
	return nonce, err
}

// StageGrouped stages a segment as a [Stager] does. results are those of settled rows.
func (l *Ledger) StageGrouped(ctx context.Context, run Run, number int, rows [][]byte, most int,
	key func([]byte) string, results map[Row]Result, dues map[Row]time.Time) (Sum, error) {
	p, err := pack(rows)
	if err != nil {
		return Sum{}, err
	}
	s := staged{number: number, packed: p}
	for _, row := range slices.Sorted(maps.Keys(results)) {
		s.results = append(s.results, RowResult{Row: row, Result: results[row]})
	}
	for _, row := range slices.Sorted(maps.Keys(dues)) {
		s.dues = append(s.dues, rowDue{Row: row, Due: dues[row]})
	}
	if key != nil {
		s.order = grouping{most: most, key: key}.order(rows, s.results, s.dues)
	} else {
		s.order = grouping{}.order(rows, s.results, s.dues)
	}
	writer, err := l.writer(ctx, run)
	if err != nil {
		return Sum{}, err
	}
	return p.sum, l.stage(ctx, run, writer, s)
}

// WakeChannel is the channel of [Ledger.Wake].
const WakeChannel = wakeChannel

// HeaderKey returns the key of a run's header, and ListKey that of one of a tenant's lists.
func HeaderKey(t Tenant, run RunID) string { return headerKey(t, run, "header") }

// ListKey returns the key of one of a tenant's lists, such as "open".
func ListKey(t Tenant, list string) string { return tenantKey(t, list) }

// AgeList moves the times of one of a tenant's lists back by d.
func AgeList(ctx context.Context, rdb redis.UniversalClient, t Tenant, list string, d time.Duration) error {
	return ageScores(ctx, rdb, tenantKey(t, list), d)
}

// LoseSessions has Redis forget all sessions.
func LoseSessions(ctx context.Context, rdb redis.UniversalClient) error {
	return rdb.Del(ctx, sessionKeys()...).Err()
}

// AgeSessions moves the renewals of all sessions back by d.
func AgeSessions(ctx context.Context, rdb redis.UniversalClient, d time.Duration) error {
	if err := rdb.DecrBy(ctx, sessionKeys()[2], d.Milliseconds()).Err(); err != nil {
		return err
	}
	return ageScores(ctx, rdb, sessionKeys()[0], d)
}

func ageScores(ctx context.Context, rdb redis.UniversalClient, key string, d time.Duration) error {
	entries, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return err
	}
	for _, e := range entries {
		e.Score -= float64(d.Milliseconds())
		if err := rdb.ZAdd(ctx, key, e).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Settle, Wait and GiveUp call [Ledger.End] with the same ending for all rows.
func (l *Ledger) Settle(ctx context.Context, seg Segment, n Nonce, r Result, rows ...Row) (Receipt, error) {
	return l.End(ctx, seg, n, Ends(r, rows...)...)
}

func (l *Ledger) Wait(ctx context.Context, seg Segment, n Nonce, w Waiting, rows ...Row) (Receipt, error) {
	return l.End(ctx, seg, n, Ends(w, rows...)...)
}

func (l *Ledger) GiveUp(ctx context.Context, seg Segment, n Nonce, after time.Duration, rows ...Row) (Receipt, error) {
	return l.End(ctx, seg, n, Ends(GiveBack{After: after}, rows...)...)
}

// Counts returns the counters of a run as they are now.
func (l *Ledger) Counts(ctx context.Context, run Run) (Counts, error) {
	now, err := l.same(ctx, run)
	return now.Counts, err
}

// KeepSubjects sets the most subjects of a tenant.
func (l *Ledger) KeepSubjects(n int) { l.mostSubjects = n }
