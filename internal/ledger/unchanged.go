package ledger

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// unchangedPage is how many runs of one row are inspected in one round trip.
const unchangedPage = 100

// unchanged returns, by entry, the segments of those runs of one row for which
// [Ledger.Sync] would do no more than hint when they are due: header and segment agree. A
// tenant may have tens of thousands of these, and to sync one takes several round trips.
// A run of which that is not certain, for example since Redis does not answer, is left out.
func (l *Ledger) unchanged(ctx context.Context, runs []Run) map[string]SegmentState {
	found := map[string]SegmentState{}
	var page []Run
	for i, run := range runs {
		if run.Rows == 1 && run.Segments == 1 && !run.Growing && !run.Incomplete && run.DeletingAt.IsZero() {
			page = append(page, run)
		}
		if len(page) == unchangedPage || i == len(runs)-1 && len(page) > 0 {
			l.addUnchanged(ctx, page, found)
			page = page[:0]
		}
	}
	return found
}

// addUnchanged adds the segments of a page of runs, in two round trips.
func (l *Ledger) addUnchanged(ctx context.Context, page []Run, found map[string]SegmentState) {
	closed, sums := make([]*redis.IntCmd, len(page)), make([]*redis.StringCmd, len(page))
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
		for i, run := range page {
			keys := headerKeys(run.ID)
			closed[i], sums[i] = p.GetBit(ctx, keys[1], 0), p.Get(ctx, keys[2])
		}
		return nil
	})
	answers := make([]*redis.Cmd, len(page))
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, run := range page {
			if closed[i].Err() == nil && len(sums[i].Val()) == sumBytes {
				answers[i] = applyScript.EvalSha(ctx, p, segmentKeys(run.segment(0)), applyArgs(run, sums[i].Val())...)
			}
		}
		return nil
	})
	for i, run := range page {
		if answers[i] == nil {
			continue
		}
		values, err := answers[i].Slice()
		state := copied{Progress: Progress{Run: run}}
		if err != nil || state.add(0, answer(values)) != nil || len(state.Segments) == 0 {
			continue
		}
		s := state.Segments[0]
		settled := int64(flag(s.Closed()))
		if s.Closed() == run.Ended() && closed[i].Val() == settled && run.Counts.Settled() == settled {
			found[run.entry()] = s
		}
	}
}
