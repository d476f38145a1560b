package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"orgops/internal/runs"
	"orgops/tasks"
)

// storedRows are a run's rows as the ledger has them, read in their order and
// a chunk at a time.
type storedRows struct {
	ledger *runs.Ledger
	run    runs.Run
	kind   tasks.Kind
	csv    *csvReader // of rows that came as CSV; nil: JSON Lines

	first int64
	chunk [][]byte
}

func newStoredRows(ledger *runs.Ledger, r runs.Run) (*storedRows, error) {
	kind, ok := tasks.KindOf(r.Kind)
	if !ok {
		return nil, fmt.Errorf("run %s: its rows are of kind %s, which this orgops does not know: use a newer one", r.ID, quoted(r.Kind))
	}
	schema := schemaOf(kind)
	s := &storedRows{ledger: ledger, run: r, kind: kind}
	if r.Format == FormatCSV {
		s.csv = &csvReader{schema: schema, header: r.Columns, places: schema.places(r.Columns)}
	}
	return s, nil
}

// source is the row as it was stored.
func (s *storedRows) source(ctx context.Context, item int64) ([]byte, error) {
	if first := item - item%runs.ChunkRows; s.chunk == nil || s.first != first {
		chunk, err := s.ledger.Rows(ctx, s.run.ID, first, runs.ChunkRows)
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

// isObject reports whether a stored row is a JSON object.
func isObject(source []byte) bool { return len(source) > 0 && source[0] == '{' }

// objectCells returns the cells of a row that is stored as an object, one for each column.
func (s *storedRows) objectCells(source []byte) ([]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(source, &members); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	cells := make([]string, len(s.run.Columns))
	for i, column := range s.run.Columns {
		value := members[column]
		if len(value) > 0 && value[0] != '"' {
			cells[i] = string(value)
		} else if len(value) > 0 {
			if err := json.Unmarshal(value, &cells[i]); err != nil {
				return nil, fmt.Errorf("member %s: %w", column, err)
			}
		}
	}
	return cells, nil
}

// PlainText returns a stored row of JSON Lines as it was submitted.
func PlainText(source []byte) []byte {
	return bytes.TrimPrefix(source, []byte{badMark})
}

// cells are those of a stored row of CSV, one for each column.
func (s *storedRows) cells(source []byte) ([]string, error) {
	if isObject(source) {
		return s.objectCells(source)
	}
	var cells []string
	if err := json.Unmarshal(source, &cells); err != nil {
		return nil, fmt.Errorf("cells: %w", err)
	}
	if len(cells) != len(s.run.Columns) {
		return nil, fmt.Errorf("%d cells where the run has %d columns", len(cells), len(s.run.Columns))
	}
	return cells, nil
}

// row is the work that a stored row stands for. bad is why it stands for none: it
// was submitted where bad rows are skipped, or the rules are stricter since.
func (s *storedRows) row(source []byte) (row tasks.Row, bad error) {
	return ParseRow(s.kind, PlainText(source))
}

// cellMembers are those of a stored row of CSV: its cells by the names of the
// schema, in its order. What a bad row holds instead of a value is text.
func (s *storedRows) cellMembers(source []byte) ([]member, error) {
	cells, err := s.cells(source)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, column := range s.csv.schema.Columns {
		i := slices.Index(s.run.Columns, column.Name)
		if i < 0 || cells[i] == "" {
			continue
		}
		value, want := cellValue(column, cells[i])
		if want != "" {
			value = jsonString(cells[i])
		}
		members = append(members, member{column.Name, value})
	}
	return members, nil
}

// members are those of a stored row of JSON, but for the ones that an export
// had added.
func (s *storedRows) members(source []byte) ([]member, error) {
	members, err := decodeObject(bytes.TrimSpace(PlainText(source)))
	return slices.DeleteFunc(members, func(m member) bool { return ignored(m.name) }), err
}
