package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/runs"
	"orgops/tasks"
)

// storedRows are a run's rows as the ledger has them, read in their order and
// a chunk at a time.
type storedRows struct {
	ledger *runs.Ledger
	run    runs.Run
	kind   tasks.Kind
	csv    *csvReader // of rows that came as CSV
	jsonl  *jsonlReader

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
	if r.Format != FormatCSV {
		s.jsonl = &jsonlReader{schema: schema}
		return s, nil
	}
	s.csv = &csvReader{schema: schema, header: r.Columns, places: schema.places(r.Columns)}
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

// cells are those of a stored row of CSV, one for each column.
func (s *storedRows) cells(source []byte) ([]string, error) {
	var cells []string
	if err := json.Unmarshal(source, &cells); err != nil {
		return nil, fmt.Errorf("cells: %w", err)
	}
	if len(cells) != len(s.run.Columns) {
		return nil, fmt.Errorf("%d cells where the run has %d columns", len(cells), len(s.run.Columns))
	}
	return cells, nil
}

// object is the row as a JSON object with the members of the schema, as it was
// when it was submitted.
func (s *storedRows) object(source []byte) (object json.RawMessage, err error) {
	var broken []string
	if s.csv != nil {
		cells, err := s.cells(source)
		if err != nil {
			return nil, err
		}
		object, broken = s.csv.object(cells)
	} else {
		object, broken = s.jsonl.object(bytes.TrimSpace(source))
	}
	if len(broken) > 0 {
		return nil, errors.New(strings.Join(broken, "; "))
	}
	return object, nil
}

// row is the work that a stored row stands for. bad is why it stands for none: it
// was submitted where bad rows are skipped, or the rules are stricter since.
func (s *storedRows) row(source []byte) (row tasks.Row, bad error) {
	object, err := s.object(source)
	if err != nil {
		return tasks.Row{}, err
	}
	return s.kind.Parse(object, tasks.Defaults{})
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
		value, want := cellValue(column.Type, cells[i])
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
	members, err := decodeObject(bytes.TrimSpace(source))
	return slices.DeleteFunc(members, func(m member) bool { return ignored(m.name) }), err
}
