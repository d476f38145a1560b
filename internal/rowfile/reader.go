package rowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"orgops/internal/untrusted"
)

// Reader reads the rows of one input. It is for one goroutine.
type Reader struct {
	name   string
	schema Schema
	rows   rowReader
	csv    *csvReader // the same; nil: JSON Lines
	notes  notes
	items  int64
	ended  error
}

// rowReader reads a format: next returns the rows in order, each without its item and with
// its errors, then io.EOF.
type rowReader interface {
	next() (r Record, broken []string, err error)
	// line returns the line that is read next, for read errors.
	line() int
	// last returns the row read last, unchanged.
	last() (text []byte, cells []string)
}

// Open reads the beginning of r (gzip, encoding, format, and of CSV separator
// and header) and returns a reader of its rows. The name is for errors. An
// input that does not fit the schema as a whole is a *HeaderError; other errors
// are those of reading. Nothing has to be closed.
func Open(name string, r io.Reader, s Schema) (*Reader, error) {
	// The text, unless the input is no text.
	reader := &Reader{name: name, schema: s}
	in, refusal, err := openText(r, &reader.notes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	refuse := func(line int, msg string) error {
		return &HeaderError{File: name, Line: line, Msg: msg, Expected: s.Expected()}
	}
	if refusal != "" {
		return nil, refuse(1, refusal)
	}

	// The format, by the first byte. What is not JSON is CSV.
	first, line, err := firstByte(in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, refuse(line, "the input is empty")
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case first == '[' || string(bytes.TrimSpace(nextLine(in))) == "{": // or objects as jq writes them
		reader.rows = newStreamReader(in, line, s, &reader.notes, first == '[')
	case first == '{':
		reader.rows = newJSONLReader(in, line, s, &reader.notes)
	case s.Object:
		return nil,
			refuse(line, fmt.Sprintf("the first line does not begin with { but with %s, and CSV cannot hold these rows",
				untrusted.Value(string(rune(first)))))
	default:
		reader.csv, err = openCSV(name, in, line, s, &reader.notes)
		reader.rows = reader.csv
	}
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// Notes say in a line how the input was read until now, where it has another form than the
// documents describe; "" for none.
func (r *Reader) Notes() string { return r.notes.String() }

// Format is FormatCSV or FormatJSONL.
func (r *Reader) Format() string {
	if r.csv == nil {
		return FormatJSONL
	}
	return FormatCSV
}

// Columns are the CSV header, with the names of the schema, but for the columns that the schema has
// ignored; nil for JSON Lines.
func (r *Reader) Columns() []string {
	if r.csv == nil {
		return nil
	}
	return r.csv.notLeftOut(r.csv.names)
}

// Last returns the row that Next returned last, unchanged but without its line's end; it is
// valid until the next Next. cells are those of a row of CSV that has as many as the header.
func (r *Reader) Last() (text []byte, cells []string) { return r.rows.last() }

// Bad returns the error of a row of this input that is bad for another reason than its form, such
// as a rule of its kind.
func (r *Reader) Bad(record Record, msg string) *RowError { return record.bad(r.name, msg) }

// Next returns the next row. A bad row is a Record with Err set, and no error;
// after the last one the error is io.EOF, and any other error means that the
// input cannot be read further.
func (r *Reader) Next() (Record, error) {
	if r.ended != nil {
		return Record{}, r.ended
	}
	record, broken, err := r.rows.next()
	if err != nil {
		r.ended = io.EOF
		if !errors.Is(err, io.EOF) {
			r.ended = readError(r.name, r.rows.line(), r.schema, err)
		}
		return Record{}, r.ended
	}
	record.Item = r.items
	if len(broken) > 0 {
		record.Values = nil
		record.Err = record.bad(r.name, strings.Join(broken, "; "))
	}
	r.items++
	return record, nil
}
