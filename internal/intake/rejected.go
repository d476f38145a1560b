package intake

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// What is told of a bad row beside what it was.
const (
	rejectedError = ignoredPrefix + "error"
	// rejectedRow holds a row as it came which has no place beside it: in CSV
	// where its cells do not fit the header, in JSON Lines where it is no object.
	rejectedRow = ignoredPrefix + "row"
)

// rejectedRows writes bad rows in the form in which they came, so that they can
// be put right and submitted as a file of their own.
type rejectedRows struct {
	out  *bufio.Writer
	csv  *csv.Writer // nil: JSON Lines
	kept []int       // the columns that no earlier export has added
	err  error
}

func newRejectedRows(out io.Writer, rows *Reader) *rejectedRows {
	w := &rejectedRows{out: bufio.NewWriter(out)}
	if rows.Format() != FormatCSV {
		return w
	}
	w.csv = csv.NewWriter(w.out)
	var header []string
	for i, column := range rows.Header() {
		if !ignored(column) {
			w.kept = append(w.kept, i)
			header = append(header, column)
		}
	}
	w.err = w.csv.Write(append(header, rejectedError, rejectedRow))
	return w
}

// write writes the row that was read last.
func (w *rejectedRows) write(rows *Reader, bad error) error {
	if w.err != nil {
		return fmt.Errorf("write rejected rows: %w", w.err)
	}
	text, cells := rows.Last()
	if w.csv != nil {
		w.err = w.csv.Write(w.record(text, cells, reason(bad)))
	} else {
		_, w.err = w.out.Write(append(rejectedObject(text, reason(bad)), '\n'))
	}
	if w.err != nil {
		return fmt.Errorf("write rejected rows: %w", w.err)
	}
	return nil
}

func (w *rejectedRows) record(text []byte, cells []string, why string) []string {
	record := make([]string, len(w.kept), len(w.kept)+2)
	if cells == nil {
		return append(record, inert(why), inert(string(text)))
	}
	for i, from := range w.kept {
		record[i] = inert(cells[from]) // the reader undoes it in a file with columns of ours
	}
	return append(record, inert(why), "")
}

// rejectedObject is a line with the reason among its members.
func rejectedObject(text []byte, why string) []byte {
	members, err := decodeObject(bytes.TrimSpace(text))
	if err != nil {
		members = []member{{rejectedRow, jsonString(string(text))}}
	}
	members = slices.DeleteFunc(members, func(m member) bool { return err == nil && ignored(m.name) })
	return objectOf(append(members, member{rejectedError, jsonString(why)}))
}

// flush ends the writing; of nil it is nothing.
func (w *rejectedRows) flush() error {
	if w == nil {
		return nil
	}
	if w.csv != nil {
		w.csv.Flush()
		w.err = errors.Join(w.err, w.csv.Error())
	}
	if err := errors.Join(w.err, w.out.Flush()); err != nil {
		return fmt.Errorf("write rejected rows: %w", err)
	}
	return nil
}

// reason is what is wrong with a row, without where it is.
func reason(bad error) string {
	if row, ok := errors.AsType[*RowError](bad); ok {
		return row.Msg
	}
	return bad.Error()
}

// invalidDetail is what the ledger keeps of a bad row.
func invalidDetail(bad error) string {
	if row, ok := errors.AsType[*RowError](bad); ok {
		return fmt.Sprintf("line %d: %s", row.Line, row.Msg)
	}
	return bad.Error()
}

// storedBad is a bad row as it is stored: a cell for each of the run's columns,
// or an object, like every stored row. One that cannot be that is stored empty:
// cut, filled up or put right to fit, it could be taken for a good one later.
func (in Input) storedBad(rows *Reader, columns []string, r Record) ([]byte, error) {
	text, fits := rows.Last()
	if rows.Format() == FormatCSV {
		var cells []string
		if fits != nil {
			if err := json.Unmarshal(r.Source, &cells); err != nil {
				return nil, fmt.Errorf("cells of a row: %w", err)
			}
		}
		if fits != nil && in.good(rows, cells) { // JSON has put right what was no UTF-8
			cells = nil
		}
		return json.Marshal(append(cells, make([]string, len(columns)-len(cells))...))
	}
	text = bytes.TrimSpace(text)
	members, err := decodeObject(text)
	if err != nil {
		return []byte("{}"), nil
	}
	return whole(text, members, rows.schema), nil
}

// good says whether cells would be taken for a row.
func (in Input) good(rows *Reader, cells []string) bool {
	csv, ok := rows.rows.(*csvReader)
	if !ok {
		return false
	}
	object, broken := csv.object(cells)
	if len(broken) > 0 {
		return false
	}
	_, err := in.Kind.Parse(object, in.Defaults)
	return err == nil
}
