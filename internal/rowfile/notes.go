package rowfile

import (
	"fmt"
	"slices"
	"strings"

	"orgops/tasks"
)

// notes say how an input was read, where it has another form than the documents describe.
type notes struct {
	form   []string // of the input as a whole
	counts [len(counted)]int
}

// The rows and values that are counted.
const (
	emptyRows = iota
	blanks
	booleans
	nulls
)

var counted = [...]string{"%d empty row%s left out", "blanks around %d value%s left out",
	"%d value%s read as true or false", "%d null value%s left out"}

func (n *notes) add(form string, a ...any) { n.form = append(n.form, fmt.Sprintf(form, a...)) }

// String returns the notes in one line, "" for none.
func (n *notes) String() string {
	all := slices.Clone(n.form)
	for i, count := range n.counts {
		if count > 0 {
			all = append(all, fmt.Sprintf(counted[i], count, plural(count, "")))
		}
	}
	return strings.Join(all, ", ")
}

// words are those for true and false of spreadsheets in English and German, and of databases.
var words = map[string]string{
	"true": "true", "yes": "true", "1": "true", "t": "true", "wahr": "true",
	"false": "false", "no": "false", "0": "false", "f": "false", "falsch": "false",
}

// value returns a text as the value of a column, or in words the expected form.
func (n *notes) value(column tasks.Column, text string) (value, want string) {
	if value = text; !column.Exact {
		value = strings.TrimSpace(text)
	}
	if len(value) != len(text) {
		n.counts[blanks]++
	}
	if !column.Bool || value == "" {
		return value, ""
	}
	lower := strings.ToLower(value)
	word := words[lower]
	if word == "" {
		return "", "true or false"
	}
	if word != lower {
		n.counts[booleans]++
	}
	return word, ""
}
