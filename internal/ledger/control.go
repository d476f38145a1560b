package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Pause stops the run's rows from beginning. Rows in progress may be settled, but begin no
// further request; rows with an intent are finished. The error is [ErrEnded] if the run
// has ended or was cancelled.
func (l *Ledger) Pause(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "pause", run, change{set: pausedFlag})
	return err
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, run RunID) error {
	resumed, err := l.control(ctx, "resume", run, change{clear: pausedFlag})
	if err == nil {
		_ = l.Wake(ctx, resumed.Tenant) // else the next poll finds the rows
	}
	return err
}

// Cancel settles the rows of the run as cancelled. Rows in progress and rows with an
// intent are finished, and the run ends with the last of them. It is final. A staged run
// ends without rows. The error is [ErrEnded] if the run has ended.
func (l *Ledger) Cancel(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "cancel", run, change{set: cancelledFlag})
	return err
}

// control stores the change in the header, then copies the header's control to each
// segment. If it returns an error after the first of these, a dispatcher does the rest.
func (l *Ledger) control(ctx context.Context, operation string, id RunID, c change) (Run, error) {
	run, err := l.Get(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if run.Cancelled && c.set == pausedFlag {
		err = ErrEnded
	} else {
		_, err = l.syncRun(ctx, run, c) // first the rows: the node of the tenant's lists may be away
		err = errors.Join(err, l.relist(ctx, run))
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %s: %w", id, operation, err)
	}
	return run, nil
}

// change is a change of a control's flags.
type change struct{ set, clear string }

// copyAttempts bounds the repetitions if others change the control meanwhile.
const copyAttempts = 8

// converge stores the change in the header and copies the header's control to the segments.
// If a segment has one that the header does not know, since its Redis lost it, the header
// adopts that one, with the change.
func (l *Ledger) converge(ctx context.Context, run Run, c change) (copied, error) {
	var unknown versioned
	for range copyAttempts {
		if c != (change{}) || unknown.version > 0 {
			a, err := l.onHeader(ctx, controlScript, run, c.set, c.clear, unknown.version, unknown.flags)
			if err == nil {
				run, err = parseRun(run.ID, a.hash(1))
			}
			if err != nil {
				return copied{}, err
			}
		}
		state, err := l.copyControl(ctx, run)
		if state.newest == nil {
			return state, err
		}
		unknown = *state.newest
	}
	return copied{}, ErrChanging
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
