package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// keepFound is how long the rows of a segment stay in the list after its commit, to stage
	// it again: longer than the second that Redis may lose.
	keepFound = 5 * time.Second
	// foundWait is how long found rows wait for others, for each segment that the run has:
	// so a scan of days that finds few rows at a time has a thousand segments a day at most.
	foundWait = 100 * time.Millisecond
	// maxFoundWait bounds that: a run of [MaxSegments] would take 20 minutes to begin its
	// last rows.
	maxFoundWait = 30 * time.Second
)

// CommitFound makes rows that a scan found available to dispatchers, and returns the run as
// it is then. Rows may wait a while for others, so that a run does not get too many
// segments. After the last step, once every row is stored and Redis cannot lose it any
// more, it commits the run finally. left reports whether something is left to do: then the
// scanner calls it again a second later, also if it has made no step since. It also calls
// it after each step, and when it takes over a run. Any number of processes may call it at
// the same time. A run that takes no more rows stays as it is.
func (l *Ledger) CommitFound(ctx context.Context, run Run) (now Run, left bool, err error) {
	for range copyAttempts {
		now, left, err = l.commitFound(ctx, run)
		if isNotFound(err) { // or Redis has just lost something else
			if now, err = l.same(ctx, run); err == nil {
				err = errPassed
			}
		}
		if !errors.Is(err, errPassed) {
			break
		}
	}
	if errors.Is(err, errPassed) {
		return now, true, nil
	}
	if err != nil {
		return Run{}, true, fmt.Errorf("run %s: commit found rows: %w", run.ID, err)
	}
	return now, left, nil
}

// commitFound commits found rows until none are to be committed now. With [errPassed] it
// returns the run as it was before.
func (l *Ledger) commitFound(ctx context.Context, run Run) (now Run, left bool, err error) {
	for {
		f, err := l.found(ctx, run)
		if err != nil || !f.run.Growing {
			return f.run, false, err
		}
		regained, err := l.regain(ctx, f.run)
		if err != nil {
			return f.run, true, err
		}
		if regained.Segments != f.run.Segments {
			continue
		}
		if err := l.secure(ctx, f); err != nil {
			return f.run, true, err
		}
		if !f.ready() {
			return l.seal(ctx, f)
		}
		if err := l.commitNext(ctx, f); err != nil {
			return f.run, true, err
		}
	}
}

// found is the state of the rows that a scan found. Their blocks are numbered from 0 on.
type found struct {
	run Run
	now time.Time
	// Blocks from staged on, and before past, are not committed. The next segment ends
	// before cut; 0: it is not decided.
	staged, past, cut int64
	rows              int64     // in these blocks
	since             time.Time // the oldest of them waits
	kept              []kept
}

// kept is a committed segment whose blocks are still in the list.
type kept struct {
	number     int
	from, past int64
	at         time.Time // when it was staged
}

// ready reports whether rows are to be committed now.
func (f found) ready() bool {
	return f.rows > 0 && (f.run.Scan.Ended || f.cut > 0 || f.rows >= SegmentRows ||
		f.now.Sub(f.since).Abs() >= min(time.Duration(f.run.Segments)*foundWait, maxFoundWait))
}

// found reads the state of a run's found rows.
func (l *Ledger) found(ctx context.Context, run Run) (found, error) {
	a, err := l.onHeader(ctx, foundScript, run, 0, 0, 0, 0)
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
	read := numbers{hash: map[string]string{
		"staged": stored[0], "past": stored[1], "cut": stored[2], "rows": stored[3], "since": stored[4],
	}}
	f.staged, f.past, f.cut, f.rows, f.since = read.int("staged"), read.int("past"), read.int("cut"),
		read.int("rows"), read.time("since")
	f.kept, err = parseKept(stored[5])
	return f, cmp.Or(read.err, err)
}

// parseKept reads segments as <number>,<first block>,<behind the last>,<time in ms>; each.
func parseKept(text string) (all []kept, err error) {
	for part := range strings.SplitSeq(strings.TrimSuffix(text, ";"), ";") {
		if part == "" {
			continue
		}
		var n [4]int64
		fields := strings.Split(part, ",")
		for i := range n {
			if len(fields) != len(n) {
				return nil, fmt.Errorf("kept segment %s: want %d numbers", quoted(part), len(n))
			}
			if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
				return nil, fmt.Errorf("kept segment %s: %w", quoted(part), err)
			}
		}
		all = append(all, kept{number: int(n[0]), from: n[1], past: n[2], at: fromMillis(n[3])})
	}
	return all, nil
}

// blocks calls f with the rows of each block from a number on, up to past, until it returns
// false. The error is [errPassed] if the blocks are not in the list any more.
func (l *Ledger) blocks(ctx context.Context, run Run, from, past int64, f func([]FoundRow) bool) error {
	for from < past {
		a, err := l.onHeader(ctx, foundScript, run, from, past, scriptRows, scriptBytes)
		if err != nil {
			return err
		}
		page := a.list(4).texts()
		if len(page) == 0 {
			return errPassed
		}
		for i, block := range page {
			rows, err := unpackFound(block)
			if err != nil {
				return fmt.Errorf("block %d: %w", from+int64(i), err)
			}
			if !f(rows) {
				return nil
			}
		}
		from += int64(len(page))
	}
	return nil
}

// rowsIn returns the rows of the blocks from a number on, up to past.
func (l *Ledger) rowsIn(ctx context.Context, run Run, from, past int64) (all []FoundRow, err error) {
	err = l.blocks(ctx, run, from, past, func(rows []FoundRow) bool {
		all = append(all, rows...)
		return true
	})
	return all, err
}

// next returns the rows of the next segment, and the number behind its last block. The
// choice of the first caller is stored in the header, so that all stage the same.
func (l *Ledger) next(ctx context.Context, f found) (rows []FoundRow, past int64, err error) {
	if f.cut > 0 {
		rows, err = l.rowsIn(ctx, f.run, f.staged, f.cut)
		return rows, f.cut, err
	}
	past, size := f.staged, 0
	err = l.blocks(ctx, f.run, f.staged, f.past, func(block []FoundRow) bool {
		for _, r := range block {
			size += len(r.Content)
		}
		if past > f.staged && (len(rows)+len(block) > SegmentRows || size > segmentBytes) {
			return false
		}
		rows, past = append(rows, block...), past+1
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	a, err := l.onHeader(ctx, cutScript, f.run, f.run.Segments, f.staged, past)
	if err == nil && a.int(1) != past {
		err = errPassed
	}
	return rows, past, err
}

// commitNext stages and commits the next segment of found rows.
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
	if isMismatch(err) { // others have committed it, or the header has lost its commit
		return errPassed
	}
	if err == nil {
		err = l.addPart(ctx, f.run, s.packed.sum, f.staged, past, false)
	}
	if err != nil {
		return err
	}
	return l.publish(ctx, f.run)
}

// addPart commits the next segment in the header, with these blocks. again says that it was
// committed before.
func (l *Ledger) addPart(ctx context.Context, run Run, sum Sum, from, past int64, again bool) error {
	_, err := l.onHeader(ctx, partScript, run, run.Segments, sum.stored(), sum.Rows,
		from, past, flag(again))
	return err
}

// publish has dispatchers find the rows of a segment that was committed.
func (l *Ledger) publish(ctx context.Context, run Run) error {
	_, err := l.Sync(ctx, run.ID)
	_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	return err
}

// seal commits a run finally if its scan has ended and nothing is left to do.
func (l *Ledger) seal(ctx context.Context, f found) (now Run, left bool, err error) {
	// Read again: blocks may have left the list.
	if f, err = l.found(ctx, f.run); err != nil {
		return Run{}, false, err
	}
	if !f.run.Growing || f.rows > 0 || len(f.kept) > 0 || !f.run.Scan.Ended {
		return f.run, f.run.Growing && (f.rows > 0 || len(f.kept) > 0), nil
	}
	if _, err = l.onHeader(ctx, sealScript, f.run); err != nil {
		return f.run, true, err
	}
	if err = l.publish(ctx, f.run); err != nil {
		return Run{}, false, err
	}
	if now, err = l.Get(ctx, f.run.ID); err != nil || !now.Ended() {
		return now, now.Growing, err
	}
	// All rows were settled before, or there are none: the dispatcher would find the end of
	// the run with its next rebuild only.
	end := Hint{Segment: now.segment(max(now.Segments-1, 0)), Due: f.now}
	return now, false, l.Hint(ctx, now.Tenant, end)
}

// secure stages segments again that Redis has lost since their commit, and completes
// commits that were cut short. Of segments that Redis cannot lose any more it removes the
// blocks.
func (l *Ledger) secure(ctx context.Context, f found) error {
	if len(f.kept) == 0 {
		return nil
	}
	sums, err := l.storedSums(ctx, f.run)
	if err != nil {
		return err
	}
	var args []any
	incomplete := false
	for _, k := range f.kept {
		h, err := l.head(ctx, f.run.segment(k.number))
		switch {
		case err != nil:
			return err
		case k.number >= len(sums) || h.sum != sums[k.number] || h.awaits:
			restaged, err := l.restage(ctx, f.run, k)
			if err != nil {
				return err
			}
			args = append(args, k.number, flag(restaged))
			incomplete = true
		case !h.committed:
			incomplete = true
		case f.now.Sub(k.at).Abs() >= keepFound:
			args = append(args, k.number, 0)
		}
	}
	if len(args) > 0 {
		if _, err := l.onHeader(ctx, keptScript, f.run, args...); err != nil {
			return err
		}
	}
	if incomplete {
		return l.publish(ctx, f.run)
	}
	return nil
}

// restage stages a segment again. It reports whether it could: there are other rows if
// Redis has lost more than it may, and then the run stays incomplete.
func (l *Ledger) restage(ctx context.Context, run Run, k kept) (bool, error) {
	rows, err := l.rowsIn(ctx, run, k.from, k.past)
	if errors.Is(err, errPassed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, err := stageFound(k.number, rows)
	if err == nil {
		err = l.stage(ctx, run, s)
	}
	if isMismatch(err) {
		return false, nil
	}
	return err == nil, err
}

// regain commits, in the header of a run with a scan, segments behind its last one that were
// committed before: the header's node of Redis has lost that. It returns the run as it is
// then; with an error, as it was given.
func (l *Ledger) regain(ctx context.Context, run Run) (Run, error) {
	now := run
	for now.Scan != nil && !now.Ended() && now.Segments < MaxSegments {
		h, err := l.head(ctx, now.segment(now.Segments))
		if err != nil {
			return run, err
		}
		if !h.committed {
			break
		}
		sum, err := parseSum(h.sum)
		if err == nil {
			err = l.regainNext(ctx, now, sum)
		}
		before := now.Segments
		if err == nil {
			now, err = l.same(ctx, now)
		}
		if err != nil {
			return run, err
		}
		if now.Segments == before {
			break
		}
	}
	return now, nil
}

// regainNext commits the next segment as it is. If its rows are the first that are not
// committed, these are committed by it; else they are committed by the next one: a row that is
// found twice does no harm.
func (l *Ledger) regainNext(ctx context.Context, run Run, sum Sum) error {
	f, err := l.found(ctx, run)
	if err != nil {
		return err
	}
	past := f.staged
	if f.run.Growing {
		var rows []FoundRow
		end := f.staged
		err := l.blocks(ctx, f.run, f.staged, f.past, func(block []FoundRow) bool {
			rows, end = append(rows, block...), end+1
			if len(rows) == sum.Rows {
				if s, err := stageFound(0, rows); err == nil && s.packed.sum == sum {
					past = end
				}
			}
			return len(rows) < sum.Rows
		})
		if err != nil && !errors.Is(err, errPassed) {
			return err
		}
	}
	err = l.addPart(ctx, run, sum, f.staged, past, true)
	if errors.Is(err, errPassed) {
		return nil // the run is read again
	}
	return err
}
