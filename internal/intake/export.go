package intake

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"orgops/internal/runs"
)

// What an export says of a row, as columns and as members.
const (
	outcomeName = ignoredPrefix + "outcome"
	errorName   = ignoredPrefix + "error"
)

// ExportUnwell writes the run's rows that did not settle well to out, in their
// order and in the form in which they were submitted (or, with asJSON, as JSON
// Lines whatever they were), with their outcome and reason as orgops_outcome and
// orgops_error. What is written can be submitted as it is; CSV is safe to open
// in a spreadsheet. It holds a chunk of rows at a time, and says how many rows
// it wrote. What settles meanwhile may or may not be among them.
func ExportUnwell(ctx context.Context, ledger *runs.Ledger, r runs.Run, asJSON bool, out io.Writer) (rows int64, err error) {
	stored, err := newStoredRows(ledger, r)
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	defer func() { err = errors.Join(err, buffered.Flush()) }()
	write := func(source []byte, f runs.Result) error { return stored.writeObject(buffered, source, f) }
	if r.Format == FormatCSV && !asJSON {
		table, err := newTable(buffered, r.Columns, outcomeName, errorName)
		if err != nil {
			return 0, err
		}
		defer table.Flush()
		write = func(source []byte, f runs.Result) error {
			cells, err := stored.cells(source)
			if err != nil {
				return err
			}
			return table.write(cells, f.Outcome, f.Detail)
		}
	}
	for fate, err := range ledger.Results(ctx, r.ID) {
		if err != nil {
			return rows, err
		}
		if fate.Well() {
			continue
		}
		source, err := stored.source(ctx, fate.Item)
		if err != nil {
			return rows, err
		}
		if err := write(source, fate); err != nil {
			return rows, fmt.Errorf("run %s: write row %d: %w", r.ID, fate.Item, err)
		}
		rows++
	}
	return rows, nil
}

// writeObject writes a row as an object on a line of its own, its values as they are stored.
func (s *storedRows) writeObject(out *bufio.Writer, source []byte, f runs.Result) error {
	members, err := s.members(source)
	if err != nil {
		return err
	}
	members = append(members, member{outcomeName, jsonString(f.Outcome)}, member{errorName, jsonString(f.Detail)})
	_, err = out.Write(append(objectOf(members), '\n'))
	return err
}

// table writes rows as CSV that is safe in a spreadsheet, without the columns that an earlier
// export has added to them, and with others.
type table struct {
	*csv.Writer
	kept []int // columns
}

// newTable returns a table after it has written its header.
func newTable(out io.Writer, header []string, others ...string) (*table, error) {
	t := &table{Writer: csv.NewWriter(out)}
	var record []string
	for i, column := range header {
		if !ignored(column) {
			t.kept = append(t.kept, i)
			record = append(record, column)
		}
	}
	return t, t.Write(append(record, others...))
}

// write writes a row. cells are those of the header, nil if they are not known.
func (t *table) write(cells []string, others ...string) error {
	var record []string
	for _, i := range t.kept {
		if cells == nil {
			record = append(record, "")
		} else {
			record = append(record, inert(cells[i])) // the reader undoes it
		}
	}
	for _, cell := range others {
		record = append(record, inert(cell))
	}
	return t.Write(record)
}

// formulaMarks are what makes a spreadsheet take a cell for a formula. Those of
// the cell are looked for behind quotes, so that lively can tell our quote from
// one that was there before.
const formulaMarks = "=+-@\t\r"

func isFormula(cell string) bool {
	bare := strings.TrimLeft(cell, "'")
	return bare != "" && strings.IndexByte(formulaMarks, bare[0]) >= 0
}

// inert is the cell as a spreadsheet takes it for text.
func inert(cell string) string {
	if isFormula(cell) {
		return "'" + cell
	}
	return cell
}

// lively is the inverse of inert.
func lively(cell string) string {
	if isFormula(cell) {
		return strings.TrimPrefix(cell, "'")
	}
	return cell
}

// objectOf writes members as an object.
func objectOf(members []member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonString(m.name)...)
		out = append(out, ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}
