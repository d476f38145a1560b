package rowfile

import (
	"bytes"
	"encoding/json"
	"io"
)

// textName is the column with the text of a row that does not fit: of CSV if its cells are more or
// fewer than the header, of JSON Lines if it is no object.
const textName = Prefix + "row"

// Rejected writes bad rows of an input as they came, so that they can be corrected and submitted,
// with their reasons as [ErrorName]. The text of a row that does not fit the header, or is no JSON
// object, is the column or member orgops_row.
type Rejected struct {
	rows *Reader
	out  io.Writer
	w    *Writer // nil until there is a row
}

// Rejected returns a writer of bad rows of the input. Nothing is written before the first of them.
func (r *Reader) Rejected(out io.Writer) *Rejected { return &Rejected{rows: r, out: out} }

// Write writes a bad row, with its text and cells as [Reader.Last] has returned them. The error is
// one of the writer below.
func (r *Rejected) Write(text []byte, cells []string, reason string) (err error) {
	if r.w == nil {
		var header []string
		if r.rows.csv != nil {
			header = r.rows.csv.names
		}
		if r.w, err = NewWriter(r.out, header, ErrorName, textName); err != nil {
			return err
		}
	}
	switch {
	case r.rows.csv == nil:
		return r.w.Object(rejectedMembers(text), reason)
	case cells == nil:
		return r.w.Cells(nil, reason, string(text))
	}
	return r.w.Cells(cells, reason, "")
}

// Flush ends the writing. The error is one of the writer below.
func (r *Rejected) Flush() error {
	if r.w == nil {
		return nil
	}
	return r.w.Flush()
}

// rejectedMembers are those of a bad line of JSON Lines, or its text.
func rejectedMembers(line []byte) Object {
	o, err := DecodeObject(bytes.TrimSpace(line))
	if err != nil {
		return Object{{textName, jsonString(string(line))}}
	}
	return o.Own(Schema{})
}

// Kept returns of the cells of a row of CSV those of [Reader.Columns].
func (r *Reader) Kept(cells []string) []string { return r.csv.notLeftOut(cells) }

// Values returns the cells of a row of CSV as [Record.Values] has them; ok is false if one does not
// fit. The notes of the input stay as they are.
func (r *Reader) Values(cells []string) (values []string, ok bool) {
	format := *r.csv
	format.notes = &notes{}
	values, broken := format.values(cells)
	return values, len(broken) == 0
}

// Own returns the line of JSON Lines as the object that it is, without the members that an export
// added and those that the schema ignores; ok is false if it is no object.
func (r *Reader) Own(line []byte) (object json.RawMessage, ok bool) {
	o, err := DecodeObject(line)
	if err != nil {
		return nil, false
	}
	return o.whole(line, r.schema), true
}
