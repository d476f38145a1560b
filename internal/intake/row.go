package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/untrusted"
	"orgops/tasks"
)

// readRow is a row of the input, with its text and cells as [Reader.Last] returns them.
type readRow struct {
	Record

	row   tasks.Row // unless Err is set
	text  []byte
	cells []string
}

// ParseRow checks one row, given as a JSON object, as the rows of a file of JSON Lines are
// checked.
func ParseRow(k tasks.Kind, object json.RawMessage) (tasks.Row, error) {
	if len(object) > MaxRow {
		return tasks.Row{}, fmt.Errorf("want at most %d bytes, got %d", MaxRow, len(object))
	}
	reader := jsonlReader{schema: schemaOf(k), notes: &notes{}}
	r, broken := reader.record(bytes.TrimSpace(object))
	if len(broken) > 0 {
		return tasks.Row{}, errors.New(strings.Join(broken, "; "))
	}
	row, err := r.parse(k, tasks.Defaults{})
	if err == nil && row.NeedsIDs() {
		err = errors.New("the ids of its domain are missing")
	}
	return row, err
}

// Organizations reports whether an organization is one of those of which a submitter may submit
// rows; "" is that of rows without one. nil: all are.
type Organizations func(id string) bool

func (o Organizations) has(id string) bool { return o == nil || o(id) }

// check returns an error for a row that its submitter may not submit.
func (o Organizations) check(row tasks.Row) error {
	switch id := row.Organization(); {
	case o.has(id):
		return nil
	case id == "":
		return errors.New("you may submit rows of your organizations only, and this row has none")
	default:
		return fmt.Errorf("organization %s is not one of those that you may submit rows of", untrusted.Value(id))
	}
}

// parse checks a row by the rules of its kind.
func (r Record) parse(k tasks.Kind, d tasks.Defaults) (tasks.Row, error) {
	if k.WholeObject {
		return k.ParseObject(r.Object)
	}
	return k.Parse(r.Values, d)
}

// columnsWith returns the columns of the rows as they are stored: the columns of a CSV header and
// of the defaults, and the ids of named domains; nil for JSON Lines.
func columnsWith(k tasks.Kind, d tasks.Defaults, rows *Reader) []string {
	if rows.Format() != FormatCSV {
		return rows.Columns()
	}
	all := slices.Clone(rows.Columns())
	for _, column := range k.Columns {
		found := column.Or != "" && slices.Contains(all, column.Or)
		if (d[column.Name] != "" || found) && !slices.Contains(all, column.Name) {
			all = append(all, column.Name)
		}
	}
	return all
}

// schemaOf returns the schema of a kind's rows.
func schemaOf(k tasks.Kind) Schema { return Schema{Object: k.WholeObject, Columns: k.Columns} }

// oneLine puts an error of several lines on one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
