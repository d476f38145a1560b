package ledger

import (
	"context"
	"fmt"
	"maps"
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
	PhaseReleased   Phase = "released"    // released, not begun
	PhaseInProgress Phase = "in progress" // begun
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
	// Since is when a row was released or begun, in Redis' time.
	Since time.Time
	// Session executes a row in progress.
	Session SessionID
	// Checkpoint is that of an open row.
	Checkpoint Checkpoint
	// Intent is that of an open row; nil if there is none.
	Intent *Intent
	// Result is that of a settled row.
	Result Result
}

// Rows returns the rows of a segment. It reads in several commands: a row that changes
// meanwhile is as it was before or after.
func (l *Ledger) Rows(ctx context.Context, seg Segment) ([]RowState, error) {
	s, err := l.snapshot(ctx, seg)
	if err != nil {
		return nil, fmt.Errorf("segment %s: read rows: %w", seg, err)
	}
	rows := make([]RowState, s.rows)
	for i := range rows {
		if rows[i], err = s.state(Row(i)); err != nil {
			return nil, fmt.Errorf("segment %s: row %d: %w", seg, i, err)
		}
	}
	return rows, nil
}

// waitingParts are the sorted sets of waiting rows.
var waitingParts = []string{"first", "check", "ready", "intended_check", "intended_ready"}

// snapshot is all that is stored of a segment's rows.
type snapshot struct {
	rows, next         int
	contents           [][]byte
	settled, cancelled string
	waiting            map[string]int64
	released, running  map[string]int64
	values, executions map[string]string
	intents, results   map[string]string
}

func (l *Ledger) snapshot(ctx context.Context, seg Segment) (*snapshot, error) {
	hashes, sets, bitmaps := map[string]*redis.MapStringStringCmd{}, map[string]*redis.ZSliceCmd{}, map[string]*redis.StringCmd{}
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, part := range []string{"head", "chunks", "values", "executions", "intents", "results"} {
			hashes[part] = p.HGetAll(ctx, segmentKey(seg, part))
		}
		for _, part := range append([]string{"released", "running"}, waitingParts...) {
			sets[part] = p.ZRangeWithScores(ctx, segmentKey(seg, part), 0, -1)
		}
		for _, part := range []string{"settled", "cancelled"} {
			bitmaps[part] = p.Get(ctx, segmentKey(seg, part))
		}
		return nil
	})
	if err != nil && !absent(err) {
		return nil, err
	}
	head := hashes["head"].Val()
	if len(head) == 0 {
		return nil, ErrNotFound
	}
	read := numbers{hash: head}
	s := &snapshot{
		rows: int(read.int("rows")), next: int(read.int("next")),
		settled: bitmaps["settled"].Val(), cancelled: bitmaps["cancelled"].Val(),
		waiting:  map[string]int64{},
		released: scores(sets["released"].Val()), running: scores(sets["running"].Val()),
		executions: hashes["executions"].Val(),
		intents:    hashes["intents"].Val(), results: hashes["results"].Val(),
	}
	if read.err != nil {
		return nil, read.err
	}
	for _, part := range waitingParts {
		maps.Copy(s.waiting, scores(sets[part].Val()))
	}
	if s.values, err = values(hashes["values"].Val()); err != nil {
		return nil, err
	}
	s.contents, err = contents(hashes["chunks"].Val())
	return s, err
}

// values returns the values of rows, which are stored several together as
// <row>:<size>:<value>.
func values(groups map[string]string) (map[string]string, error) {
	all := map[string]string{}
	for _, group := range groups {
		for group != "" {
			row, rest, _ := strings.Cut(group, ":")
			digits, rest, _ := strings.Cut(rest, ":")
			size, err := strconv.Atoi(digits)
			if err != nil || size < 0 || size > len(rest) {
				return nil, fmt.Errorf("stored values %s", quoted(group))
			}
			all[row], group = rest[:size], rest[size:]
		}
	}
	return all, nil
}

// contents returns the rows of all chunks, by number.
func contents(chunks map[string]string) ([][]byte, error) {
	var rows [][]byte
	for number := range len(chunks) {
		some, err := unpackChunk([]byte(chunks[strconv.Itoa(number)]))
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

func scores(set []redis.Z) map[string]int64 {
	m := make(map[string]int64, len(set))
	for _, z := range set {
		row, _ := z.Member.(string)
		m[row] = int64(z.Score)
	}
	return m
}

// bit reports whether the bit of a bitmap is set.
func bit(bitmap string, n int) bool {
	return n/8 < len(bitmap) && bitmap[n/8]&(0x80>>(n%8)) != 0
}

func (s *snapshot) state(row Row) (RowState, error) {
	r, field := RowState{Row: row}, strconv.Itoa(int(row))
	if int(row) < len(s.contents) {
		r.Content = s.contents[row]
	}
	if bit(s.settled, int(row)) {
		r.Phase, r.Result = PhaseSettled, s.result(row, field)
		return r, nil
	}
	var err error
	if r.Checkpoint, r.Intent, err = parseStored(row, s.values[field], false, s.intents[field], time.Now().Add(time.Hour)); err != nil {
		return r, err
	}
	s.place(&r, field)
	return r, nil
}

// place sets the phase of an open row and its times.
func (s *snapshot) place(r *RowState, field string) {
	if since, ok := s.running[field]; ok {
		_, session, _ := strings.Cut(s.executions[field], ",")
		r.Phase, r.Since, r.Session = PhaseInProgress, fromMillis(since), SessionID(session)
		return
	}
	if since, ok := s.released[field]; ok {
		r.Phase, r.Since = PhaseReleased, fromMillis(since)
		return
	}
	if due, ok := s.waiting[field]; ok {
		r.Phase, r.Due = PhaseWaiting, fromMillis(due)
		return
	}
	r.Phase = PhaseQueued
}

func (s *snapshot) result(row Row, field string) Result {
	if stored, ok := s.results[field]; ok {
		return parseResult(stored)
	}
	if bit(s.cancelled, int(row)) {
		return Result{Outcome: Cancelled}
	}
	return Result{Outcome: Done}
}
