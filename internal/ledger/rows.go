package ledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Phase is where a row is on its way.
type Phase string

// The phases of a row.
const (
	PhaseQueued     Phase = "queued"      // never released
	PhaseReleased   Phase = "released"    // not in progress yet
	PhaseInProgress Phase = "in progress" // executed by a worker
	PhaseWaiting    Phase = "waiting"     // due at a time
	PhaseSettled    Phase = "settled"
)

// RowState is the state of a row, for people to read.
type RowState struct {
	Row     Row
	Phase   Phase
	Content []byte
	// Due is that of a waiting row, in Redis' time.
	Due time.Time
	// Since is when a row was released, or its execution began, in Redis' time.
	Since time.Time
	// Session executes a row in progress.
	Session SessionID
	// Checkpoint is that of an open row.
	Checkpoint Checkpoint
	// Intent is that of an open row; nil if there is none.
	Intent *Intent
	// Result is that of a settled row.
	Result Result
	// Err says why content, checkpoint or intent cannot be read; nil if they can.
	Err error
}

// Rows returns at most n rows of a segment, staged or committed, from a row on, as they are
// at one time. There are at most 128, and fewer if they are large; there is none behind the last
// row.
func (l *Ledger) Rows(ctx context.Context, seg Segment, from Row, n int) (rows []RowState, err error) {
	defer wrap(&err, "segment %s: read rows", seg)
	if err := checkRows([]Row{from}); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("%d rows: want 1 or more", n)
	}
	a, err := l.onSegment(ctx, rowsScript, seg, int(from), min(n, scriptRows))
	if err != nil {
		return nil, err
	}
	content, err := parseContents(int(a.int(3)), a.list(4))
	if err != nil {
		return nil, err
	}
	rows = make([]RowState, len(a.list(2)))
	for i := range rows {
		rows[i] = parseRowState(from+Row(i), a.list(2).list(i), fromMillis(a.int(1)))
		bytes, err := content.row(rows[i].Row)
		rows[i].Content, rows[i].Err = bytes, cmp.Or(rows[i].Err, err)
	}
	return rows, nil
}

func parseRowState(row Row, a answer, now time.Time) RowState {
	r := RowState{Row: row}
	if a.text(0) == "s" {
		r.Phase, r.Result = PhaseSettled, resultOf(a.int(1) == 1, a.text(2))
		return r
	}
	at := fromMillis(a.int(1))
	switch a.text(0) {
	case "b":
		_, session, _ := strings.Cut(a.text(2), ",")
		r.Phase, r.Since, r.Session = PhaseInProgress, at, SessionID(session)
	case "r":
		r.Phase, r.Since = PhaseReleased, at
	case "w":
		r.Phase, r.Due = PhaseWaiting, at
	default:
		r.Phase = PhaseQueued
	}
	r.Checkpoint, r.Intent, r.Err = parseStored(row, a.text(3), a.int(4) == 1, a.text(5), now)
	return r
}

func resultOf(cancelled bool, stored string) Result {
	switch {
	case stored != "":
		return parseResult(stored)
	case cancelled:
		return Result{Outcome: Cancelled}
	}
	return Result{Outcome: Done}
}

// bit reports whether the bit of a bitmap is set.
func bit(bitmap string, n int) bool {
	return n/8 < len(bitmap) && bitmap[n/8]&(0x80>>(n%8)) != 0
}

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
		for page := range slices.Chunk(stored, scriptRows) {
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
	var open []Segment
	for from := 0; from < run.Segments; from += listPage {
		var heads []*redis.SliceCmd
		_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for number := from; number < min(from+listPage, run.Segments); number++ {
				heads = append(heads, p.HMGet(ctx, segmentKey(run.segment(number), "head"), "rows", "settled"))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("run %s: read segments: %w", run.ID, err)
		}
		for i, head := range heads {
			if a := answer(head.Val()); a.text(0) != a.text(1) {
				open = append(open, run.segment(from+i))
			}
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
