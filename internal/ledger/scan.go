package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MaxFoundRow is the largest size of a row that a scan finds, in bytes.
	MaxFoundRow = 32 << 10
	// foundChunk is the number of rows that are compressed together: fewer than of submitted rows,
	// since the last chunk is written again with the rows that follow.
	foundChunk = 32
	// maxPosition bounds the content of a scan's row in bytes.
	maxPosition = 128 << 10
)

// ScanStep is a step of a scan: the rows that an execution of its row has found at a position.
type ScanStep struct {
	// Number counts the steps of a scan from 0. It is part of the position, in the form of the
	// scan: it says which step the execution has made.
	Number int64
	// Position replaces the content of the scan's row, at most 128 KiB: where the next step begins.
	Position []byte
	// Progress replaces that of the run's [Scan], at most 16 KiB.
	Progress []byte
	// Rows are the rows that the step found.
	Rows []FoundRow
	// Last says that there is no other step: the execution may settle the scan's row as [Done].
	Last bool
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

// AddStep appends the rows of a step to the run, and then replaces position and progress of the
// scan. Rows may be released as soon as they are appended. If AddStep is interrupted, some of the
// rows are there and the scan is where it was: who repeats the step appends the others, since
// each has its key.
//
// Nothing is written, with the status RowSuperseded, unless the nonce is that of the execution
// that has the scan's row, and no row with the status RowCancelled if the run is cancelled. The
// error is [ErrRaced] if the scan is at another step: Redis has lost some. The next execution finds
// where.
func (l *Ledger) AddStep(ctx context.Context, scan Segment, n Nonce, s ScanStep) (status Status, err error) {
	defer wrap(&err, "segment %s: step %d", scan, s.Number)
	if err := n.Validate(); err != nil {
		return "", err
	}
	if err := s.validate(); err != nil {
		return "", err
	}
	run := Run{ID: scan.Run, Incarnation: scan.Incarnation, Tenant: scan.Tenant}
	a := appender{ledger: l, run: run, step: []any{string(n), s.Number}}
	left, err := a.begin(ctx, s.Rows)
	for len(left) > 0 && err == nil {
		var appended int
		if appended, status, err = a.appendSome(ctx, left); status != RowWritten && err == nil {
			return status, nil
		}
		left = left[appended:]
	}
	if err != nil {
		return "", err
	}
	if len(s.Rows) > 0 {
		_ = l.Wake(ctx, run.Tenant) // else the next poll finds the rows
	}
	position, err := packChunk([][]byte{s.Position})
	if err != nil {
		return "", err
	}
	return a.write(ctx, stepScript, scan, a.rows, position, s.Progress, flag(s.Last))
}

func (s ScanStep) validate() error {
	if n := len(s.Progress); n > maxProgress {
		return fmt.Errorf("progress of %d bytes: want at most %d", n, maxProgress)
	}
	if n := len(s.Position); n > maxPosition {
		return fmt.Errorf("position of %d bytes: want at most %d", n, maxPosition)
	}
	for i, r := range s.Rows {
		var err error
		if len(r.Content) > MaxFoundRow {
			err = fmt.Errorf("%d bytes: want at most %d", len(r.Content), MaxFoundRow)
		} else if r.settled() {
			err = r.Result.validate()
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// settled reports whether the row has a result.
func (r FoundRow) settled() bool {
	return r.Result.Outcome != "" || r.Result.Detail != "" || len(r.Result.Evidence) > 0
}

// bytes returns the size of the row in a script.
func (r FoundRow) bytes() int {
	return len(r.Key) + len(r.Content) + RowResult{Result: r.Result}.bytes()
}

// appender appends rows behind those of a run. All segments but the last are full.
type appender struct {
	ledger *Ledger
	run    Run
	step   []any    // nonce, and number of the step
	rows   int64    // of the run
	tail   [][]byte // the rows of the last chunk, unless it is full
}

// begin reads the end of the run, and returns the rows without those whose keys earlier rows have.
func (a *appender) begin(ctx context.Context, rows []FoundRow) (left []FoundRow, err error) {
	// How many rows the run has, and which of these it has already.
	var total *redis.StringCmd
	var stored []*redis.BoolSliceCmd
	_, err = a.ledger.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		total = p.HGet(ctx, headerKey(a.run.Tenant, a.run.ID, "header"), "rows")
		for part := range slices.Chunk(rows, scriptNumbers) {
			members := make([]any, len(part))
			for i, r := range part {
				members[i] = r.Key
			}
			stored = append(stored, p.SMIsMember(ctx, headerKey(a.run.Tenant, a.run.ID, "seen"), members...))
		}
		return nil
	})
	if err == nil {
		a.rows, err = total.Int64()
	}
	if absent(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}

	// Only new ones are left, each key once. Rows without a key are always new.
	has := map[string]bool{"": false}
	for i, r := range rows {
		if (stored[i/scriptNumbers].Val()[i%scriptNumbers] && r.Key != "") || has[r.Key] {
			continue
		}
		left = append(left, r)
		has[r.Key] = r.Key != ""
	}
	if len(left) == 0 || a.rows%foundChunk == 0 {
		return left, nil
	}

	// The last chunk is written again with more rows: read the ones that it has.
	number := int(a.rows / SegmentRows)
	row := int(a.rows % SegmentRows)
	chunk, err := a.ledger.rdb.HGet(ctx, segmentKey(a.run.segment(number), "chunks"), fmt.Sprint(row/foundChunk)).Bytes()
	if err == nil {
		a.tail, err = unpackChunk(chunk)
	}
	if absent(err) || (err == nil && len(a.tail) != row%foundChunk) {
		err = ErrRaced
	}
	if err != nil {
		return nil, fmt.Errorf("read the last rows: %w", err)
	}
	return left, nil
}

// appendSome appends the first of the rows, as many as one script takes and the last segment has
// room for, and returns their number.
func (a *appender) appendSome(ctx context.Context, rows []FoundRow) (n int, status Status, err error) {
	seg := a.run.segment(int(a.rows / SegmentRows))
	first := int(a.rows % SegmentRows)
	size := 0
	if seg.Number >= MaxSegments {
		return 0, "", fmt.Errorf("want at most %d segments", MaxSegments)
	}
	for _, row := range a.tail {
		size += len(row)
	}

	// As many rows as the script, its size and the segment allow.
	contents := a.tail
	var args []any
	for n < min(len(rows), scriptRows, SegmentRows-first) && (n == 0 || size+rows[n].bytes() <= scriptBytes) {
		r := rows[n]
		outcome := ""
		result := ""
		if r.settled() {
			outcome = string(r.Result.Outcome)
			result = r.Result.stored()
		}
		contents = append(contents, r.Content)
		args = append(args, r.Key, toMillis(r.Due), outcome, result)
		n++
		size += r.bytes()
	}

	// Their chunks, the first of which may replace the run's last one.
	var chunks []any
	for i, part := range slices.Collect(slices.Chunk(contents, foundChunk)) {
		chunk, err := packChunk(part)
		if err != nil {
			return 0, "", err
		}
		chunks = append(chunks, first/foundChunk+i, chunk)
	}
	sum := Sum{Rows: first + n}
	head := []any{a.rows, sum.stored(), foundChunk, len(chunks) / 2}
	status, err = a.write(ctx, appendScript, seg, slices.Concat(head, chunks, args)...)
	a.rows += int64(n)
	a.tail = slices.Clone(contents[len(contents)/foundChunk*foundChunk:])
	return n, status, err
}

// write runs a script of a segment that also gets the keys of the scan, nonce and number of the
// step.
func (a *appender) write(ctx context.Context, s *redis.Script, seg Segment, args ...any) (Status, error) {
	keys := append(rowsKeys(seg), segmentKey(a.run.segment(ScanSegment), "executions"),
		headerKey(seg.Tenant, seg.Run, "seen"))
	answer, err := a.ledger.do(ctx, s, keys, slices.Concat([]any{seg.String()}, a.step, args))
	return Status(answer.list(6).text(0)), err
}
