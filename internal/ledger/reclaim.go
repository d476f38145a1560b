package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Reclaimed is a segment with rows that dead sessions executed.
type Reclaimed struct {
	Segment Segment
	// Rows is the number of rows that are due again.
	Rows int
}

// ReclaimDead makes due the rows of the segments that dead sessions execute. It returns
// the segments that have such rows. Where there are none it takes two round trips,
// whatever the number of segments. If some segments fail it returns the others and an
// error.
func (l *Ledger) ReclaimDead(ctx context.Context, segs ...Segment) (all []Reclaimed, err error) {
	if len(segs) == 0 {
		return nil, nil
	}
	sessions, failed := l.sessionsOf(ctx, segs)
	ids := map[SessionID]bool{}
	for _, of := range sessions {
		for _, id := range of {
			ids[id] = true
		}
	}
	dead, err := l.Dead(ctx, slices.Collect(maps.Keys(ids))...)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for i, seg := range segs {
		of := slices.DeleteFunc(sessions[i], func(id SessionID) bool { return !slices.Contains(dead, id) })
		if len(of) == 0 {
			continue
		}
		n, _, err := l.Reclaim(ctx, seg, of...)
		if n > 0 {
			all = append(all, Reclaimed{Segment: seg, Rows: n})
		}
		if err != nil && !isNotFound(err) {
			failed = errors.Join(failed, err)
		}
	}
	return all, failed
}

// sessionsOf returns the sessions that have rows in progress, by segment.
func (l *Ledger) sessionsOf(ctx context.Context, segs []Segment) (sessions [][]SessionID, failed error) {
	answers := make([]*redis.StringSliceCmd, len(segs))
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each answer has its error
		for i, seg := range segs {
			answers[i] = p.HKeys(ctx, segmentKey(seg, "sessions"))
		}
		return nil
	})
	sessions = make([][]SessionID, len(segs))
	for i, a := range answers {
		names, err := a.Result()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("segment %s: read sessions: %w", segs[i], err))
		}
		for _, name := range names {
			sessions[i] = append(sessions[i], SessionID(name))
		}
	}
	return sessions, failed
}

// Reclaim makes due the rows of a segment that dead sessions execute, and counts an
// attempt for each. It returns the number of rows.
func (l *Ledger) Reclaim(ctx context.Context, seg Segment, dead ...SessionID) (n int, r Receipt, err error) {
	defer wrap(&err, "segment %s: reclaim", seg)
	for from := 0; from >= 0; {
		a, err := l.onSegment(ctx, reclaimScript, seg, append([]any{from, scriptRows}, texts(dead)...)...)
		if err != nil {
			return n, r, err
		}
		n, from = n+int(a.list(6).int(0)), int(a.list(6).int(1))
		one, err := l.receipt(ctx, seg, a)
		r.add(one)
		if err != nil {
			return n, r, err
		}
	}
	return n, r, nil
}
