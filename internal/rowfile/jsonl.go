package rowfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"orgops/internal/untrusted"
	"orgops/tasks"
)

// jsonlReader gives the rows of JSON Lines: an object a line, blank lines
// skipped.
type jsonlReader struct {
	lines  *bufio.Scanner
	number int // line that is read next, from 1
	schema Schema
	notes  *notes
	text   []byte // read last
}

func newJSONLReader(in io.Reader, line int, s Schema, n *notes) *jsonlReader {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxRow+len("\r\n")+1)
	return &jsonlReader{lines: lines, number: line, schema: s, notes: n}
}

func (j *jsonlReader) line() int { return j.number }

func (j *jsonlReader) last() (text []byte, cells []string) { return j.text, nil }

func (j *jsonlReader) next() (r Record, broken []string, err error) {
	for j.lines.Scan() && j.lines.Err() == nil {
		if len(j.lines.Bytes()) > MaxRow {
			return Record{}, nil, tooLong(MaxRow)
		}
		j.text = bytes.Clone(j.lines.Bytes())
		j.number++
		if text := bytes.TrimSpace(j.text); len(text) > 0 {
			r, broken = j.record(text)
			r.Line = j.number - 1
			return r, broken, nil
		}
	}
	if errors.Is(j.lines.Err(), bufio.ErrTooLong) {
		return Record{}, nil, tooLong(MaxRow)
	}
	return Record{}, nil, cmp.Or(j.lines.Err(), io.EOF)
}

// record returns the row that a line is.
func (j *jsonlReader) record(text []byte) (r Record, broken []string) {
	switch {
	case !utf8.Valid(text):
		return r, []string{"the line " + notUTF8}
	case bytes.Contains(text, []byte("\ufffd")):
		return r, []string{"the line " + lossy}
	case bytes.IndexByte(text, 0) >= 0:
		return r, []string{"the line has a NUL in it"}
	}
	object, err := DecodeObject(text)
	switch {
	case err != nil:
		broken = []string{err.Error()}
	case j.schema.Object:
		r.Object = object.whole(text, j.schema)
	default:
		r.Values, broken = j.values(object)
	}
	return r, broken
}

// values returns the members of an object as values of the schema's columns.
func (j *jsonlReader) values(o Object) (values, broken []string) {
	values = make([]string, len(j.schema.Columns))
	var unknown []string
	for _, m := range o.Own(j.schema) {
		place := j.schema.place(m.Name)
		if place < 0 {
			unknown = append(unknown, m.Name)
			continue
		}
		value, want := j.memberValue(j.schema.Columns[place], m.Value)
		if want != "" {
			broken = append(broken, fmt.Sprintf("%s: want %s, got %s", m.Name, want, shown(m.Value)))
		}
		values[place] = value
	}
	if len(unknown) > 0 {
		broken = append(broken, fmt.Sprintf("unknown %s %s (expected %s)", plural(len(unknown), "member"),
			names(unknown, j.schema.names()), j.schema.Expected()))
	}
	if len(broken) == 0 {
		broken = j.schema.missing(values)
	}
	return values, broken
}

// memberValue returns a member's value as that of a column, or in words the expected form. null is
// no value.
func (j *jsonlReader) memberValue(column tasks.Column, value json.RawMessage) (text, want string) {
	switch {
	case string(value) == "null":
		j.notes.counts[nulls]++
		return "", ""
	case column.Bool && value[0] != '"':
		return j.notes.value(column, string(value))
	case value[0] != '"' || json.Unmarshal(value, &text) != nil:
		return "", "text"
	case strings.IndexByte(text, 0) >= 0:
		return text, "text without NUL"
	case text == "" && column.Required:
		return text, "text that is not empty"
	}
	return j.notes.value(column, text)
}

// shown is a JSON value for an error: a string as it is quoted there, all else
// as it was written.
func shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return untrusted.Value(text)
	}
	return untrusted.JSON(value)
}
