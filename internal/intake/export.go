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
	write, err := stored.exporter(asJSON, buffered)
	if err != nil {
		return 0, err
	}
	for fate, err := range ledger.Fates(ctx, r.ID) {
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

// exporter returns what writes a row in the form of the export, after its
// header where it has one.
func (s *storedRows) exporter(asJSON bool, out *bufio.Writer) (func(source []byte, f runs.Fate) error, error) {
	switch {
	case s.csv != nil && !asJSON:
		return s.csvExporter(out)
	case s.csv != nil:
		return func(source []byte, f runs.Fate) error {
			members, err := s.cellMembers(source)
			if err != nil {
				return err
			}
			return writeMembers(out, members, f)
		}, nil
	}
	return func(source []byte, f runs.Fate) error {
		members, err := s.members(source)
		if err != nil {
			return err
		}
		return writeMembers(out, members, f)
	}, nil
}

func (s *storedRows) csvExporter(out *bufio.Writer) (func(source []byte, f runs.Fate) error, error) {
	// What an earlier export had added is not the input's.
	var kept []int
	for i, column := range s.run.Columns {
		if !ignored(column) {
			kept = append(kept, i)
		}
	}
	record := make([]string, 0, len(kept)+2)
	for _, i := range kept {
		record = append(record, s.run.Columns[i])
	}
	w := csv.NewWriter(out)
	if err := w.Write(append(record, outcomeName, errorName)); err != nil {
		return nil, err
	}
	w.Flush()
	return func(source []byte, f runs.Fate) error {
		cells, err := s.cells(source)
		if err != nil {
			return err
		}
		record = record[:0]
		for _, i := range kept {
			record = append(record, inert(cells[i]))
		}
		if err := w.Write(append(record, inert(f.Outcome), inert(f.Detail))); err != nil {
			return err
		}
		w.Flush()
		return w.Error()
	}, nil
}

// writeMembers writes a row as an object on a line of its own, its values as they
// stand.
func writeMembers(out *bufio.Writer, members []member, f runs.Fate) error {
	members = append(members, member{outcomeName, jsonString(f.Outcome)}, member{errorName, jsonString(f.Detail)})
	_, err := out.Write(append(objectOf(members), '\n'))
	return err
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
