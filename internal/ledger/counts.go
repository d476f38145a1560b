package ledger

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

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
