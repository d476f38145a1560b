package intake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The columns and members that are added to a rejected row.
const (
	rejectedError = ignoredPrefix + "error"
	// rejectedRow has the text of a row that does not fit: of CSV if its cells are more or
	// fewer than the header, of JSON Lines if it is no object.
	rejectedRow = ignoredPrefix + "row"
)

// rejectedRows writes bad rows in the form in which they came, so that they can
// be put right and submitted as a file of their own.
type rejectedRows struct {
	out   *bufio.Writer
	table *table // nil: JSON Lines
}

func newRejectedRows(out io.Writer, rows *Reader) (w *rejectedRows, err error) {
	w = &rejectedRows{out: bufio.NewWriter(out)}
	if rows.csv != nil {
		w.table, err = newTable(w.out, rows.csv.header, rejectedError, rejectedRow)
	}
	return w, err
}

// write writes the row that was read last.
func (w *rejectedRows) write(rows *Reader, bad error) (err error) {
	text, cells := rows.Last()
	switch {
	case w.table == nil:
		_, err = w.out.Write(append(rejectedObject(text, reason(bad)), '\n'))
	case cells == nil:
		err = w.table.write(nil, reason(bad), string(text))
	default:
		err = w.table.write(cells, reason(bad), "")
	}
	if err != nil {
		return fmt.Errorf("write rejected rows: %w", err)
	}
	return nil
}

// rejectedObject is a line with the reason among its members.
func rejectedObject(text []byte, why string) []byte {
	members, err := decodeObject(bytes.TrimSpace(text))
	members = withoutOurs(members, Schema{})
	if err != nil {
		members = []member{{rejectedRow, jsonString(string(text))}}
	}
	return objectOf(append(members, member{rejectedError, jsonString(why)}))
}

// flush ends the writing; of nil it is nothing.
func (w *rejectedRows) flush() error {
	if w == nil {
		return nil
	}
	if w.table != nil {
		w.table.Flush()
	}
	if err := w.out.Flush(); err != nil { // an error of the table is one of out
		return fmt.Errorf("write rejected rows: %w", err)
	}
	return nil
}

// reason returns the error of a row without its file and line.
func reason(bad error) string {
	if row, ok := errors.AsType[*RowError](bad); ok {
		return row.Msg
	}
	return bad.Error()
}

// badMark precedes the text of a bad row of JSON Lines: the two are not JSON.
const badMark = '!'

// badContent returns the row that was read last as it is stored if it is bad: a cell for each
// of the run's columns, or the object behind a mark. No handler takes either for a row. One
// that cannot be that is stored empty: cut, filled up or put right to fit, it could be taken
// for a good one later.
func (r *reading) badContent() []byte {
	text, cells := r.rows.Last()
	if format := r.rows.csv; format != nil {
		for i, cell := range cells {
			cells[i] = strings.ToValidUTF8(cell, "\ufffd") // it is stored as JSON
		}
		all := make([]string, len(r.columns)) // "" in those that defaults fill
		if cells != nil && !r.areGood(cells) {
			copy(all, format.notLeftOut(cells))
		}
		content, _ := json.Marshal(all) // strings always have a JSON form
		return content
	}
	text = bytes.TrimSpace(text)
	object := json.RawMessage("{}")
	if members, err := decodeObject(text); err == nil {
		object = whole(text, members, r.rows.schema)
	}
	return append([]byte{badMark}, object...)
}

// areGood reports whether cells would be taken for a row.
func (r *reading) areGood(cells []string) bool {
	values, broken := r.rows.csv.values(cells)
	if len(broken) > 0 {
		return false
	}
	_, err := r.in.Kind.Parse(values, r.in.Defaults)
	return err == nil
}
