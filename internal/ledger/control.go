package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Control is the intended state of a run. While it is paused, held, incomplete or not
// yet to start, its rows do not begin, apart from those with an intent.
type Control struct {
	// Paused is set by people.
	Paused bool
	// Held is set by programs, such as a sweep's evaluation that found too much.
	Held bool
	// Cancelled settles every row that has not begun. It is final.
	Cancelled bool
	// Incomplete is set while segments are missing: see [MissingError].
	Incomplete bool
	// NotBefore is when rows may begin, in Redis' time; zero: at once.
	NotBefore time.Time
}

// The letters by which a control's flags are stored.
const (
	pausedFlag     = "p"
	heldFlag       = "h"
	cancelledFlag  = "c"
	incompleteFlag = "i"
)

func (c Control) flags() string {
	var flags strings.Builder
	for _, f := range []struct {
		set    bool
		letter string
	}{{c.Paused, pausedFlag}, {c.Held, heldFlag}, {c.Cancelled, cancelledFlag}, {c.Incomplete, incompleteFlag}} {
		if f.set {
			flags.WriteString(f.letter)
		}
	}
	return flags.String()
}

func parseControl(flags string, notBefore int64) Control {
	return Control{
		Paused:     strings.Contains(flags, pausedFlag),
		Held:       strings.Contains(flags, heldFlag),
		Cancelled:  strings.Contains(flags, cancelledFlag),
		Incomplete: strings.Contains(flags, incompleteFlag),
		NotBefore:  fromMillis(notBefore),
	}
}

// change is a change of a control.
type change struct {
	set, clear string
	notBefore  *time.Time // nil: unchanged
}

// Pause stops the run's rows from beginning. Rows in progress and rows with an intent
// are finished. The error is [ErrEnded] if the run has ended.
func (l *Ledger) Pause(ctx context.Context, run RunID) error {
	return l.control(ctx, "pause", run, change{set: pausedFlag})
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, run RunID) error {
	return l.control(ctx, "resume", run, change{clear: pausedFlag})
}

// Hold stops the run's rows from beginning, as [Ledger.Pause] does, for a program's
// reason. [Ledger.Resume] does not undo it.
func (l *Ledger) Hold(ctx context.Context, run RunID) error {
	return l.control(ctx, "hold", run, change{set: heldFlag})
}

// Unhold undoes [Ledger.Hold].
func (l *Ledger) Unhold(ctx context.Context, run RunID) error {
	return l.control(ctx, "unhold", run, change{clear: heldFlag})
}

// Postpone sets when the run's rows may begin, in Redis' time; the zero time is at once.
func (l *Ledger) Postpone(ctx context.Context, run RunID, notBefore time.Time) error {
	return l.control(ctx, "postpone", run, change{notBefore: &notBefore})
}

// Cancel settles every row of the run as cancelled, apart from those in progress and
// those with an intent: they are finished, and the run ends with the last of them.
// The error is [ErrStaged] if the run is not committed, [ErrEnded] if it has ended.
func (l *Ledger) Cancel(ctx context.Context, run RunID) error {
	return l.control(ctx, "cancel", run, change{set: cancelledFlag})
}

// control stores the change in the header, then copies the header's control to each
// segment. If it returns an error after the first of these, a dispatcher does the rest.
func (l *Ledger) control(ctx context.Context, operation string, id RunID, c change) error {
	if err := l.tryControl(ctx, id, c); err != nil {
		return fmt.Errorf("run %s: %s: %w", id, operation, err)
	}
	return nil
}

func (l *Ledger) tryControl(ctx context.Context, id RunID, c change) error {
	run, err := l.Get(ctx, id)
	if err != nil {
		return err
	}
	bits, err := l.closedBits(ctx, run)
	if err != nil {
		return err
	}
	// First up to date, so that the change does not hide one that a Redis has lost.
	state, err := l.converge(ctx, run)
	if err != nil {
		return err
	}
	if state, err = l.applyChange(ctx, state.run, c); err != nil {
		return err
	}
	_, err = l.conclude(ctx, state, bits)
	return err
}

// applyChange stores the change and copies it. A segment whose control is newer than the
// header's is one that a Redis remembers better than another: the change is then
// stored once more, as the newest.
func (l *Ledger) applyChange(ctx context.Context, run Run, c change) (copied, error) {
	var above int64
	for range copyAttempts {
		changed, err := l.storeChange(ctx, run, c, above)
		if err != nil {
			return copied{}, err
		}
		state, err := l.copyControl(ctx, changed)
		if err != nil || state.newest == nil {
			return state, err
		}
		above = state.newest.version
	}
	return copied{}, ErrUnsettled
}

// copyAttempts bounds how often a control is copied anew since others change it.
const copyAttempts = 8

// storeChange changes the control in the header, to a version above the one given, and
// returns the run as it is then.
func (l *Ledger) storeChange(ctx context.Context, run Run, c change, above int64) (Run, error) {
	notBefore := ""
	if c.notBefore != nil {
		notBefore = fmt.Sprint(toMillis(*c.notBefore))
	}
	a, err := l.onHeader(ctx, controlScript, run.ID, string(run.Incarnation), c.set, c.clear, notBefore, above)
	if err != nil {
		return Run{}, err
	}
	return parseRun(run.ID, a.hash(1))
}

// versioned is the control of a segment with its version.
type versioned struct {
	version   int64
	flags     string
	notBefore int64
}

// copied is the state of a run's segments after its control was copied to them.
type copied struct {
	run      Run
	segments []SegmentState // of all that exist, by number
	missing  []int          // by number
	// newest is the newest control of a segment that has a newer one than the header.
	newest *versioned
}

// copyControl brings every segment up to the control of the run as given.
func (l *Ledger) copyControl(ctx context.Context, run Run) (copied, error) {
	if run.CommittedAt.IsZero() {
		return copied{run: run}, nil
	}
	sums, err := l.sums(ctx, run)
	if err != nil {
		return copied{}, err
	}
	answers := make([]answer, len(sums))
	err = eachSegment(ctx, len(sums), func(ctx context.Context, number int) error {
		a, err := l.onSegment(ctx, applyScript, run.segment(number),
			run.version, run.Control.flags(), toMillis(run.Control.NotBefore), sums[number].append(nil))
		answers[number] = a
		if a.status() == "missing" {
			return nil
		}
		return err
	})
	if err != nil {
		return copied{}, err
	}
	state := copied{run: run}
	for number, a := range answers {
		if err := state.add(number, a); err != nil {
			return copied{}, err
		}
	}
	return state, nil
}

// add takes in what a segment answered.
func (c *copied) add(number int, a answer) error {
	switch a.status() {
	case "missing", "differs":
		c.missing = append(c.missing, number)
	case "newer":
		read := numbers{hash: map[string]string{"version": a.text(1), "not before": a.text(3)}}
		v := versioned{version: read.int("version"), flags: a.text(2), notBefore: read.int("not before")}
		if c.newest == nil || v.version > c.newest.version {
			c.newest = &v
		}
		return read.err
	default:
		state, err := parseSegmentState(c.run.segment(number), a)
		if err != nil {
			return err
		}
		c.segments = append(c.segments, state)
	}
	return nil
}

// sums returns the sums of a committed run's segments, by number.
func (l *Ledger) sums(ctx context.Context, run Run) ([]Sum, error) {
	stored, err := l.rdb.Get(ctx, headerKeys(run.ID)[2]).Result()
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("read sums: %w", err)
	}
	sums, err := parseSums(stored)
	if err == nil && len(sums) != run.Segments {
		err = ErrNotFound // deleted, or replaced, since the header was read
	}
	return sums, err
}

// SegmentState is the state of a committed segment.
type SegmentState struct {
	Segment Segment
	// Due is when the dispatcher is to inspect the segment, in Redis' time: in the past
	// if rows are due, zero if nothing becomes due by itself.
	Due time.Time
	// Rows is the number of rows, and Next the first that was never released.
	Rows, Next int
	// Settled, Waiting, Released and Running are numbers of rows.
	Settled, Waiting, Released, Running int
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
		Rows: int(read.int("rows")), Next: int(read.int("next")), Settled: int(read.int("settled")),
		Waiting: int(a.int(3)), Released: int(a.int(4)), Running: int(a.int(5)),
	}
	counts, err := countsOf(head)
	if err = errors.Join(err, read.err); err != nil {
		return SegmentState{}, fmt.Errorf("segment %s: stored head: %w", seg, err)
	}
	s.Counts = counts
	return s, nil
}

// numbersOf returns the numbers of segments as arguments of a script, after the
// incarnation.
func numbersOf(run Run, numbers []int) []any {
	args := []any{string(run.Incarnation)}
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		args = append(args, n)
	}
	return args
}
