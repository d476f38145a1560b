package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// Progress is the state of a run and of its segments.
type Progress struct {
	Run Run
	// Segments are the existing segments of a committed run, by number.
	Segments []SegmentState
	// Missing are the numbers of segments that do not exist or differ from the committed
	// ones. They stop the run.
	Missing []int
	// Ended reports whether the run ended by this call.
	Ended bool
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

// head is how a segment was staged.
type head struct {
	sum string // in its stored form; "" if the segment does not exist
	// last reports whether it is the last of its run, awaits whether due times or results are
	// not stored yet, and committed whether it has the control of a committed run.
	last, awaits, committed bool
}

func (l *Ledger) head(ctx context.Context, seg Segment) (head, error) {
	values, err := l.rdb.HMGet(ctx, segmentKey(seg, "head"), "sum", "last", "awaits", "v").Result()
	if err != nil {
		return head{}, fmt.Errorf("read segment %s: %w", seg, err)
	}
	a := answer(values)
	return head{sum: a.text(0), last: a.text(1) == "1", awaits: a[2] != nil, committed: a[3] != nil}, nil
}

// heads returns the heads of the first n segments of a run.
func (l *Ledger) heads(ctx context.Context, run Run, n int) ([]head, error) {
	heads := make([]head, n)
	err := eachSegment(ctx, n, func(ctx context.Context, number int) (err error) {
		heads[number], err = l.head(ctx, run.segment(number))
		return err
	})
	return heads, err
}

// storedSums returns the sums of a committed run's segments in their stored form, by number.
func (l *Ledger) storedSums(ctx context.Context, run Run) ([]string, error) {
	all, err := l.rdb.Get(ctx, headerKeys(run.ID)[2]).Result()
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("read sums: %w", err)
	}
	if len(all) < run.Segments*sumBytes {
		return nil, ErrNotFound // deleted, or replaced, since the header was read
	}
	sums := make([]string, run.Segments) // it may have grown since
	for i := range sums {
		sums[i] = all[i*sumBytes : (i+1)*sumBytes]
	}
	return sums, nil
}

// Counts returns the number of settled rows by outcome, read from every segment. The sum
// in the header, [Run.Counts], costs one read and is a minute old at most.
func (l *Ledger) Counts(ctx context.Context, run Run) (Counts, error) {
	var mu sync.Mutex
	sum := Counts{}
	err := eachSegment(ctx, run.Segments, func(ctx context.Context, number int) error {
		head, err := l.rdb.HGetAll(ctx, segmentKey(run.segment(number), "head")).Result()
		if err != nil {
			return err
		}
		counts, err := countsOf(head)
		mu.Lock()
		defer mu.Unlock()
		sum.add(counts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: read counts: %w", run.ID, err)
	}
	return sum, nil
}

// countsOf returns the counters in the head of a segment.
func countsOf(head map[string]string) (Counts, error) {
	counts, read := Counts{}, numbers{hash: head}
	for field := range head {
		if outcome, ok := strings.CutPrefix(field, "n:"); ok {
			counts[Outcome(outcome)] = read.int(field)
		}
	}
	return counts, read.err
}
