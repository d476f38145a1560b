package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orgops/tasks"
)

// ParseRow checks one row, given as a JSON object, as the rows of a file of JSON Lines are
// checked.
func ParseRow(k tasks.Kind, object json.RawMessage) (tasks.Row, error) {
	if len(object) > MaxRow {
		return tasks.Row{}, fmt.Errorf("want at most %d bytes, got %d", MaxRow, len(object))
	}
	reader := jsonlReader{schema: schemaOf(k)}
	r, broken := reader.record(bytes.TrimSpace(object))
	if len(broken) > 0 {
		return tasks.Row{}, errors.New(strings.Join(broken, "; "))
	}
	return r.parse(k, tasks.Defaults{})
}

// parse checks what the row says by the rules of its kind.
func (r Record) parse(k tasks.Kind, d tasks.Defaults) (tasks.Row, error) {
	if k.WholeObject {
		return k.ParseObject(r.Object)
	}
	return k.Parse(r.Values, d)
}
