package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxCursor bounds the cursor of a scan in bytes.
const maxCursor = 128 << 10

// ScanStep is a step of a scan.
type ScanStep struct {
	// Number is the [Scan.Step] with which the step began.
	Number int64
	// Progress replaces that of the scan, at most 16 KiB, and Cursor its cursor, at most
	// 128 KiB: where the next step begins.
	Progress, Cursor []byte
	// Rows are the rows that the step found.
	Rows []FoundRow
	// Last ends the scan.
	Last bool
}

// ScanCursor returns the scan of a run, with the cursor of the same step: nil before the
// first, and once the run takes no more rows.
func (l *Ledger) ScanCursor(ctx context.Context, run Run) (s Scan, cursor []byte, err error) {
	a, err := l.onHeader(ctx, cursorScript, run)
	if err == nil {
		run, err = parseRun(run.ID, a.hash(1))
	}
	if err == nil && run.Scan == nil {
		err = errNoScan
	}
	if err != nil {
		return Scan{}, nil, fmt.Errorf("run %s: read the scan: %w", run.ID, err)
	}
	if text, ok := a[2].(string); ok {
		cursor = []byte(text)
	}
	return *run.Scan, cursor, nil
}

// AddStep stores a step of a scan, with all its rows or not at all. Only a step with the
// number of the next one is stored, so that several scanners do no harm. made is false if
// that step is stored already, possibly by this call, whose answer was lost, if another
// call is about to store it, or if the run takes no more rows: it was cancelled, or its scan
// has ended. The scanner then reads the scan again. The rows are not released before
// [Ledger.CommitFound].
func (l *Ledger) AddStep(ctx context.Context, run Run, s ScanStep) (made bool, err error) {
	defer wrap(&err, "run %s: step %d", run.ID, s.Number)
	if err := s.validate(); err != nil {
		return false, err
	}
	blocks, err := packFound(s.Rows)
	if err != nil {
		return false, err
	}
	token := random()
	parts := slices.Collect(pages(blocks, len(blocks), partBytes, byteSize))
	if len(parts) == 0 {
		parts = [][][]byte{nil}
	}
	sent := 0
	for i, part := range parts { // the last one makes the step
		last := i == len(parts)-1
		args := []any{s.Number, token, sent, flag(last), flag(s.Last), len(s.Rows), s.Progress, s.Cursor}
		for _, block := range part {
			args = append(args, block)
		}
		_, err := l.onHeader(ctx, stepScript, run, args...)
		if errors.Is(err, errPassed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		sent += len(part)
	}
	return true, nil
}

func (s ScanStep) validate() error {
	if n := len(s.Progress); n > maxProgress {
		return fmt.Errorf("progress of %d bytes: want at most %d", n, maxProgress)
	}
	if n := len(s.Cursor); n > maxCursor {
		return fmt.Errorf("cursor of %d bytes: want at most %d", n, maxCursor)
	}
	for i, r := range s.Rows {
		if err := r.validate(); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// NoteScan stores why the next step of a scan is late, and when it is to be made. The next
// step removes the note, of which at most 200 characters are stored.
func (l *Ledger) NoteScan(ctx context.Context, run Run, note string, next time.Time) error {
	_, err := l.onHeader(ctx, noteScript, run, truncated(note), toMillis(next))
	if err != nil {
		return fmt.Errorf("run %s: note of the scan: %w", run.ID, err)
	}
	return nil
}
