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
		if errs[number] == nil || a.status() == "missing" {
			errs[number] = state.add(number, a)
		}
	}
	return state, joined("segments", errs)
}

// applyArgs returns the arguments of applyScript for a segment of that sum. Of a staged run
// it is "": the segment then takes the control if it was committed, since the header's Redis
// may have lost the commit.
func applyArgs(run Run, sum string) []any {
	return []any{run.version, run.Control.flags(), toMillis(run.Control.NotBefore), sum, run.base}
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
		c.Missing = append(c.Missing, number)
	case "newer":
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
