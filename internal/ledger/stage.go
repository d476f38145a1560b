package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// staged is a segment in the form in which it is sent to Redis.
type staged struct {
	number int
	last   bool
	packed packed
	// results are those of rows that were settled when they were submitted, by row.
	results []RowResult
	// settled is the number of results that were stored before.
	settled int
	// late means that the segment is completed later: see [Stager.AwaitResults].
	late bool
	// dues are the due times of rows that are not due at once, by row.
	dues []rowDue
	// order is the order of release, first that of the rows with a due time; nil: that of the
	// rows' numbers.
	order []byte
}

// rowDue is when a row is due first.
type rowDue struct {
	Row Row
	Due time.Time
}

// dueBytes is the size of a due time in memory.
const dueBytes = 32

// bytes returns the size of the segment in memory.
func (s staged) bytes() int {
	n := len(s.order) + dueBytes*len(s.dues)
	for _, chunk := range s.packed.chunks {
		n += len(chunk)
	}
	for _, r := range s.results {
		n += r.bytes()
	}
	return n
}

// bytes returns the size of the result in a script.
func (r RowResult) bytes() int {
	return len(r.Result.Outcome) + len(r.Result.Detail) + len(r.Result.Evidence)
}

// Stage stores the rows of one segment of a staged run: 1 to [SegmentRows] rows of at
// most [MaxRow] bytes, and 2 MiB together. last means that no segment follows. Staging the
// same rows again has no effect. Other rows replace the rows of a staged run; for a committed
// run the error is a [MismatchError]. [Stager] divides rows into segments.
func (l *Ledger) Stage(ctx context.Context, run Run, number int, last bool, rows [][]byte) (sum Sum, err error) {
	defer wrap(&err, "run %s: stage segment %d", run.ID, number)
	if number < 0 || number >= MaxSegments {
		return Sum{}, fmt.Errorf("want 0 to %d", MaxSegments-1)
	}
	if run.Scan != nil {
		return Sum{}, errScan
	}
	size := 0
	for _, row := range rows {
		size += len(row)
	}
	if size > segmentBytes {
		return Sum{}, fmt.Errorf("%d bytes: want at most %d", size, segmentBytes)
	}
	p, err := pack(rows)
	if err == nil {
		err = l.stage(ctx, run, staged{number: number, last: last, packed: p})
	}
	return p.sum, err
}

func (l *Ledger) stage(ctx context.Context, run Run, s staged) error {
	args := []any{
		run.segment(s.number).String(), s.packed.sum.Rows, s.packed.sum.stored(), s.packed.per,
		flag(s.last), flag(s.late || len(s.dues)+len(s.results) > 0), s.order, len(s.dues),
	}
	for _, chunk := range s.packed.chunks {
		args = append(args, chunk)
	}
	if err := l.onStaged(ctx, stageScript, run, s, args...); err != nil {
		return err
	}
	if err := l.stageDues(ctx, run, s); err != nil || len(s.results) == 0 {
		return err
	}
	return l.stageResults(ctx, run, s)
}

// onStaged runs a script for a segment. The error is a [MismatchError] if another one is
// staged.
func (l *Ledger) onStaged(ctx context.Context, script *redis.Script, run Run, s staged, args ...any) error {
	_, err := l.onSegment(ctx, script, run.segment(s.number), args...)
	return mismatch(err, run, s.packed.sum)
}

// stageDues stores when rows of a staged segment are due first. The segment cannot be
// committed before the last of them is stored.
func (l *Ledger) stageDues(ctx context.Context, run Run, s staged) error {
	left := len(s.dues)
	for page := range slices.Chunk(s.dues, scriptNumbers) {
		left -= len(page)
		args := []any{s.packed.sum.stored(), flag(!s.late && left+len(s.results) == 0)}
		for _, d := range page {
			args = append(args, d.Due.UnixMilli(), int(d.Row))
		}
		if err := l.onStaged(ctx, dueScript, run, s, args...); err != nil {
			return err
		}
	}
	return nil
}

// stageResults settles the rows of a staged segment whose results are known. The segment
// cannot be committed before the last of them is stored. If rows are settled then that have
// no result here, an earlier producer has staged other rows: the error is a [MismatchError].
func (l *Ledger) stageResults(ctx context.Context, run Run, s staged) error {
	parts := slices.Collect(pages(s.results, scriptRows, scriptBytes, RowResult.bytes))
	if len(parts) == 0 {
		parts = [][]RowResult{nil} // no result is to come
	}
	for i, part := range parts {
		all := ""
		if i == len(parts)-1 && !s.late {
			all = strconv.Itoa(s.settled + len(s.results))
		}
		args := []any{s.packed.sum.stored(), all}
		for _, r := range part {
			args = append(args, int(r.Row), string(r.Result.Outcome), r.Result.stored())
		}
		if err := l.onStaged(ctx, resultsScript, run, s, args...); err != nil {
			return err
		}
	}
	return nil
}

// mismatch returns the error of a script that compares a segment with a stored one.
func mismatch(err error, run Run, sum Sum) error {
	return otherRows(err, run, fmt.Sprintf("digest %x", sum.Digest))
}

// otherRows returns the error of a script that compares rows with the given ones, as a
// [MismatchError] if it is one.
func otherRows(err error, run Run, given string) error {
	if errors.Is(err, ErrMismatch) {
		return &MismatchError{Run: run.ID, Member: MemberContent, Have: "other rows", Want: given}
	}
	return err
}
