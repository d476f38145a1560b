package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
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
	text   []byte // read last
}

func newJSONLReader(in io.Reader, line int, s Schema) *jsonlReader {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxRow+len("\r\n")+1)
	return &jsonlReader{lines: lines, number: line, schema: s}
}

func (j *jsonlReader) line() int { return j.number }

func (j *jsonlReader) last() (text []byte, cells []string) { return j.text, nil }

func (j *jsonlReader) next() (r Record, broken []string, err error) {
	for j.lines.Scan() && j.lines.Err() == nil {
		if len(j.lines.Bytes()) > MaxRow {
			return Record{}, nil, tooLongError(MaxRow)
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
		return Record{}, nil, tooLongError(MaxRow)
	}
	return Record{}, nil, cmp.Or(j.lines.Err(), io.EOF)
}

// record returns the row that a line is.
func (j *jsonlReader) record(text []byte) (r Record, broken []string) {
	switch {
	case !utf8.Valid(text):
		return r, []string{"the line is not UTF-8"}
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
		value, want := memberValue(j.schema.Columns[place], m.value)
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

// memberValue returns a member's value as that of a column, or in words the expected form.
func memberValue(column tasks.Column, value json.RawMessage) (text, want string) {
	if column.Bool {
		if !isBool(string(value)) {
			want = "true or false"
		}
		return string(value), want
	}
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", "text"
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		want = "text without NUL"
	case loneSurrogate(value):
		want = "text without half a surrogate pair"
	case text == "" && column.Required:
		want = "text that is not empty"
	}
	return text, want
}

// shown is a JSON value for an error: a string as it is quoted there, all else
// as it was written.
func shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return quoted(text)
	}
	return untrusted.Plain(string(value), shownRunes)
}

var (
	escapedBackslash = []byte(`\\`)
	surrogatePair    = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
	surrogate        = regexp.MustCompile(`(?i)\\ud[89a-f]`)
)

// loneSurrogate reports whether a valid literal has an escape such as "\ud800" that is no
// character: decoding would silently replace it.
func loneSurrogate(literal []byte) bool {
	if !bytes.Contains(literal, []byte(`\u`)) {
		return false
	}
	escapes := bytes.ReplaceAll(literal, escapedBackslash, []byte{' '})
	return surrogate.Match(surrogatePair.ReplaceAll(escapes, []byte{' '}))
}
