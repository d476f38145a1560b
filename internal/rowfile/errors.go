package rowfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/spelling"
	"orgops/internal/untrusted"
)

// RowError describes a bad row: all of its errors are in Msg, in one line. Values of the row
// are quoted there, and cut.
type RowError struct {
	// File is the name given to Open.
	File string `json:"-"`
	// Line is where the row begins, from 1.
	Line int `json:"line"`
	// Row is the row's number, from 0: results and pages name it by this one.
	Row int64  `json:"row"`
	Msg string `json:"message"`
}

// Error returns "rows.csv:17: row 15: " and the message: editors jump to the line.
func (e *RowError) Error() string {
	return fmt.Sprintf("%s:%d: row %d: %s", e.File, e.Line, e.Row, e.Msg)
}

// HeaderError says why an input as a whole does not fit the schema: its header, or a row that
// is too long to be one.
type HeaderError struct {
	// File is the name given to Open, Line that of the header, or of the row.
	File string `json:"-"`
	Line int
	// Missing, Unknown and Double are names of columns: required and not there,
	// there and not in the schema, there more than once.
	Missing, Unknown, Double []string
	// Msg describes other errors; it may be empty if one of the lists is not.
	Msg string
	// Known are the names of the schema's columns, to suggest one for a misspelt name.
	Known []string
	// Expected is the schema in words: "organization_id[, verification_host]".
	Expected string
}

// Error names every column that does not fit, and the expected columns.
func (e *HeaderError) Error() string {
	var broken []string
	for _, list := range []struct {
		what         string
		names, known []string
	}{{"missing", e.Missing, nil}, {"unknown", e.Unknown, e.Known}, {"double", e.Double, nil}} {
		if len(list.names) > 0 {
			broken = append(broken, fmt.Sprintf("%s %s %s", list.what, plural(len(list.names), "column"),
				names(list.names, list.known)))
		}
	}
	if e.Msg != "" {
		broken = append(broken, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s; expected %s", e.File, e.Line, strings.Join(broken, "; "), e.Expected)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

const (
	// shownNames is how many columns an error lists before it counts the rest.
	shownNames = 8
)

// names lists names, each with the known one that was probably meant.
func names(all, known []string) string {
	shown := slices.Clone(all[:min(len(all), shownNames)])
	for i, name := range shown {
		shown[i] = untrusted.Value(name)
		if meant := spelling.Nearest(name, known); meant != "" {
			shown[i] += " (did you mean " + meant + "?)"
		}
	}
	if more := len(all) - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// endError says why neither a row nor those after it can be read, though the input itself can.
type endError string

func (e endError) Error() string { return string(e) }

// tooLong reports a row of more bytes than most.
func tooLong(most int) error {
	return endError(fmt.Sprintf("the row is longer than %d bytes: is each quote closed? The rows after it were not read",
		most))
}

// readError returns the error of an input that cannot be read further.
func readError(name string, line int, s Schema, err error) error {
	if end, ok := errors.AsType[endError](err); ok {
		return &HeaderError{File: name, Line: line, Msg: end.Error(), Expected: s.Expected()}
	}
	return fmt.Errorf("read %s at line %d: %w", name, line, err)
}
