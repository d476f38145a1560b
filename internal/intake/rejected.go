package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"orgops/internal/results"
	"orgops/internal/rowfile"
)

// reason returns the error of a row without its file and line.
func reason(bad error) string {
	if row, ok := errors.AsType[*rowfile.RowError](bad); ok {
		return row.Msg
	}
	return bad.Error()
}

// maxBad bounds the text of a bad row that is stored, in bytes. A row of ids and names is
// shorter, and a small gzip body may have many that are long.
const maxBad = 2 << 10

// maxSkipped bounds the bad rows of a submission that are stored, with their reasons, in bytes:
// those of some 150,000 rows. They stay in Redis for a month, and a gzip body of some kilobytes
// may have a million.
const maxSkipped = 16 << 20

// badContent returns a bad row as it is stored: a cell for each of the run's columns, or the
// object behind a mark. No handler takes either for a row. One that cannot be that is stored
// empty: cut, filled up or put right to fit, it could be taken for a good one later.
func (r *reading) badContent(one readRow) []byte {
	text := one.text
	cells := one.cells
	if r.rows.Format() == rowfile.FormatCSV {
		for i, cell := range cells {
			cells[i] = strings.ToValidUTF8(cell, "\ufffd") // it is stored as JSON
		}
		all := make([]string, len(r.columns)) // "" in those that defaults fill
		if cells != nil && len(text) <= maxBad && !r.areGood(cells) {
			copy(all, r.rows.Kept(cells))
		}
		content, _ := json.Marshal(all) // strings always have a JSON form
		return content
	}
	text = bytes.TrimSpace(text)
	object, ok := r.rows.Own(text)
	if !ok || len(text) > maxBad {
		object = json.RawMessage("{}")
	}
	return results.MarkBad(object)
}

// areGood reports whether cells would be taken for a row.
func (r *reading) areGood(cells []string) bool {
	values, ok := r.rows.Values(cells)
	if !ok {
		return false
	}
	row, err := r.kind.Parse(values, r.in.Defaults)
	return err == nil && !row.NeedsIDs()
}
