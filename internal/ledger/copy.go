package ledger

import (
	"context"
	"fmt"
	"slices"
)

// versioned is the control of a segment with its version.
type versioned struct {
	version int64
	flags   string
}

// copied is the state of a run's segments after its control was copied to them.
type copied struct {
	run      Run
	segments []SegmentState // the existing ones, by number
	missing  []int          // by number
	// newest is the newest control of a segment that the header as given does not know.
	newest *versioned
}

// copyControl brings every segment up to the control of the run as given. If it fails for
// some of them it returns the others and an error: a node of Redis that is away must not
// keep rows elsewhere from being stopped.
func (l *Ledger) copyControl(ctx context.Context, run Run) (copied, error) {
	state := copied{run: run}
	stored, err := l.storedSums(ctx, run)
	if err != nil {
		return copied{}, err
	}
	answers, errs := make([]answer, len(stored)), make([]error, len(stored))
	err = eachSegment(ctx, len(stored), func(ctx context.Context, number int) error {
		answers[number], errs[number] = l.onSegment(ctx, applyScript, run.segment(number),
			run.version, run.Control.flags(), toMillis(run.Control.NotBefore), stored[number], run.base)
		return ctx.Err()
	})
	if err != nil {
		return copied{}, err
	}
	for number, a := range answers {
		if errs[number] == nil || a.status() == "missing" {
			errs[number] = state.add(number, a)
		}
	}
	return state, joined("segments", errs)
}

// storedSums returns the sums of a run's segments in their stored form, by number. Of a staged run
// they are empty: a segment then takes the control if it was committed, since the
// header's Redis may have lost the commit.
func (l *Ledger) storedSums(ctx context.Context, run Run) ([]string, error) {
	if run.Staged() {
		return make([]string, run.Reserved), nil
	}
	sums, err := l.sums(ctx, run)
	if err != nil {
		return nil, err
	}
	stored := make([]string, len(sums))
	for i, s := range sums {
		stored[i] = string(s.append(nil))
	}
	return stored, nil
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
	case "missing", "differs":
		c.missing = append(c.missing, number)
	case "newer":
		read := numbers{hash: map[string]string{"version": a.text(1)}}
		v := versioned{version: read.int("version"), flags: a.text(2)}
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
	if err != nil {
		return nil, err
	}
	if len(sums) < run.Segments {
		return nil, ErrNotFound // deleted, or replaced, since the header was read
	}
	return sums[:run.Segments], nil // it may have grown since
}

// numbersOf returns the numbers of segments as arguments of a script, after the
// incarnation.
func numbersOf(run Run, numbers []int) []any {
	args := []any{string(run.Incarnation)}
	for _, n := range numbers {
		args = append(args, n)
	}
	return args
}
