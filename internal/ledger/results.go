package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// RowResult is the result of a settled row.
type RowResult struct {
	Row    Row
	Result Result
}

// Results returns the results of the settled rows of a segment, from a row on, in order.
// Rows that are simply done are left out. It reads a page at a time; an error ends it.
func (l *Ledger) Results(ctx context.Context, seg Segment, from Row) iter.Seq2[RowResult, error] {
	return func(yield func(RowResult, error) bool) {
		cancelled, stored, err := l.resultRows(ctx, seg, from)
		for page := range slices.Chunk(stored, rowsPage) {
			var results []RowResult
			if err == nil {
				results, err = l.resultsOf(ctx, seg, page, cancelled)
			}
			if err != nil {
				break
			}
			for _, r := range results {
				if !yield(r, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(RowResult{}, fmt.Errorf("segment %s: read results: %w", seg, err))
		}
	}
}

// resultRows returns the bitmap of the rows that are simply cancelled, and the numbers of
// these and of all rows with a stored result.
func (l *Ledger) resultRows(ctx context.Context, seg Segment, from Row) (cancelled string, rows []Row, err error) {
	var bitmap *redis.StringCmd
	var fields *redis.StringSliceCmd
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		bitmap, fields = p.Get(ctx, segmentKey(seg, "cancelled")), p.HKeys(ctx, segmentKey(seg, "results"))
		return nil
	})
	if absent(err) { // of the bitmap
		err = fields.Err()
	}
	if err != nil {
		return "", nil, err
	}
	for row := from; int(row) < 8*len(bitmap.Val()); row++ {
		if bit(bitmap.Val(), int(row)) {
			rows = append(rows, row)
		}
	}
	for _, field := range fields.Val() {
		n, err := strconv.Atoi(field)
		if err != nil {
			return "", nil, fmt.Errorf("number of a row: %w", err)
		}
		if Row(n) >= from {
			rows = append(rows, Row(n))
		}
	}
	slices.Sort(rows)
	return bitmap.Val(), slices.Compact(rows), nil
}

// resultsOf returns the results of rows, without those that have none any more.
func (l *Ledger) resultsOf(ctx context.Context, seg Segment, rows []Row, cancelled string) ([]RowResult, error) {
	fields := make([]string, len(rows))
	for i, row := range rows {
		fields[i] = strconv.Itoa(int(row))
	}
	stored, err := l.rdb.HMGet(ctx, segmentKey(seg, "results"), fields...).Result()
	if err != nil {
		return nil, err
	}
	results := make([]RowResult, 0, len(rows))
	for i, row := range rows {
		text, _ := stored[i].(string)
		if text != "" || bit(cancelled, int(row)) {
			results = append(results, RowResult{row, resultOf(bit(cancelled, int(row)), text)})
		}
	}
	return results, nil
}

// Unsettled returns the open rows of a segment, from a row on, in order.
func (l *Ledger) Unsettled(ctx context.Context, seg Segment, from Row) ([]Row, error) {
	var total, bitmap *redis.StringCmd
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		total, bitmap = p.HGet(ctx, segmentKey(seg, "head"), "rows"), p.Get(ctx, segmentKey(seg, "settled"))
		return nil
	})
	past := 0
	if err == nil || absent(err) {
		past, err = total.Int()
	}
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("segment %s: read open rows: %w", seg, err)
	}
	var open []Row
	for row := from; int(row) < past; row++ {
		if !bit(bitmap.Val(), int(row)) {
			open = append(open, row)
		}
	}
	return open, nil
}

// OpenSegments returns the committed segments that have open rows, by number.
func (l *Ledger) OpenSegments(ctx context.Context, run Run) ([]Segment, error) {
	if run.Ended() {
		return nil, nil
	}
	bits, err := l.closedBits(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	var open []Segment
	for number := range run.Segments {
		if !bit(bits, number) {
			open = append(open, run.segment(number))
		}
	}
	return open, nil
}

// Waiting returns how many rows of the segments wait for their due time after an
// execution.
func (l *Ledger) Waiting(ctx context.Context, segments ...Segment) (rows int64, err error) {
	for page := range slices.Chunk(segments, listPage) {
		var cards []*redis.IntCmd
		_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, seg := range page {
				for _, part := range []string{"check", "ready", "intended_check", "intended_ready"} {
					cards = append(cards, p.ZCard(ctx, segmentKey(seg, part)))
				}
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("count waiting rows: %w", err)
		}
		for _, card := range cards {
			rows += card.Val()
		}
	}
	return rows, nil
}
