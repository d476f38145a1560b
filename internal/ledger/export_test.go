package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// SetNotBefore replaces the time before which no row of a committed run may begin. A run with
// rows in progress is in this state if Redis' clock has gone back.
func SetNotBefore(ctx context.Context, rdb redis.UniversalClient, run Run, at time.Time) error {
	if err := rdb.HSet(ctx, HeaderKey(run.ID), "not_before", toMillis(at)).Err(); err != nil {
		return err
	}
	for number := range run.Segments {
		if err := rdb.HSet(ctx, segmentKey(run.segment(number), "head"), "not_before", toMillis(at)).Err(); err != nil {
			return err
		}
	}
	return nil
}

// SegmentKey returns one of a segment's keys.
func SegmentKey(seg Segment, part string) string { return segmentKey(seg, part) }

// StageGrouped stages a segment as a [Stager] does. results are those of settled rows.
func (l *Ledger) StageGrouped(ctx context.Context, run Run, number int, last bool, rows [][]byte, most int,
	key func([]byte) string, results map[Row]Result, dues map[Row]time.Time) (Sum, error) {
	p, err := pack(rows)
	if err != nil {
		return Sum{}, err
	}
	s := staged{number: number, last: last, packed: p}
	for _, row := range slices.Sorted(maps.Keys(results)) {
		s.results = append(s.results, RowResult{Row: row, Result: results[row]})
	}
	for _, row := range slices.Sorted(maps.Keys(dues)) {
		s.dues = append(s.dues, rowDue{Row: row, Due: dues[row]})
	}
	s.order = grouping{most: most, key: key}.order(rows, s.results, s.dues)
	return p.sum, l.stage(ctx, run, s)
}

// WakeChannel is the channel of [Ledger.Wake].
const WakeChannel = wakeChannel

// HeaderKey returns the key of a run's header.
func HeaderKey(run RunID) string { return headerKeys(run)[0] }

// EndedKey returns the key of a tenant's ended runs, and OpenKey that of its open ones.
func EndedKey(t Tenant) string { return tenantKeys(t)[endedList] }

// OpenKey returns the key of a tenant's open runs.
func OpenKey(t Tenant) string { return tenantKeys(t)[openList] }

// TrashKey returns the key of a tenant's discarded runs.
func TrashKey(t Tenant) string { return tenantKeys(t)[trashList] }

// AgeIndex moves the due times of a tenant's index back by d.
func AgeIndex(ctx context.Context, rdb redis.UniversalClient, t Tenant, d time.Duration) error {
	return ageScores(ctx, rdb, tenantKeys(t)[dueIndex], d)
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

// DueKey returns the key of a tenant's index.
func DueKey(t Tenant) string { return tenantKeys(t)[dueIndex] }

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

// AgeScan moves the times at which a scan's segments were committed and its uncommitted rows
// were found back by d.
func AgeScan(ctx context.Context, rdb redis.UniversalClient, run RunID, d time.Duration) error {
	key := headerKeys(run)[3]
	if exists, err := rdb.HExists(ctx, key, "since").Result(); err != nil || !exists {
		return err
	}
	stored, err := rdb.HGet(ctx, key, "kept").Result()
	if err != nil && !absent(err) {
		return err
	}
	segments, err := parseKept(stored)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, k := range segments {
		fmt.Fprintf(&text, "%d,%d,%d,%d;", k.number, k.from, k.past, k.at.Add(-d).UnixMilli())
	}
	if err := rdb.HSet(ctx, key, "kept", text.String()).Err(); err != nil {
		return err
	}
	return rdb.HIncrBy(ctx, key, "since", -d.Milliseconds()).Err()
}

// Forget removes all segments from the stager's memory.
func (s *Stager) Forget() { s.recent, s.recentBytes = nil, 0 }
