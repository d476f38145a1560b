package intake

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/runs"
)

// The columns and members that an export adds to a row.
const (
	outcomeName = ignoredPrefix + "outcome"
	errorName   = ignoredPrefix + "error"
)

// ExportFailed writes the failed rows of a run to out, in their order and in the form in which
// they were submitted, or with asJSON as JSON Lines, with their outcome and reason as
// orgops_outcome and orgops_error. The output can be submitted unchanged; CSV is safe to open
// in a spreadsheet. It holds a chunk of rows at a time, and returns the number of rows. Rows
// that are settled meanwhile may or may not be among them.
func ExportFailed(ctx context.Context, l *runs.Ledger, r ledger.Run, asJSON bool, out io.Writer) (rows int64, err error) {
	stored, err := newStoredRows(l, r)
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
			return table.write(cells, string(f.Outcome), f.Detail)
		}
	}
	for fate, err := range l.Results(ctx, r.ID, 0) {
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
	members = append(members, member{outcomeName, jsonString(string(f.Outcome))}, member{errorName, jsonString(f.Detail)})
	_, err = out.Write(append(objectOf(members), '\n'))
	return err
}

// table writes rows as CSV that is safe in a spreadsheet, without the columns that an earlier
// export has added to them, and with others.
type table struct {
	*csv.Writer
	columns []int // of the header, without those of an export
}

// newTable returns a table after it has written its header.
func newTable(out io.Writer, header []string, others ...string) (*table, error) {
	t := &table{Writer: csv.NewWriter(out)}
	var record []string
	for i, column := range header {
		if !ignored(column) {
			t.columns = append(t.columns, i)
			record = append(record, column)
		}
	}
	return t, t.Write(append(record, others...))
}

// write writes a row. cells are those of the header, nil if they are not known.
func (t *table) write(cells []string, others ...string) error {
	var record []string
	for _, i := range t.columns {
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

// formulaMarks are the first characters of cells that a spreadsheet takes for formulas.
// Single quotes before them are skipped, so that lively removes only the one that inert added.
const formulaMarks = "=+-@\t\r"

func isFormula(cell string) bool {
	bare := strings.TrimLeft(cell, "'")
	return bare != "" && strings.IndexByte(formulaMarks, bare[0]) >= 0
}

// inert returns the cell in the form that a spreadsheet takes for text.
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
