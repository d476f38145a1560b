package intake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"orgops/tasks"
)

// Schema says which rows are expected.
type Schema struct {
	// Columns are CSV columns and, by the same names, JSON members. Text is any text without
	// NUL: a CSV cell, unchanged, or a JSON string. Bool is true or false: in CSV in any case,
	// since spreadsheets write TRUE; in JSON a boolean. A required column must be in the
	// header, and have a value that is not empty in every row.
	Columns []tasks.Column
	// Object means that each line of JSON is one whole object which is handed on
	// as it is, members unchecked; Columns does not count and CSV is refused.
	Object bool
	// Ignore names columns, or members, that are left out of the rows as if they
	// were not there.
	Ignore []string
}

// leftOut says whether the input's column of that name is one to ignore by the
// caller's wish. Those that begin orgops_ are ignored too, and stay in Source.
func (s Schema) leftOut(name string) bool { return slices.Contains(s.Ignore, name) }

// ignoredPrefix begins the names of columns and members that an export adds to
// the rows, so that an exported file can be sent in again as it is. In CSV they
// also tell that cells were made inert, which is undone.
const ignoredPrefix = "orgops_"

func ignored(name string) bool { return strings.HasPrefix(name, ignoredPrefix) }

// names are those of the columns.
func (s Schema) names() (all []string) {
	for _, c := range s.Columns {
		all = append(all, c.Name)
	}
	return all
}

// place is where among the columns the one of that name is, -1 if it is none.
func (s Schema) place(name string) int {
	return slices.IndexFunc(s.Columns, func(c tasks.Column) bool { return c.Name == name })
}

func (s Schema) places(names []string) []int {
	all := make([]int, len(names))
	for i, name := range names {
		all[i] = s.place(name)
	}
	return all
}

// expected writes the columns as a usage line does: required ones first, then
// the optional ones in brackets.
func (s Schema) expected() string {
	if s.Object {
		return "one JSON object a line"
	}
	var required, optional []string
	for _, c := range s.Columns {
		if c.Required {
			required = append(required, c.Name)
		} else {
			optional = append(optional, c.Name)
		}
	}
	words := strings.Join(required, ", ")
	switch {
	case len(optional) == 0:
		return words
	case words == "":
		return "[" + strings.Join(optional, ", ") + "]"
	}
	return words + "[, " + strings.Join(optional, ", ") + "]"
}

// normalized writes the object that a row stands for: the members of values, one
// for each of the schema's columns and nil where the row says nothing, so that
// equal rows are equal bytes whether they came as CSV or as JSON.
func (s Schema) normalized(values []json.RawMessage) json.RawMessage {
	size := len("{}")
	for i, c := range s.Columns {
		size += len(c.Name) + len(`"":,`) + len(values[i])
	}
	out := append(make([]byte, 0, size), '{')
	for i, c := range s.Columns {
		if values[i] == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(appendJSON(out, c.Name), ':')
		out = append(out, values[i]...)
	}
	return append(out, '}')
}

// missing says which required columns have no value.
func (s Schema) missing(values []json.RawMessage) []string {
	var broken []string
	for i, c := range s.Columns {
		if c.Required && values[i] == nil {
			broken = append(broken, c.Name+" is missing")
		}
	}
	return broken
}

func jsonString(s string) []byte { return appendJSON(make([]byte, 0, len(s)+len(`""`)), s) }

// jsonStrings is a JSON array of strings.
func jsonStrings(all []string) []byte {
	size := len("[]")
	for _, s := range all {
		size += len(s) + len(`"",`)
	}
	out := append(make([]byte, 0, size), '[')
	for i, s := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendJSON(out, s)
	}
	return append(out, ']')
}

// appendJSON appends a string to JSON.
func appendJSON(to []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(to, '"'), s...), '"')
	}
	out, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		panic(fmt.Sprintf("intake: JSON of a string: %v", err))
	}
	return append(to, out...)
}

// isPlain says whether the JSON form of s is s in quotes, as it is of nearly
// every cell: that spares most rows the general way.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte("\"\\<>&", c) >= 0 {
			return false
		}
	}
	return true
}
