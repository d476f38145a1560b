package ledger

import (
	"errors"
	"fmt"
	"time"
)

// SegmentState is the state of a committed segment.
type SegmentState struct {
	Segment Segment
	// Due is when the dispatcher is to inspect the segment, in Redis' time: in the past
	// if rows are due, zero if nothing becomes due by itself.
	Due     time.Time
	Rows    int
	Settled int
	// Open counts the open rows.
	Open OpenRows
	// Counts is the number of settled rows by outcome.
	Counts Counts
}

// Closed reports whether every row is settled.
func (s SegmentState) Closed() bool { return s.Settled == s.Rows }

// dueNow is the due time of a segment that has rows due: before any other.
var dueNow = time.UnixMilli(1).UTC()

// parseDue reads the time that the scripts' function earliest returns.
func parseDue(ms int64) time.Time {
	switch {
	case ms < 0:
		return time.Time{}
	case ms == 0:
		return dueNow
	}
	return fromMillis(ms)
}

func parseSegmentState(seg Segment, a answer) (SegmentState, error) {
	head := a.hash(6)
	read := numbers{hash: head}
	s := SegmentState{
		Segment: seg, Due: parseDue(a.int(2)),
		Rows: int(read.int("rows")), Settled: int(read.int("settled")),
		Open: parseOpenRows(a.list(7)),
	}
	counts, err := countsOf(head)
	if err = errors.Join(err, read.err); err != nil {
		return SegmentState{}, fmt.Errorf("segment %s: stored head: %w", seg, err)
	}
	s.Counts = counts
	return s, nil
}
