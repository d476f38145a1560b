package intake

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// readRow is a row of the input, with its text and cells as [rowfile.Reader.Last] returns them.
type readRow struct {
	rowfile.Record

	row   tasks.Row // unless Err is set
	text  []byte
	cells []string
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

// columnsWith returns the columns of the rows as they are stored: the columns of a CSV header and
// of the defaults, and the ids of named domains; nil for JSON Lines.
func columnsWith(k tasks.Kind, d tasks.Defaults, rows *rowfile.Reader) []string {
	if rows.Format() != rowfile.FormatCSV {
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

// oneLine puts an error of several lines on one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
