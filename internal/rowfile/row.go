package rowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orgops/tasks"
)

// Parse checks a good record by the rules of a kind, of whose [SchemaOf] it is. The defaults are
// for columns without a value. The error may have several lines.
func (r Record) Parse(k tasks.Kind, d tasks.Defaults) (tasks.Row, error) {
	if k.WholeObject {
		return k.ParseObject(r.Object)
	}
	return k.Parse(r.Values, d)
}

// ParseRow checks one row, given as a JSON object, as the rows of a file of JSON Lines are checked.
// A row that names its domain without its ids is an error.
func ParseRow(k tasks.Kind, object json.RawMessage) (tasks.Row, error) {
	if len(object) > MaxRow {
		return tasks.Row{}, fmt.Errorf("want at most %d bytes, got %d", MaxRow, len(object))
	}
	reader := jsonlReader{schema: SchemaOf(k), notes: &notes{}}
	r, broken := reader.record(bytes.TrimSpace(object))
	if len(broken) > 0 {
		return tasks.Row{}, errors.New(strings.Join(broken, "; "))
	}
	row, err := r.Parse(k, tasks.Defaults{})
	if err == nil && row.NeedsIDs() {
		err = errors.New("the ids of its domain are missing")
	}
	return row, err
}
