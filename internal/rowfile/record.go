package rowfile

import (
	"encoding/json"
	"fmt"
)

// The most bytes of a row: a line of JSON Lines, and a record of CSV with the line breaks
// inside its quotes, whose columns are ids and names. They bound the memory that a row takes, a
// million cells or a quote left open: a longer row ends the reading with a *HeaderError.
const (
	MaxRow    = 1 << 20
	MaxCSVRow = 256 << 10
)

// The formats that Reader.Format gives.
const (
	FormatCSV   = "csv"
	FormatJSONL = "jsonl"
)

// Record is one row, good or bad.
type Record struct {
	// Item counts the records from 0, bad ones included; blank lines are none.
	Item int64
	// Element is the row's number in a JSON array, from 1, whose rows may all be in one line; 0: the
	// input is none.
	Element int
	// Line is where the record begins, from 1; the header is a line too.
	Line int
	// Values are those of the schema's columns, in their order: text, or "true" or "false"; ""
	// for none. nil if Err is set, and where rows are whole objects.
	Values []string
	// Object is the row where rows are whole objects.
	Object json.RawMessage
	// Cut says that this is the last row of CSV, and its line does not end: the input may have
	// been cut off in its last cell.
	Cut bool
	// Err is a *RowError if this row is bad.
	Err error
}

// bad returns the error of a row in a file.
func (r Record) bad(file, msg string) *RowError {
	if r.Element > 0 {
		msg = fmt.Sprintf("element %d: %s", r.Element, msg)
	}
	return &RowError{File: file, Line: r.Line, Row: r.Item, Msg: msg}
}
