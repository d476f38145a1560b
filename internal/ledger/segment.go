package ledger

import (
	"context"
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

// Segments returns the state of the committed segments of a run, by number.
func (l *Ledger) Segments(ctx context.Context, run Run) ([]SegmentState, error) {
	all := make([]SegmentState, run.Segments)
	err := eachSegment(ctx, run.Segments, func(ctx context.Context, number int) error {
		seg := run.segment(number)
		a, err := l.onSegment(ctx, stateScript, seg)
		if err != nil {
			return fmt.Errorf("segment %s: read: %w", seg, err)
		}
		head := a.hash(3)
		read := numbers{hash: head}
		s := SegmentState{Segment: seg, Due: parseDue(a.int(1)), Rows: int(read.int("rows")),
			Settled: int(read.int("settled")), Open: parseOpenRows(a.list(2))}
		s.Counts, err = countsOf(head)
		all[number] = s
		return errors.Join(err, read.err)
	})
	return all, err
}

// Sums returns the sums of the segments that are committed, by number.
func (l *Ledger) Sums(ctx context.Context, run Run) ([]Sum, error) {
	stored, err := l.storedSums(ctx, run)
	if err == nil && len(stored) < run.Segments {
		err = ErrNotFound // deleted, or replaced, since the header was read
	}
	sums := make([]Sum, run.Segments) // it may have grown since
	for i := range sums {
		if err == nil {
			sums[i], err = parseSum(stored[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return sums, nil
}

// storedSums returns the sums of a run's segments in their stored form, by number.
func (l *Ledger) storedSums(ctx context.Context, run Run) ([]string, error) {
	if run.Incarnation.single() {
		sum, err := l.rdb.HGet(ctx, segmentKey(run.segment(0), "head"), "sum").Result()
		if err != nil && !absent(err) {
			return nil, fmt.Errorf("read sums: %w", err)
		}
		return splitSums(sum), nil
	}
	all, err := l.rdb.Get(ctx, headerKey(run.Tenant, run.ID, "sums")).Result()
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("read sums: %w", err)
	}
	return splitSums(all), nil
}
