package intake

import (
	"encoding/json"
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

// missing says which required columns have no value.
func (s Schema) missing(values []string) []string {
	var broken []string
	for i, c := range s.Columns {
		if c.Required && values[i] == "" {
			broken = append(broken, c.Name+" is missing")
		}
	}
	return broken
}

// jsonString returns a string as JSON.
func jsonString(s string) []byte {
	out, _ := json.Marshal(s) // a string always has a JSON form
	return out
}
