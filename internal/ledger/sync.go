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
		counts[Lost] = p.Run.Rows - rows
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

// closePage is how many segments one script closes or reopens in the header: it then takes
// less than a millisecond.
const closePage = 1000

// closeSegments sets the bits of segments. It reports whether the run ended by this call,
// also if there are none, since a commit may have been cut short.
func (l *Ledger) closeSegments(ctx context.Context, run Run, closed []int) (ended bool, err error) {
	for {
		page := closed[:min(closePage, len(closed))]
		a, err := l.onHeader(ctx, closeScript, run, ints(page)...)
		if err != nil {
			return false, fmt.Errorf("close segments: %w", err)
		}
		ended = ended || a.status() == statusConcluded
		if closed = closed[len(page):]; len(closed) == 0 {
			return ended, nil
		}
	}
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
func (l *Ledger) reopenSegments(ctx context.Context, run Run, numbers []int) error {
	if len(numbers) == 0 {
		return nil
	}
	// First the list: once the header has no end, the run must be found as open.
	if _, err := l.onTenant(ctx, tenantReopenScript, run.Tenant, run.entry()); err != nil {
		return err
	}
	for page := range slices.Chunk(numbers, closePage) {
		if _, err := l.onHeader(ctx, reopenScript, run, ints(page)...); err != nil {
			return err
		}
	}
	return nil
}

// versioned is the control of a segment with its version.
type versioned struct {
	version int64
	flags   string
}

// copied is the state of a run's segments after its control was copied to them.
type copied struct {
	Progress
	// newest is the newest control of a segment that the header as given does not know.
	newest *versioned
}

// copyControl brings every segment up to the control of the run as given. If it fails for
// some of them it returns the others and an error: a node of Redis that is away must not
// keep rows elsewhere from being stopped.
func (l *Ledger) copyControl(ctx context.Context, run Run) (copied, error) {
	state := copied{Progress: Progress{Run: run}}
	stored := make([]string, run.Reserved)
	if !run.Staged() {
		var err error
		if stored, err = l.storedSums(ctx, run); err != nil {
			return copied{}, err
		}
	}
	answers, errs := make([]answer, len(stored)), make([]error, len(stored))
	err := eachSegment(ctx, len(stored), func(ctx context.Context, number int) error {
		answers[number], errs[number] = l.onSegment(ctx, applyScript, run.segment(number), applyArgs(run, stored[number])...)
		return ctx.Err()
	})
	if err != nil {
		return copied{}, err
	}
	for number, a := range answers {
		if errs[number] == nil || isNotFound(errs[number]) {
			errs[number] = state.add(number, a)
		}
	}
	return state, joined("segments", errs)
}

// applyArgs returns the arguments of applyScript for a segment of that sum. Of a staged run
// it is "": the segment then takes the control if it was committed, since the header's Redis
// may have lost the commit.
func applyArgs(run Run, sum string) []any {
	return []any{run.version, run.flags(), toMillis(run.NotBefore), sum, run.base}
}

// joined returns an error for those that are not nil, with their number and the first.
func joined(what string, errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d %s failed, the first: %w", len(errs), what, errs[0])
}

// add adds the answer of a segment's script.
func (c *copied) add(number int, a answer) error {
	switch a.status() {
	case statusMissing, statusDiffers:
		c.Missing = append(c.Missing, number)
	case statusNewer:
		read := numbers{hash: map[string]string{"version": a.text(1)}}
		v := versioned{version: read.int("version"), flags: a.text(2)}
		if c.newest == nil || v.version > c.newest.version {
			c.newest = &v
		}
		return read.err
	default:
		state, err := parseSegmentState(c.Run.segment(number), a)
		if err != nil {
			return err
		}
		c.Segments = append(c.Segments, state)
	}
	return nil
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
