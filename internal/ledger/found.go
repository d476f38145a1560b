package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// FoundRow is a row that a scan found.
type FoundRow struct {
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
	// partBytes bounds the blocks that one script stores.
	partBytes = 128 << 10
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
