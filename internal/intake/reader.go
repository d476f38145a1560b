package intake

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Reader reads the rows of one input. It is for one goroutine.
type Reader struct {
	name   string
	schema Schema
	rows   rowReader
	csv    *csvReader // the same; nil: JSON Lines
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

// Open reads the beginning of r (gzip, byte order mark, format, and of CSV
// the header) and returns a reader of its rows. The name is for errors. An
// input that does not fit the schema as a whole is a *HeaderError; other errors
// are those of reading. Nothing has to be closed.
func Open(name string, r io.Reader, s Schema) (*Reader, error) {
	plain, err := decompressed(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	in := bufio.NewReaderSize(plain, 64<<10)
	refuse := func(line int, msg string) error {
		return &HeaderError{File: name, Line: line, Msg: msg, Expected: s.expected()}
	}
	if msg, err := recognize(in); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	} else if msg != "" {
		return nil, refuse(1, msg)
	}
	first, line, err := firstByte(in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, refuse(line, "the input is empty")
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case first == '[':
		return nil, refuse(line, "the input is a JSON array; write each object on a line of its own")
	case first != '{' && s.Object:
		return nil,
			refuse(line, fmt.Sprintf("the first line does not begin with { but with %s, and CSV cannot hold these rows",
				quoted(string(rune(first)))))
	}

	reader := &Reader{name: name, schema: s}
	if first == '{' {
		reader.rows = newJSONLReader(in, line, s)
		return reader, nil
	}
	if reader.csv, err = openCSV(name, in, line, s); err != nil {
		return nil, err
	}
	reader.rows = reader.csv
	return reader, nil
}

// Format is FormatCSV or FormatJSONL.
func (r *Reader) Format() string {
	if r.csv == nil {
		return FormatJSONL
	}
	return FormatCSV
}

// Columns are the CSV header as it was given, but for the columns that the schema has
// ignored; nil for JSON Lines.
func (r *Reader) Columns() []string {
	if r.csv == nil {
		return nil
	}
	return r.csv.notLeftOut(r.csv.header)
}

// Last returns the row that Next returned last, unchanged but without its line's end; it is
// valid until the next Next. cells are those of a row of CSV that has as many as the header.
func (r *Reader) Last() (text []byte, cells []string) { return r.rows.last() }

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
		record.Err = &RowError{File: r.name, Line: record.Line, Msg: strings.Join(broken, "; ")}
	}
	r.items++
	return record, nil
}

// decompressed undoes gzip, recognised by its magic number (RFC 1952 2.3.1).
func decompressed(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, err := peek(in, 2)
	if err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, err
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it begins like gzip: %w", err)
	}
	return unzipped, nil
}

// recognize skips a UTF-8 byte order mark, and recognises other kinds of files by their
// beginning: a message such as "unknown column" would not help there.
func recognize(in *bufio.Reader) (string, error) {
	start, err := peek(in, 4)
	if err != nil {
		return "", err
	}
	switch {
	case bytes.HasPrefix(start, []byte{0xef, 0xbb, 0xbf}):
		_, err := in.Discard(3)
		return "", err
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}), bytes.HasPrefix(start, []byte{0xfe, 0xff}):
		return "this is UTF-16; save it as UTF-8", nil
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return "this is a zip archive or a spreadsheet; save it as CSV", nil
	}
	return "", nil
}

// peek is Peek for inputs that may be shorter than n. It returns other errors, which the next
// read may not repeat.
func peek(in *bufio.Reader, n int) ([]byte, error) {
	start, err := in.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return start, err
}

// firstByte skips blanks and blank lines, and returns the first other byte, unread, with its
// line.
func firstByte(in *bufio.Reader) (first byte, line int, err error) {
	for line = 1; ; {
		b, err := in.ReadByte()
		if err != nil {
			return 0, line, err
		}
		switch b {
		case '\n':
			line++
		case ' ', '\t', '\r':
		default:
			return b, line, in.UnreadByte()
		}
	}
}
