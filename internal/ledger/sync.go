package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

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
	run, failed := l.regain(ctx, run)
	// Read before the segments: a segment that is open after its bit was set has lost
	// rows.
	bits, err := l.closedBits(ctx, run)
	if err != nil {
		return Progress{}, err
	}
	state, err := l.converge(ctx, run)
	if err = errors.Join(failed, err); err != nil {
		return Progress{}, errors.Join(err, l.hint(ctx, state))
	}
	if incomplete := len(state.missing) > 0; incomplete != state.run.Control.Incomplete && !state.run.Ended() {
		c := change{clear: incompleteFlag}
		if incomplete {
			c = change{set: incompleteFlag}
		}
		state, err = l.applyChange(ctx, state.run, c)
		if errors.Is(err, ErrEnded) { // since it was read
			return l.sync(ctx, id)
		}
		if err != nil {
			return Progress{}, err
		}
	}
	ended, err := l.conclude(ctx, state, bits)
	if err != nil {
		return Progress{}, err
	}
	if run, err = l.Get(ctx, id); err != nil {
		return Progress{}, err
	}
	return Progress{Run: run, Segments: state.segments, Missing: state.missing, Ended: ended}, nil
}

// converge copies the header's control to the segments. If a segment has one that the
// header does not know, since its Redis lost it, the header adopts it first.
func (l *Ledger) converge(ctx context.Context, run Run) (copied, error) {
	for range copyAttempts {
		state, err := l.copyControl(ctx, run)
		if state.newest == nil {
			return state, err
		}
		a, err := l.onHeader(ctx, adoptScript, run.ID, string(run.Incarnation), state.newest.version, state.newest.flags)
		if err == nil {
			run, err = parseRun(run.ID, a.hash(1))
		}
		if err != nil {
			return copied{}, err
		}
	}
	return copied{}, ErrChanging
}

// conclude stores in the header which segments are closed and the sum of the counters,
// and in the tenant's index when the others are due. bits are the segments that the
// header had as closed before the segments were read. Of a cancelled run a missing
// segment counts as closed, its rows as lost.
func (l *Ledger) conclude(ctx context.Context, c copied, bits string) (ended bool, err error) {
	if c.run.Staged() {
		return false, nil
	}
	counts := Counts{}
	var closed, open []int
	for _, s := range c.segments {
		counts.add(s.Counts)
		if s.Closed() && !bit(bits, s.Segment.Number) {
			closed = append(closed, s.Segment.Number)
		}
		if !s.Closed() {
			open = append(open, s.Segment.Number)
		}
	}
	if len(c.missing) > 0 && (c.run.Control.Cancelled || c.run.Ended()) {
		for _, n := range c.missing {
			if !bit(bits, n) {
				closed = append(closed, n)
			}
		}
		counts[Lost] = c.run.Rows - rowsOf(c.segments)
	}
	if err := l.reopenSegments(ctx, c.run, bits, open); err != nil {
		return false, err
	}
	if _, err := l.onHeader(ctx, countsScript, c.run.ID, string(c.run.Incarnation), counts.String(), counts.Settled()); err != nil {
		return false, err
	}
	if ended, err = l.closeSegments(ctx, c.run, closed); err != nil {
		return false, err
	}
	return ended, l.hint(ctx, c)
}

// closePage is how many segments one script closes or reopens in the header: it then takes
// less than a millisecond.
const closePage = 1000

// closeSegments sets the bits of segments. It reports whether the run ended by this call,
// also if there are none, since a commit may have been cut short.
func (l *Ledger) closeSegments(ctx context.Context, run Run, closed []int) (ended bool, err error) {
	for {
		page := closed[:min(closePage, len(closed))]
		a, err := l.onHeader(ctx, closeScript, run.ID, numbersOf(run, page)...)
		if err != nil {
			return false, err
		}
		ended = ended || a.status() == "concluded"
		if closed = closed[len(page):]; len(closed) == 0 {
			return ended, nil
		}
	}
}

func rowsOf(segments []SegmentState) (n int64) {
	for _, s := range segments {
		n += int64(s.Rows)
	}
	return n
}

// closedBits returns the bitmap of the segments that the header has as closed.
func (l *Ledger) closedBits(ctx context.Context, run Run) (string, error) {
	bits, err := l.rdb.Get(ctx, headerKeys(run.ID)[1]).Result()
	if err != nil && !absent(err) {
		return "", fmt.Errorf("read closed segments: %w", err)
	}
	return bits, nil
}

// reopenSegments clears the bits of open segments that the header has as closed: their
// Redis has lost how rows were settled.
func (l *Ledger) reopenSegments(ctx context.Context, run Run, bits string, open []int) error {
	var wrong []int
	for _, n := range open {
		if bit(bits, n) {
			wrong = append(wrong, n)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	// First the list: once the header has no end, the run must be found as open.
	if _, err := l.onTenant(ctx, tenantReopenScript, run.Tenant, run.entry()); err != nil {
		return err
	}
	for page := range slices.Chunk(wrong, closePage) {
		if _, err := l.onHeader(ctx, reopenScript, run.ID, numbersOf(run, page)...); err != nil {
			return err
		}
	}
	return nil
}
