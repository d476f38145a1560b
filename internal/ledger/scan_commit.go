package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// foundWait is how long found rows wait for others, for each segment that the run has:
	// so a scan of days that finds few rows at a time has a thousand segments a day at most.
	foundWait = 100 * time.Millisecond
	// maxFoundWait bounds that: a run of [MaxSegments] would take 20 minutes to begin its
	// last rows.
	maxFoundWait = 30 * time.Second
)

// CommitFound makes rows that a scan found available to dispatchers, and returns the run as
// it is then. Rows may wait a while for others, so that a run does not get too many
// segments. After the last step, once every row is committed, it commits the run finally. left
// reports whether something is left to do: then the scanner calls it again a second later, also if
// it has made no step since. It also calls it after each step, and when it takes over a run. Any
// number of processes may call it at the same time. A run that takes no more rows stays as it is.
func (l *Ledger) CommitFound(ctx context.Context, run Run) (now Run, left bool, err error) {
	defer wrap(&err, "run %s: commit found rows", run.ID)
	for committed := false; ; committed = true {
		f, err := l.found(ctx, run)
		if err == nil && committed {
			_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
		}
		switch {
		case err != nil:
			return Run{}, true, err
		case !f.run.Growing:
			return f.run, false, nil
		case f.ready():
			err = l.commitNext(ctx, f)
		case f.rows > 0 || !f.run.Scan.Ended:
			return f.run, f.rows > 0, nil
		default:
			_, err = l.onHeader(ctx, sealScript, f.run)
		}
		if errors.Is(err, errPassed) { // another process has committed them
			now, err := l.same(ctx, run)
			return now, true, err
		}
		if err != nil {
			return Run{}, true, err
		}
	}
}

// found is the state of the rows that a scan found. Their blocks are numbered from 0 on.
type found struct {
	run Run
	now time.Time
	// Blocks from first on, and before past, are not committed.
	first, past int64
	rows        int64     // in these blocks
	since       time.Time // the oldest of them waits
}

// ready reports whether rows are to be committed now.
func (f found) ready() bool {
	return f.rows > 0 && (f.run.Scan.Ended || f.rows >= SegmentRows ||
		f.now.Sub(f.since).Abs() >= min(time.Duration(f.run.Segments)*foundWait, maxFoundWait))
}

// found reads the state of a run's found rows.
func (l *Ledger) found(ctx context.Context, run Run) (found, error) {
	a, err := l.onHeader(ctx, foundScript, run, 0, 0, 0)
	if err != nil {
		return found{}, err
	}
	f := found{now: fromMillis(a.int(1))}
	if f.run, err = parseRun(run.ID, a.hash(2)); err != nil {
		return found{}, err
	}
	if f.run.Scan == nil {
		return found{}, errNoScan
	}
	stored := a.list(3).texts()
	read := numbers{hash: map[string]string{"first": stored[0], "past": stored[1], "rows": stored[2], "since": stored[3]}}
	f.first, f.past, f.rows, f.since = read.int("first"), read.int("past"), read.int("rows"), read.time("since")
	return f, read.err
}

// next returns the rows of the next segment, and the number behind its last block.
func (l *Ledger) next(ctx context.Context, f found) (rows []FoundRow, past int64, err error) {
	past = f.first
	for size := 0; ; {
		a, err := l.onHeader(ctx, foundScript, f.run, past, scriptRows, scriptBytes)
		if err != nil {
			return nil, 0, err
		}
		page := a.list(4).texts()
		if len(page) == 0 {
			return rows, past, nil
		}
		for _, stored := range page {
			block, err := unpackFound(stored)
			if err != nil {
				return nil, 0, fmt.Errorf("block %d: %w", past, err)
			}
			for _, r := range block {
				size += len(r.Content)
			}
			if len(rows) > 0 && (len(rows)+len(block) > SegmentRows || size > segmentBytes) {
				return rows, past, nil
			}
			rows, past = append(rows, block...), past+1
		}
	}
}

// commitNext stages and commits the next segment of found rows. The error is errPassed if another
// process has committed any of them.
func (l *Ledger) commitNext(ctx context.Context, f found) error {
	if f.run.Segments >= MaxSegments {
		return fmt.Errorf("want at most %d segments", MaxSegments)
	}
	rows, past, err := l.next(ctx, f)
	if err != nil {
		return err
	}
	s, err := stageFound(f.run.Segments, rows)
	if err == nil {
		err = l.stage(ctx, f.run, s)
	}
	if isMismatch(err) {
		return errPassed
	}
	if err == nil {
		_, err = l.onHeader(ctx, partScript, f.run, s.number, s.packed.sum.stored(), s.packed.sum.Rows, f.first, past)
	}
	return err
}
