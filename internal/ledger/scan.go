package ledger

import (
	"context"
	"encoding/binary"
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
	rows, keys, err := l.unseen(ctx, run, s.Rows)
	if err != nil {
		return false, err
	}
	blocks, err := packFound(rows)
	if err != nil {
		return false, err
	}
	token := random()
	parts := slices.Collect(pages(blocks, len(blocks), scriptBytes, byteSize))
	if len(parts) == 0 {
		parts = [][][]byte{nil}
	}
	sent := 0
	for i, part := range parts { // the last one makes the step
		last := i == len(parts)-1
		args := []any{s.Number, token, sent, flag(last), flag(s.Last), len(rows), s.Progress, s.Cursor}
		if last {
			args = append(append(args, len(keys)), keys...)
		} else {
			args = append(args, 0)
		}
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

// unseen returns the rows without those whose keys earlier rows have, and the keys of those
// that are left. If another caller stores a step meanwhile, this one is not stored.
func (l *Ledger) unseen(ctx context.Context, run Run, rows []FoundRow) (left []FoundRow, keys []any, err error) {
	has := map[string]bool{}
	for part := range slices.Chunk(rows, scriptNumbers) {
		members := make([]any, len(part))
		for i, r := range part {
			members[i] = r.Key
		}
		stored, err := l.rdb.SMIsMember(ctx, headerKey(run.Tenant, run.ID, "seen"), members...).Result()
		if err != nil {
			return nil, nil, fmt.Errorf("read the keys of found rows: %w", err)
		}
		for i, r := range part {
			if r.Key != "" && (stored[i] || has[r.Key]) {
				continue
			}
			left = append(left, r)
			if r.Key != "" {
				has[r.Key] = true
				keys = append(keys, r.Key)
			}
		}
	}
	return left, keys, nil
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

// FoundRow is a row that a scan found.
type FoundRow struct {
	// Key names what the row is about. The run gets the first row of each key, in whatever
	// step another one is found; empty: it gets the row.
	Key string
	// Content has at most [MaxFoundRow] bytes.
	Content []byte
	// Due is when the row is due first, in Redis' time; zero: at once. See [MaxDue].
	Due time.Time
	// Result is that of a row which is settled when it is found, such as an invalid one; zero
	// for any other.
	Result Result
}

const (
	// MaxFoundRow is the largest size of a row that a scan finds, in bytes.
	MaxFoundRow = 64 << 10
	// blockRows and blockBytes bound the rows of a block, the latter before compression.
	blockRows  = 1024
	blockBytes = 64 << 10
)

func (r FoundRow) validate() error {
	if len(r.Content) > MaxFoundRow {
		return fmt.Errorf("%d bytes: want at most %d", len(r.Content), MaxFoundRow)
	}
	if !r.settled() {
		return nil
	}
	return r.Result.validate()
}

// settled reports whether the row has a result.
func (r FoundRow) settled() bool {
	return r.Result.Outcome != "" || r.Result.Detail != "" || len(r.Result.Evidence) > 0
}

// append appends the row's stored form to b: the due time in ms or 0, the size of the
// result, the result as it is stored with a row, and the content.
func (r FoundRow) append(b []byte) []byte {
	var due uint64
	if !r.Due.IsZero() {
		due = uint64(max(r.Due.UnixMilli(), 1))
	}
	var result string
	if r.settled() {
		result = string(r.Result.Outcome) + ":" + r.Result.stored()
	}
	b = binary.AppendUvarint(b, due)
	b = binary.AppendUvarint(b, uint64(len(result)))
	b = append(b, result...)
	return append(b, r.Content...)
}

// parseFound is the inverse of append.
func parseFound(stored []byte) (FoundRow, error) {
	due, n := binary.Uvarint(stored)
	if n <= 0 {
		return FoundRow{}, errors.New("a found row is cut short")
	}
	stored = stored[n:]
	size, n := binary.Uvarint(stored)
	if n <= 0 || size > uint64(len(stored)-n) {
		return FoundRow{}, errors.New("a found row is cut short")
	}
	result, content := stored[n:n+int(size)], stored[n+int(size):]
	r := FoundRow{Content: content, Due: fromMillis(int64(due))}
	if len(result) > 0 {
		r.Result = parseResult(string(result))
	}
	return r, nil
}

// packFound compresses rows in blocks.
func packFound(rows []FoundRow) (blocks [][]byte, err error) {
	stored := make([][]byte, len(rows))
	for i, r := range rows {
		stored[i] = r.append(nil)
	}
	for part := range pages(stored, blockRows, blockBytes, byteSize) {
		block, err := packChunk(part)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

func byteSize(b []byte) int { return len(b) }

// unpackFound returns the rows of a block.
func unpackFound(block string) ([]FoundRow, error) {
	stored, err := unpackChunk([]byte(block))
	if err != nil {
		return nil, err
	}
	rows := make([]FoundRow, len(stored))
	for i := range stored {
		if rows[i], err = parseFound(stored[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// stageFound returns found rows in the form in which they are staged.
func stageFound(number int, found []FoundRow) (staged, error) {
	rows := make([][]byte, len(found))
	s := staged{number: number}
	for i, r := range found {
		rows[i] = r.Content
		switch {
		case r.settled():
			s.results = append(s.results, RowResult{Row: Row(i), Result: r.Result})
		case !r.Due.IsZero():
			s.dues = append(s.dues, rowDue{Row: Row(i), Due: r.Due})
		}
	}
	s.order = grouping{}.order(rows, s.results, s.dues)
	var err error
	s.packed, err = pack(rows)
	return s, err
}
