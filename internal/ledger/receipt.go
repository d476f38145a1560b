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
	// RowSettled: the row is settled already. Nothing was written.
	RowSettled Status = "settled"
	// RowSuperseded: the row belongs to another release or execution, or to none. Nothing
	// was written, and nothing more may be done for the row.
	RowSuperseded Status = "superseded"
	// RowStopped: the run is paused or not yet to start. Begin has made the
	// row due again; Intend has written nothing.
	RowStopped Status = "stopped"
	// RowCancelled: the run was cancelled. End and GiveBack have settled the row as
	// cancelled, perhaps by an earlier call; Intend has written nothing.
	RowCancelled Status = "cancelled"
	// RowFailing: the row waits for its next attempt after a failure. MakeDue has written nothing.
	RowFailing Status = "failing"
	// RowDue: the row is due, or released, so that its next execution begins by itself. MakeDue has
	// written nothing.
	RowDue Status = "due"
	// RowEnded: an earlier call, whose answer may have been lost, has ended this release or
	// execution of the row in the same way; or the row is settled with the same result. Nothing
	// was written.
	RowEnded Status = "ended"
)

// Receipt is the answer to a write to a segment.
type Receipt struct {
	// Statuses has the status of each row, in the caller's order.
	Statuses []Status
	// Now is Redis' time of the write.
	Now time.Time
	// Due is when the first of the rows is due that the call left open; zero if it left none.
	Due time.Time
	// Stopped reports whether the run is paused or not yet to start, and
	// Cancelled whether it is cancelled. In both cases no new request may begin, also
	// for a row that has an intent: only the request of that intent is finished.
	Stopped, Cancelled bool
	// Ended reports whether the run ended by this call.
	Ended bool
}

// OpenRows counts the open rows of a segment by phase.
type OpenRows struct {
	// Queued rows were never in progress, and are not released. Later rows are queued and not
	// due yet; Queued does not count them: see [FoundRow].
	Queued, Later int
	// Check and Ready rows wait at these stages. CheckDue and ReadyDue of them are due and
	// may be released: while the segment is stopped, those with an intent.
	Check, CheckDue, Ready, ReadyDue int
	Released, Running                int
}

// parseReceipt reads the part of the answer that all scripts for rows have in common.
func parseReceipt(a answer) Receipt {
	return Receipt{Ended: a.int(1) == 1, Due: parseDue(a.int(2)), Now: fromMillis(a.int(3)),
		Stopped: a.int(4) == 1, Cancelled: a.int(5) == 1}
}

// parseOpenRows reads the phases that the scripts' function report returns.
func parseOpenRows(a answer) OpenRows {
	return OpenRows{
		Queued: int(a.int(0)), Check: int(a.int(1)), CheckDue: int(a.int(2)), Ready: int(a.int(3)), ReadyDue: int(a.int(4)),
		Released: int(a.int(5)), Running: int(a.int(6)), Later: int(a.int(7)),
	}
}

// add adds the receipt of a later write to the same segment.
func (r *Receipt) add(later Receipt) {
	later.Statuses = append(r.Statuses, later.Statuses...)
	later.Ended = r.Ended || later.Ended
	if later.Due.IsZero() || (!r.Due.IsZero() && r.Due.Before(later.Due)) {
		later.Due = r.Due
	}
	*r = later
}

// rowWrite is a script that writes rows of a segment.
type rowWrite struct {
	operation string // for errors
	script    *redis.Script
	invalid   error // of an argument: then nothing is written
	args      []any // those before the arguments of the rows
	parts     [][]any
}

// write runs a script for each part of its arguments, until one fails. If it returns an error
// some rows may have been written. Writing them again does no harm.
func (l *Ledger) write(ctx context.Context, seg Segment, w rowWrite) (r Receipt, err error) {
	defer wrap(&err, "segment %s: %s", seg, w.operation)
	if w.invalid != nil {
		return r, w.invalid
	}
	for _, part := range w.parts {
		a, err := l.onSegment(ctx, w.script, seg, slices.Concat(w.args, part)...)
		if err != nil {
			return r, err
		}
		one := parseReceipt(a)
		for _, status := range a.list(6).texts() {
			one.Statuses = append(one.Statuses, Status(status))
		}
		r.add(one)
	}
	return r, nil
}

// rowParts returns the arguments for rows, of at most n at a time.
func rowParts(rows []Row, n int) (parts [][]any) {
	for part := range slices.Chunk(rows, n) {
		parts = append(parts, ints(part))
	}
	return parts
}

func checkRows(rows []Row) error {
	for _, row := range rows {
		if row < 0 || row >= SegmentRows {
			return fmt.Errorf("row %d: want 0 to %d", row, SegmentRows-1)
		}
	}
	return nil
}

// DueNow is the due time of a segment that has rows due: before any other.
var DueNow = time.UnixMilli(1).UTC()

// parseDue reads the time that the scripts' function earliest returns.
func parseDue(ms int64) time.Time {
	switch {
	case ms < 0:
		return time.Time{}
	case ms == 0:
		return DueNow
	}
	return fromMillis(ms)
}
