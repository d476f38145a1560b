package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Sync brings the segments of a run up to its header and the header up to its segments:
// control, ended segments, the sum of the counters, and whether segments are missing.
// Any dispatcher may call it at any time. It completes interrupted operations.
func (l *Ledger) Sync(ctx context.Context, id RunID) (Progress, error) {
	p, err := l.sync(ctx, id)
	if err == nil {
		err = l.relist(ctx, p.Run)
	}
	if err != nil {
		return Progress{}, fmt.Errorf("run %s: sync: %w", id, err)
	}
	return p, nil
}

func (l *Ledger) sync(ctx context.Context, id RunID) (Progress, error) {
	run, err := l.Get(ctx, id)
	if err != nil || run.Staged() {
		return Progress{Run: run}, err
	}
	p, err := l.syncRun(ctx, run, change{})
	if errors.Is(err, ErrEnded) { // since it was read
		return l.sync(ctx, id)
	}
	if err == nil {
		p.Run, err = l.Get(ctx, id)
	}
	if err != nil {
		return Progress{}, err
	}
	return p, nil
}

// syncRun stores a change of the control, and syncs the run as it was read.
func (l *Ledger) syncRun(ctx context.Context, run Run, c change) (Progress, error) {
	run, failed := l.regain(ctx, run)
	// Read before the segments: a segment that is open after its bit was set has lost
	// rows.
	bits, err := l.closedBits(ctx, run)
	if err != nil {
		return Progress{}, err
	}
	state, err := l.converge(ctx, run, c)
	if err = errors.Join(failed, err); err != nil {
		return Progress{}, errors.Join(err, l.hint(ctx, state.Progress))
	}
	if state.Run.Staged() {
		return state.Progress, nil
	}
	if incomplete := len(state.Missing) > 0; incomplete != state.Run.Incomplete && !state.Run.Ended() {
		c := change{clear: incompleteFlag}
		if incomplete {
			c = change{set: incompleteFlag}
		}
		if state, err = l.converge(ctx, state.Run, c); err != nil {
			return Progress{}, err
		}
	}
	p := state.Progress
	p.Ended, err = l.conclude(ctx, p, bits)
	return p, err
}

// Finish stores that the follow-ups of a run's end, such as notifications, are done. The
// dispatcher calls it after them. Until then [Ledger.OpenRuns] returns the run, so that
// another dispatcher repeats follow-ups that were interrupted. The error is [ErrOpen] if
// the run has not ended.
func (l *Ledger) Finish(ctx context.Context, id RunID) (err error) {
	defer wrap(&err, "run %s: finish", id)
	p, err := l.sync(ctx, id) // stores the final counts
	if err != nil {
		return err
	}
	_, err = l.onHeader(ctx, finishScript, p.Run)
	return err
}

// conclude stores in the header which segments are closed and the sum of the counters,
// and in the tenant's index when the others are due. bits are the segments that the
// header had as closed before the segments were read. Of a cancelled run a missing
// segment counts as closed, its rows as lost.
func (l *Ledger) conclude(ctx context.Context, p Progress, bits string) (ended bool, err error) {
	counts := Counts{}
	var closed, reopened []int
	var rows int64
	for _, s := range p.Segments {
		counts.add(s.Counts)
		rows += int64(s.Rows)
		switch n := s.Segment.Number; {
		case s.Closed() && !bit(bits, n):
			closed = append(closed, n)
		case !s.Closed() && bit(bits, n):
			reopened = append(reopened, n)
		}
	}
	if len(p.Missing) > 0 && (p.Run.Cancelled || p.Run.Ended()) {
		for _, n := range p.Missing {
			if !bit(bits, n) {
				closed = append(closed, n)
			}
		}
		counts[Missing] = p.Run.Rows - rows
	}
	if err := l.reopenSegments(ctx, p.Run, reopened); err != nil {
		return false, err
	}
	if _, err := l.onHeader(ctx, countsScript, p.Run, counts.String(), counts.Settled()); err != nil {
		return false, err
	}
	if ended, err = l.closeSegments(ctx, p.Run, closed); err != nil {
		return false, err
	}
	return ended, l.hint(ctx, p)
}

// unchangedPage is how many runs of one row are inspected in one round trip.
const unchangedPage = 100

// hasOneRow reports whether the run has one row, and its segment is not missing.
func (r Run) hasOneRow() bool {
	return r.Rows == 1 && r.Segments == 1 && !r.Growing && !r.Incomplete && r.DeletingAt.IsZero()
}

// plain reports whether the run has one row, is open, and has the control with which it was
// created.
func (r Run) plain() bool { return r.hasOneRow() && !r.Ended() && r.base == r.version }

// unchanged returns, by entry, the segments of those runs of one row for which
// [Ledger.Sync] would do no more than hint when they are due: header and segment agree. A
// tenant may have tens of thousands of these, and to sync one takes several round trips.
// A run of which that is not certain, for example since Redis does not answer, is left out.
func (l *Ledger) unchanged(ctx context.Context, runs []Run) map[string]SegmentState {
	found := map[string]SegmentState{}
	var page []Run
	for i, run := range runs {
		if run.hasOneRow() {
			page = append(page, run)
		}
		if ctx.Err() == nil && (len(page) == unchangedPage || i == len(runs)-1 && len(page) > 0) {
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
