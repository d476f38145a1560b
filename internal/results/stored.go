package results

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// chunkRows is the number of rows that a reader of all rows reads at a time.
const chunkRows = 1000

// StoredRows are a run's rows as the ledger has them. Read in their order, they are read a chunk at
// a time. They are for one goroutine.
type StoredRows struct {
	ledger *ledger.Ledger
	run    ledger.Run
	kind   tasks.Kind

	first int64
	chunk [][]byte
}

// NewStoredRows returns the rows of a run. The error says that this program does not know their
// kind.
func NewStoredRows(l *ledger.Ledger, r ledger.Run) (*StoredRows, error) {
	kind, ok := tasks.KindOf(string(r.Kind))
	if !ok {
		return nil, fmt.Errorf("run %s: its rows are of kind %s, which this orgops does not know: use a newer one",
			r.ID, untrusted.Value(r.Kind))
	}
	return &StoredRows{ledger: l, run: r, kind: kind}, nil
}

// Source returns a row by its number, as it was stored. The error is one of the ledger, or says
// that the run has no such row.
func (s *StoredRows) Source(ctx context.Context, item int64) ([]byte, error) {
	if first := item - item%chunkRows; s.chunk == nil || s.first != first {
		chunk, err := s.ledger.Contents(ctx, s.run, first, chunkRows)
		if err != nil {
			return nil, err
		}
		s.first = first
		s.chunk = chunk
	}
	if at := item - s.first; at < int64(len(s.chunk)) {
		return s.chunk[at], nil
	}
	return nil, fmt.Errorf("run %s: row %d was never stored", s.run.ID, item)
}

// badMark precedes the text of a bad row of JSON Lines: the two are not JSON.
const badMark = '!'

// MarkBad returns a JSON object as a bad row is stored, which no handler takes for a row.
func MarkBad(object []byte) []byte { return append([]byte{badMark}, object...) }

// PlainText returns a stored row of JSON Lines as it was submitted.
func PlainText(source []byte) []byte { return bytes.TrimPrefix(source, []byte{badMark}) }

// Row parses a stored row. bad is the error of a bad row: it was submitted while bad rows
// were skipped, or the rules are stricter since.
func (s *StoredRows) Row(source []byte) (row tasks.Row, bad error) {
	return rowfile.ParseRow(s.kind, PlainText(source))
}

// members are those of a stored row, but for the ones that an export had added. A bad row of
// CSV has its cells by the names of the columns.
func (s *StoredRows) members(source []byte) (rowfile.Object, error) {
	if !bytes.HasPrefix(source, []byte{'['}) {
		object, err := rowfile.DecodeObject(PlainText(source))
		return object.Own(rowfile.Schema{}), err
	}
	cells, err := s.cells(source)
	if err != nil {
		return nil, err
	}
	var members rowfile.Object
	for _, column := range s.kind.Columns {
		i := slices.Index(s.run.Columns, column.Name)
		if i < 0 || cells[i] == "" {
			continue
		}
		members = append(members, rowfile.CellMember(column, cells[i]))
	}
	return members, nil
}

// cells are those of a stored row of CSV, one for each column of the run.
func (s *StoredRows) cells(source []byte) (cells []string, err error) {
	if bytes.HasPrefix(source, []byte{'['}) {
		if err := json.Unmarshal(source, &cells); err != nil {
			return nil, fmt.Errorf("cells: %w", err)
		}
		if len(cells) != len(s.run.Columns) {
			return nil, fmt.Errorf("%d cells where the run has %d columns", len(cells), len(s.run.Columns))
		}
		return cells, nil
	}
	members := map[string]any{}
	if err := json.Unmarshal(PlainText(source), &members); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	for _, column := range s.run.Columns {
		cell := "" // values are texts or booleans
		if value, ok := members[column]; ok {
			cell = fmt.Sprint(value)
		} else if name, ok := members["domain"]; ok && column == "discovery_domain_id" &&
			!slices.Contains(s.run.Columns, "domain") {
			cell = fmt.Sprint(name) // which was in the id's place
		}
		cells = append(cells, cell)
	}
	return cells, nil
}

// rowMembers are the members that identify a row's domain. Each may be missing.
type rowMembers struct {
	Organization string `json:"organization_id"`
	Domain       string `json:"discovery_domain_id"`
	Name         string `json:"domain"`
}

// rowMembers reads a row, which may be a bad one.
func (s *StoredRows) rowMembers(source []byte) (found rowMembers) {
	if members, err := s.members(source); err == nil {
		_ = json.Unmarshal(members.JSON(), &found) // it leaves out members that are not text
	}
	return found
}
