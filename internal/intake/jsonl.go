package intake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"orgops/tasks"
)

// jsonlReader gives the rows of JSON Lines: an object a line, blank lines
// skipped.
type jsonlReader struct {
	in     *bufio.Reader
	number int // line that is read next, from 1
	schema Schema
	text   []byte // read last; nil where it is too long
}

func (j *jsonlReader) line() int { return j.number }

func (j *jsonlReader) last() (text []byte, cells []string) { return j.text, nil }

func (j *jsonlReader) next() (row, error) {
	for {
		got := row{line: j.number}
		text, long, err := j.readLine()
		if err != nil {
			return row{}, err
		}
		j.number++
		j.text = text
		if long {
			got.broken = []string{fmt.Sprintf("the line is longer than %d bytes", MaxRow)}
			return got, nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		got.source = text
		got.object, got.broken = j.object(bytes.TrimSpace(text))
		if len(j.schema.Ignore) > 0 && len(got.broken) == 0 {
			got.source = got.object
		}
		return got, nil
	}
}

// readLine returns the next line without its end, as a slice of its own; of a
// line past MaxRow only that it is too long. At the end the error is io.EOF.
func (j *jsonlReader) readLine() (text []byte, long bool, err error) {
	size := 0
	for {
		part, err := j.in.ReadSlice('\n')
		size += len(part)
		if size <= MaxRow+len("\r\n") {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size > 0:
		case err != nil:
			return nil, false, err
		}
		break
	}
	if size > MaxRow+len("\r\n") {
		return nil, true, nil
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
	return text, len(text) > MaxRow, nil
}

func (j *jsonlReader) object(text []byte) (json.RawMessage, []string) {
	switch {
	case !utf8.Valid(text):
		return nil, []string{"the line is not UTF-8"}
	case bytes.IndexByte(text, 0) >= 0:
		return nil, []string{"the line has a NUL in it"}
	}
	members, err := decodeObject(text)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if j.schema.Object {
		return whole(text, members, j.schema), nil
	}
	return j.fit(members)
}

// whole is the object as it is, but for the members that an export added and
// those to ignore.
func whole(text []byte, members []member, s Schema) json.RawMessage {
	if !slices.ContainsFunc(members, func(m member) bool { return ignored(m.name) || s.leftOut(m.name) }) {
		return text
	}
	return objectOf(slices.DeleteFunc(members, func(m member) bool { return ignored(m.name) || s.leftOut(m.name) }))
}

// fit holds the members against the schema.
func (j *jsonlReader) fit(members []member) (json.RawMessage, []string) {
	values := make([]json.RawMessage, len(j.schema.Columns))
	var broken, unknown []string
	for _, m := range members {
		place := j.schema.place(m.name)
		switch {
		case ignored(m.name), j.schema.leftOut(m.name):
			continue
		case place < 0:
			unknown = append(unknown, m.name)
			continue
		}
		value, want := memberValue(j.schema.Columns[place], m.value)
		if want != "" {
			broken = append(broken, fmt.Sprintf("%s: want %s, got %s", m.name, want, shown(m.value)))
			continue
		}
		values[place] = value
	}
	if len(unknown) > 0 {
		broken = append(broken, fmt.Sprintf("unknown %s %s (expected %s)", plural(len(unknown), "member"), names(unknown, j.schema.names()), j.schema.expected()))
	}
	if len(broken) == 0 {
		broken = j.schema.missing(values)
	}
	return j.schema.normalized(values), broken
}

// memberValue is a value in the form that CSV gives it too, or in words what it
// should have been.
func memberValue(column tasks.Column, value json.RawMessage) (normal json.RawMessage, want string) {
	if column.Bool {
		if text := string(value); text != "true" && text != "false" {
			return nil, "true or false"
		}
		return value, ""
	}
	var text string
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return nil, "text"
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return nil, "text without NUL"
	case loneSurrogate(value):
		return nil, "text without half a surrogate pair"
	case text == "" && column.Required:
		return nil, "text that is not empty"
	}
	return jsonString(text), ""
}

// shown is a JSON value for an error: a string as it is quoted there, all else
// as it was written.
func shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return quoted(text)
	}
	if runes := []rune(string(value)); len(runes) > shownRunes {
		return string(runes[:shownRunes]) + "…"
	}
	return string(value)
}

// loneSurrogate tells of an escape such as "\ud800" that stands for no
// character: decoding would quietly put another in its place.
func loneSurrogate(literal []byte) bool {
	for i := 0; i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		i++ // what is escaped; a valid literal never ends in a backslash
		unit, ok := escapedUnit(literal[i-1:])
		if !ok {
			continue
		}
		i += 4
		if unit < 0xd800 || unit > 0xdfff {
			continue
		}
		low, ok := escapedUnit(literal[i+1:])
		if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads the \uXXXX that text begins with.
func escapedUnit(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		unit <<= 4
		switch {
		case '0' <= c && c <= '9':
			unit |= rune(c - '0')
		case 'a' <= c && c <= 'f':
			unit |= rune(c-'a') + 10
		case 'A' <= c && c <= 'F':
			unit |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return unit, true
}
