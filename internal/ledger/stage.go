package ledger

import (
	"context"
	"errors"
	"fmt"
)

// staged is a segment in the form in which it is sent to Redis.
type staged struct {
	number int
	packed packed
	// results are those of rows that were settled when they were submitted, by row.
	results []RowResult
	// order is the order of release; nil: that of the rows' numbers.
	order []byte
}

// bytes returns the size of the result in a script.
func (r RowResult) bytes() int {
	return len(r.Result.Outcome) + len(r.Result.Detail) + len(r.Result.Evidence)
}

// stage stores a segment of a staged run, as its writer. Repeating it has no further effect.
func (l *Ledger) stage(ctx context.Context, run Run, writer string, s staged) error {
	seg := run.segment(s.number)
	args := []any{writer, s.packed.sum.Rows, s.packed.sum.stored(), s.packed.per, s.order}
	for _, chunk := range s.packed.chunks {
		args = append(args, chunk)
	}
	if _, err := l.onSegment(ctx, stageScript, seg, args...); err != nil {
		return err
	}
	for page := range pages(s.results, scriptRows, scriptBytes, RowResult.bytes) {
		args := []any{writer}
		for _, r := range page {
			args = append(args, int(r.Row), string(r.Result.Outcome), r.Result.stored())
		}
		if _, err := l.onSegment(ctx, resultsScript, seg, args...); err != nil {
			return err
		}
	}
	return nil
}

// otherRows returns the error of a script that compares rows with the given ones, as a
// [MismatchError] if it is one.
func otherRows(err error, run Run, given string) error {
	if errors.Is(err, ErrMismatch) {
		return &MismatchError{Run: run.ID, Member: MemberContent, Have: "other rows", Want: given}
	}
	return err
}

// digestOf names the rows of a segment in an error.
func digestOf(sum Sum) string { return fmt.Sprintf("digest %x", sum.Digest) }
