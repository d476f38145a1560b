package ledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
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
	Segment Segment
	// Row is its number within its segment, and Item that within its run, as [Ledger.Each] returns it.
	Row     Row
	Item    int64
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
	// Result is that of a settled row. Its Detail is safe to show.
	Result Result
	// SettledAt is when the row was settled, to the second; zero: it is open, or a cancel has settled
	// it with all others.
	SettledAt time.Time
	// ClaimedBy is the number of the child that was the last to claim a settled row; 0: none was. See
	// [Run.Claimed].
	ClaimedBy int
	// Err says why content, checkpoint or intent cannot be read; nil if they can.
	Err error
}

// Claimed reports whether a child has claimed the row, by [RowState.ClaimedBy], and which. The
// child has no ID if it was deleted, or adopted after the run was read.
func (r Run) Claimed(row RowState) (by Child, claimed bool) {
	by.Number = row.ClaimedBy
	switch entry := r.childEntry(by.Number); entry {
	case "", deletedChild:
		return by, by.Number > 0
	case withoutRows:
		return Child{}, false
	default:
		by.ID = RunID(entry)
		return by, true
	}
}

// Knows reports whether the child of that number was adopted before the run was read.
func (r Run) Knows(number int) bool { return number <= len(r.childEntries) }

// childEntry returns the entry of a child in the run's list: its id, [deletedChild] or
// [withoutRows]; "": the run has no child of that number.
func (r Run) childEntry(number int) string {
	if number < 1 || !r.Knows(number) {
		return ""
	}
	return r.childEntries[number-1]
}

// Rows returns at most n rows of a segment, staged or committed, from a row on, as they are
// at one time. There are at most 128, and fewer if they are large; there is none behind the last
// row.
func (l *Ledger) Rows(ctx context.Context, seg Segment, from Row, n int) ([]RowState, error) {
	rows, _, err := l.rows(ctx, seg, Every, from, n)
	return rows, err
}

// rows returns selected rows of a segment as Rows does, and the row from which to go on; -1: there
// are no more.
func (l *Ledger) rows(ctx context.Context, seg Segment, which Selection, from Row,
	n int) (rows []RowState, next Row, err error) {
	defer wrap(&err, "segment %s: read rows", seg)
	if err := checkRows([]Row{from}); err != nil {
		return nil, 0, err
	}
	if n < 1 {
		return nil, 0, fmt.Errorf("%d rows: want 1 or more", n)
	}
	a, err := l.onSegment(ctx, rowsScript, seg, int(from), min(n, scriptRows), string(which))
	if err != nil {
		return nil, 0, err
	}
	content, err := parseContents(int(a.int(3)), a.list(4))
	if err != nil {
		return nil, 0, err
	}
	rows = make([]RowState, len(a.list(2)))
	for i := range rows {
		r := parseRowState(a.list(2).list(i), fromMillis(a.int(1)))
		r.Segment = seg
		if which != WithResult {
			bytes, err := content.row(r.Row)
			r.Content = bytes
			r.Err = cmp.Or(r.Err, err)
			if err != nil && r.Phase == PhaseSettled {
				r.Result.Detail = cmp.Or(r.Result.Detail, untrusted.Plain(err.Error(), maxDetail))
			}
		}
		rows[i] = r
	}
	return rows, Row(a.int(5)), nil
}

func parseRowState(a answer, now time.Time) RowState {
	r := RowState{Row: Row(a.int(0))}
	if a.text(1) == "s" {
		r.Phase = PhaseSettled
		r.Result = resultOf(a.int(2) == 1, a.text(3))
		r.SettledAt = fromMillis(1000 * a.int(4))
		r.ClaimedBy = int(a.int(5))
		return r
	}
	at := fromMillis(a.int(2))
	switch a.text(1) {
	case "b":
		_, session, _ := strings.Cut(a.text(3), ",")
		r.Phase = PhaseInProgress
		r.Since = at
		r.Session = SessionID(session)
	case "r":
		r.Phase = PhaseReleased
		r.Since = at
	case "w":
		r.Phase = PhaseWaiting
		r.Due = at
	default:
		r.Phase = PhaseQueued
	}
	r.Checkpoint, r.Intent, r.Err = parseStored(r.Row, a.text(4), a.text(5), now)
	return r
}

func resultOf(cancelled bool, stored string) Result {
	switch {
	case stored != "":
		r := parseResult(stored)
		r.Detail = untrusted.Plain(r.Detail, maxDetail)
		return r
	case cancelled:
		return Result{Outcome: Cancelled}
	}
	return Result{Outcome: Done}
}

// RowResult is the result of a settled row.
type RowResult struct {
	Row    Row
	Result Result
}

// Selection says which rows of a run are read.
type Selection string

// The selections.
const (
	Every     Selection = ""
	Unsettled Selection = "unsettled"
	// WithResult are settled rows with a detail, evidence or an outcome other than done. They are read
	// without their contents.
	WithResult Selection = "with result"
)

// Each returns rows of a run from number first on, in their order, which count over the segments of
// the run. It reads a page at a time: a row that is settled meanwhile may or may not be among them.
// An error, such as [ErrNotFound], ends it.
func (l *Ledger) Each(ctx context.Context, run Run, which Selection, first int64) iter.Seq2[RowState, error] {
	return func(yield func(RowState, error) bool) {
		if err := l.each(ctx, run, which, first, func(r RowState) bool { return yield(r, nil) }); err != nil {
			yield(RowState{}, err)
		}
	}
}

// each calls f for the rows, until it returns false.
func (l *Ledger) each(ctx context.Context, run Run, which Selection, first int64, f func(RowState) bool) error {
	run, err := l.Run(ctx, run.Tenant, run.ID)
	if err != nil {
		return err
	}
	sums, err := l.Sums(ctx, run)
	if err != nil {
		return err
	}
	var open []int
	if which == Unsettled {
		if open, err = l.openSegments(ctx, run); err != nil {
			return err
		}
	}

	// The segments in order, without those that the selection cannot have rows in.
	past := int64(0)
	for number, sum := range sums {
		at := past
		from := Row(max(first-past, 0))
		past += int64(sum.Rows)
		if _, found := slices.BinarySearch(open, number); past <= first || (which == Unsettled && !found) {
			continue
		}

		// The rows of the segment, a page at a time.
		for from >= 0 {
			if err := ctx.Err(); err != nil {
				return err // some clients ignore the contexts of their commands
			}
			page, next, err := l.rows(ctx, run.segment(number), which, from, scriptRows)
			if isNotFound(err) && l.exists(ctx, run) { // then the segment alone is missing
				page = missingRows(run.segment(number), from, sum.Rows)
				next = -1
				err = nil
			}
			if err != nil {
				return err
			}
			for _, r := range page {
				r.Item = at + int64(r.Row)
				if !f(r) {
					return nil
				}
			}
			from = next
		}
	}
	return nil
}

// exists reports whether the run is still there.
func (l *Ledger) exists(ctx context.Context, run Run) bool {
	_, err := l.same(ctx, run)
	return err == nil
}

// missingRows returns the rows from one on of a segment of which nothing is stored any more.
func missingRows(seg Segment, from Row, rows int) (all []RowState) {
	err := fmt.Errorf("segment %d of the run, with this row, is missing in Redis", seg.Number)
	for row := from; int(row) < rows; row++ {
		result := Result{Outcome: Failed, Detail: err.Error()}
		all = append(all, RowState{Segment: seg, Row: row, Phase: PhaseSettled, Result: result, Err: err})
	}
	return all
}

// Contents returns up to n rows of a run as they were stored, from number first on, fewer only
// where the rows end.
func (l *Ledger) Contents(ctx context.Context, run Run, first int64, n int) (all [][]byte, err error) {
	for r, err := range l.Each(ctx, run, Every, first) {
		if err == nil && r.Content == nil {
			err = r.Err
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, r.Content); len(all) >= n {
			break
		}
	}
	return all, nil
}

// ItemOf returns the number of a row of a segment among the rows of its run.
func (l *Ledger) ItemOf(ctx context.Context, seg Segment, row Row) (int64, error) {
	if seg.Number == 0 {
		return int64(row), nil
	}
	var sums []Sum
	run, err := l.same(ctx, seg.OfRun())
	if err == nil {
		sums, err = l.Sums(ctx, run)
	}
	if err == nil && seg.Number > len(sums) {
		err = ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("segment %s: %w", seg, err)
	}
	item := int64(row)
	for _, sum := range sums[:seg.Number] {
		item += int64(sum.Rows)
	}
	return item, nil
}

// openSegments returns the numbers of the committed segments that have open rows.
func (l *Ledger) openSegments(ctx context.Context, run Run) (open []int, err error) {
	if run.Ended() {
		return nil, nil
	}
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
				open = append(open, from+i)
			}
		}
	}
	return open, nil
}

// Waiting returns how many rows of a run wait for their due time after an execution.
func (l *Ledger) Waiting(ctx context.Context, run Run) (rows int64, err error) {
	open, err := l.openSegments(ctx, run)
	for page := range slices.Chunk(open, listPage) {
		var cards []*redis.IntCmd
		_, failed := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, number := range page {
				for _, part := range []string{"check", "ready", "intended_check", "intended_ready"} {
					cards = append(cards, p.ZCard(ctx, segmentKey(run.segment(number), part)))
				}
			}
			return nil
		})
		if failed != nil {
			return 0, fmt.Errorf("run %s: count waiting rows: %w", run.ID, failed)
		}
		for _, card := range cards {
			rows += card.Val()
		}
	}
	return rows, err
}
