package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Age moves all stored times of a segment's releases, executions and waiting rows back by d.
func Age(ctx context.Context, rdb redis.Cmdable, seg Segment, d time.Duration) error {
	for _, part := range []string{"first", "check", "ready", "intended_check", "intended_ready", "released", "running"} {
		if err := ageScores(ctx, rdb, segmentKey(seg, part), d); err != nil {
			return err
		}
	}
	return nil
}

// SetNotBefore replaces the time before which no row of a committed run may begin, and makes its
// segments due. A run with rows in progress is in this state if Redis' clock has gone back.
func SetNotBefore(ctx context.Context, rdb redis.Cmdable, run Run, at time.Time) error {
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
	return l.StageGrouped(ctx, run, number, rows, nil, nil, nil)
}

// Commit commits segments that Stage has staged.
func (l *Ledger) Commit(ctx context.Context, run Run, sums []Sum) (Run, error) {
	writer, err := l.writer(ctx, run)
	if err != nil {
		return Run{}, err
	}
	s := &Stager{ledger: l, run: run, writer: writer, sums: sums, counts: Counts{}}
	for number, sum := range sums {
		settled := 0
		for from := 0; from < sum.Rows; from += scriptRows {
			rows, err := l.Rows(ctx, run.segment(number), Row(from), scriptRows)
			if isNotFound(err) {
				break
			}
			if err != nil {
				return Run{}, err
			}
			for _, row := range rows {
				if row.Phase == PhaseSettled {
					s.counts[row.Result.Outcome]++
					settled++
				}
			}
		}
		if settled == sum.Rows {
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

// StageGrouped stages a segment as a [Stager] does. results are those of settled rows, and key is
// that of groups; nil: there are none.
func (l *Ledger) StageGrouped(ctx context.Context, run Run, number int, rows [][]byte, key func([]byte) string,
	results map[Row]Result, dues map[Row]time.Time) (Sum, error) {
	p, err := pack(rows)
	if err != nil {
		return Sum{}, err
	}
	s := staged{number: number, packed: p}
	for _, row := range slices.Sorted(maps.Keys(results)) {
		s.results = append(s.results, RowResult{Row: row, Result: results[row]})
	}
	later := slices.Sorted(maps.Keys(dues))
	s.order = laterOrder(key, rows, s.results, later)
	writer, err := l.writer(ctx, run)
	if err != nil {
		return Sum{}, err
	}
	if err := l.stage(ctx, run, writer, s); err != nil || len(later) == 0 {
		return p.sum, err
	}
	seg := run.segment(number)
	for _, row := range later {
		due := redis.Z{Score: float64(dues[row].UnixMilli()), Member: int(row)}
		if err := l.rdb.ZAdd(ctx, segmentKey(seg, "first"), due).Err(); err != nil {
			return Sum{}, err
		}
	}
	return p.sum, l.rdb.HSet(ctx, segmentKey(seg, "head"), "next", len(later)).Err()
}

// laterOrder returns the order of release of rows that are grouped, behind those that are due
// later. The segment is then as after a release of these that was given back.
func laterOrder(key func([]byte) string, rows [][]byte, settled []RowResult, later []Row) []byte {
	apart := slices.Clone(settled)
	for _, row := range later {
		apart = append(apart, RowResult{Row: row})
	}
	order := releaseOrder(key, rows, apart)
	switch prefix := len(later) == 0 || int(later[len(later)-1]) == len(later)-1; {
	case len(later) == len(rows) || order == nil && prefix:
		return nil
	case order == nil: // each row is a group
		isApart := func(row Row) bool { return slices.ContainsFunc(apart, func(r RowResult) bool { return r.Row == row }) }
		for i := range rows {
			if !isApart(Row(i)) {
				order = binary.BigEndian.AppendUint16(order, uint16(i)|groupMark)
			}
		}
		for _, r := range apart {
			order = binary.BigEndian.AppendUint16(order, uint16(r.Row)|groupMark)
		}
	}
	at := len(order) - 2*len(later)
	return slices.Concat(order[at:], order[:at])
}

// SegmentState is the state of a committed segment.
type SegmentState struct {
	Segment Segment
	// Due is when the dispatcher is to inspect the segment, in Redis' time: in the past
	// if rows are due, zero if nothing becomes due by itself.
	Due           time.Time
	Rows, Settled int
	Open          OpenRows
}

// stateScript answers {'ok', when the segment is to be inspected, phases of its rows, their number,
// how many are settled}.
var stateScript = redis.NewScript(shared(rowsParts, "index", "segment", "report") + `
if not control() then return {'missing'} end
local at, phases = report()
return {'ok', at, phases, tonumber(redis.call('HGET', head, 'rows')), tonumber(redis.call('HGET', head, 'settled'))}`)

// Segments returns the state of the committed segments of a run, by number.
func (l *Ledger) Segments(ctx context.Context, run Run) (all []SegmentState, err error) {
	for number := range run.Segments {
		seg := run.segment(number)
		a, err := l.onSegment(ctx, stateScript, seg)
		if err != nil {
			return nil, err
		}
		all = append(all, SegmentState{Segment: seg, Due: parseDue(a.int(1)), Rows: int(a.int(3)), Settled: int(a.int(4)),
			Open: parseOpenRows(a.list(2))})
	}
	return all, nil
}

// HeaderKey returns the key of a run's header, and ListKey that of one of a tenant's lists.
func HeaderKey(t Tenant, run RunID) string { return headerKey(t, run, "header") }

// ListKey returns the key of one of a tenant's lists, such as "open".
func ListKey(t Tenant, list string) string { return tenantKey(t, list) }

// AgeList moves the times of one of a tenant's lists back by d.
func AgeList(ctx context.Context, rdb redis.Cmdable, t Tenant, list string, d time.Duration) error {
	return ageScores(ctx, rdb, tenantKey(t, list), d)
}

// LoseSessions has Redis forget all sessions.
func LoseSessions(ctx context.Context, rdb redis.Cmdable) error {
	return rdb.Del(ctx, keysOf(sessionParts, sessionKey)...).Err()
}

// AgeSessions moves the renewals of all sessions back by d.
func AgeSessions(ctx context.Context, rdb redis.Cmdable, d time.Duration) error {
	if err := rdb.DecrBy(ctx, sessionKey("since"), d.Milliseconds()).Err(); err != nil {
		return err
	}
	return ageScores(ctx, rdb, sessionKey("seen"), d)
}

func ageScores(ctx context.Context, rdb redis.Cmdable, key string, d time.Duration) error {
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
