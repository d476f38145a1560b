package intake

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

// storedRows are a run's rows as the ledger has them, read in their order and
// a chunk at a time.
type storedRows struct {
	ledger *ledger.Ledger
	run    ledger.Run
	kind   tasks.Kind

	first int64
	chunk [][]byte
}

func newStoredRows(l *ledger.Ledger, r ledger.Run) (*storedRows, error) {
	kind, ok := tasks.KindOf(string(r.Kind))
	if !ok {
		return nil, fmt.Errorf("run %s: its rows are of kind %s, which this orgops does not know: use a newer one",
			r.ID, untrusted.Value(r.Kind))
	}
	return &storedRows{ledger: l, run: r, kind: kind}, nil
}

// source is the row as it was stored.
func (s *storedRows) source(ctx context.Context, item int64) ([]byte, error) {
	if first := item - item%chunkRows; s.chunk == nil || s.first != first {
		chunk, err := s.ledger.Contents(ctx, s.run, first, chunkRows)
		if err != nil {
			return nil, err
		}
		s.first, s.chunk = first, chunk
	}
	if at := item - s.first; at < int64(len(s.chunk)) {
		return s.chunk[at], nil
	}
	return nil, fmt.Errorf("run %s: row %d was never stored", s.run.ID, item)
}

// PlainText returns a stored row of JSON Lines as it was submitted.
func PlainText(source []byte) []byte { return bytes.TrimPrefix(source, []byte{badMark}) }

// row parses a stored row. bad is the error of a bad row: it was submitted while bad rows
// were skipped, or the rules are stricter since.
func (s *storedRows) row(source []byte) (row tasks.Row, bad error) {
	return rowfile.ParseRow(s.kind, PlainText(source))
}

// members are those of a stored row, but for the ones that an export had added. A bad row of
// CSV has its cells by the names of the columns.
func (s *storedRows) members(source []byte) (rowfile.Object, error) {
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
func (s *storedRows) cells(source []byte) (cells []string, err error) {
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
