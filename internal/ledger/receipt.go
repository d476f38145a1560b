package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Status says whether a write of a row took effect.
type Status string

// The statuses of a write. Each applies to one row.
const (
	// RowWritten: the write took effect.
	RowWritten Status = "written"
	// RowAdmitted: this execution, and no other, has the row.
	RowAdmitted Status = "admitted"
	// RowSettled: the row is settled already, possibly by an earlier call whose answer
	// was lost. Nothing was written.
	RowSettled Status = "settled"
	// RowSuperseded: the row belongs to another release or execution, or to none. Nothing
	// was written, and nothing more may be done for the row.
	RowSuperseded Status = "superseded"
	// RowStopped: the run is paused, held, incomplete or not yet to start. Begin has made
	// the row due again; Intend and Check have written nothing.
	RowStopped Status = "stopped"
	// RowCancelled: the run was cancelled. Wait has settled the row as cancelled; Intend
	// and Check have written nothing.
	RowCancelled Status = "cancelled"
)

// Receipt is the answer to a write to a segment.
type Receipt struct {
	// Statuses has the status of each row, in the caller's order.
	Statuses []Status
	// Due is when the dispatcher is to inspect the segment, as in [SegmentState].
	Due time.Time
	// Ended reports whether the run ended by this call. At most one call reports it; a
	// dispatcher finds ended runs among [Ledger.OpenRuns].
	Ended bool
}

// receipt reads the part of the answer that all scripts for rows have in common. It
// closes the segment in the header if every row is settled. If that fails, the next
// call for the segment or the next Sync does it.
func (l *Ledger) receipt(ctx context.Context, seg Segment, a answer) (Receipt, error) {
	r := Receipt{Due: parseDue(a.int(2))}
	if a.int(1) == 0 {
		return r, nil
	}
	var err error
	r.Ended, err = l.close(ctx, seg)
	return r, err
}

// scriptRows is the largest number of rows that one script releases or writes. To write
// a row takes up to 17 µs, so that a script blocks Redis for 4 ms.
const scriptRows = 250

// add adds the receipt of a later write to the same segment.
func (r *Receipt) add(later Receipt) {
	r.Statuses = append(r.Statuses, later.Statuses...)
	r.Due, r.Ended = later.Due, r.Ended || later.Ended
}

// write runs a script for rows, scriptRows at a time. If it returns an error some rows
// may have been written. To write them once more does no harm.
func (l *Ledger) write(ctx context.Context, operation string, s *redis.Script, seg Segment, rows []Row, args ...any) (r Receipt, err error) {
	err = checkRows(rows)
	for part := range slices.Chunk(rows, scriptRows) {
		var one Receipt
		if err == nil {
			one, err = l.writePart(ctx, s, seg, part, args)
		}
		r.add(one)
	}
	if err != nil {
		return r, fmt.Errorf("segment %s: %s: %w", seg, operation, err)
	}
	return r, nil
}

func (l *Ledger) writePart(ctx context.Context, s *redis.Script, seg Segment, rows []Row, args []any) (Receipt, error) {
	a, err := l.onSegment(ctx, s, seg, slices.Concat(args, rowArgs(rows))...)
	if err != nil {
		return Receipt{}, err
	}
	r, err := l.receipt(ctx, seg, a)
	for _, status := range a.list(3).texts() {
		r.Statuses = append(r.Statuses, Status(status))
	}
	return r, err
}

func checkRows(rows []Row) error {
	for _, row := range rows {
		if row < 0 || row >= SegmentRows {
			return fmt.Errorf("row %d: want 0 to %d", row, SegmentRows-1)
		}
	}
	return nil
}

func rowArgs(rows []Row) []any {
	args := make([]any, len(rows))
	for i, row := range rows {
		args[i] = int(row)
	}
	return args
}
