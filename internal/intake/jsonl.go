package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
	members, err := decodeObject(text)
	switch {
	case err != nil:
		broken = []string{err.Error()}
	case j.schema.Object:
		r.Object = whole(text, members, j.schema)
	default:
		r.Values, broken = j.values(members)
	}
	return r, broken
}

// whole is the object as it is, but for the members that an export added and
// those to ignore.
func whole(text []byte, members []member, s Schema) json.RawMessage {
	others := withoutOurs(members, s)
	if len(others) == len(members) {
		return text
	}
	return objectOf(others)
}

// withoutOurs returns the members without those that an export added and those to ignore.
func withoutOurs(members []member, s Schema) (others []member) {
	exported := slices.ContainsFunc(members, func(m member) bool { return ignored(m.name) })
	for _, m := range members {
		if !s.added(m.name, exported) && !s.leftOut(m.name) {
			others = append(others, m)
		}
	}
	return others
}

// values returns the members as values of the schema's columns.
func (j *jsonlReader) values(members []member) (values, broken []string) {
	values = make([]string, len(j.schema.Columns))
	var unknown []string
	for _, m := range withoutOurs(members, j.schema) {
		place := j.schema.place(m.name)
		if place < 0 {
			unknown = append(unknown, m.name)
			continue
		}
		value, want := j.memberValue(j.schema.Columns[place], m.value)
		if want != "" {
			broken = append(broken, fmt.Sprintf("%s: want %s, got %s", m.name, want, shown(m.value)))
		}
		values[place] = value
	}
	if len(unknown) > 0 {
		broken = append(broken, fmt.Sprintf("unknown %s %s (expected %s)", plural(len(unknown), "member"),
			names(unknown, j.schema.names()), j.schema.expected()))
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
