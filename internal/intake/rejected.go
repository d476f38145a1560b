package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// reject writes a bad row to the file of rejected rows.
func (r *reading) reject(one readRow) (err error) {
	if r.rejected == nil {
		var header []string
		if r.rows.csv != nil {
			header = r.rows.csv.names
		}
		if r.rejected, err = newRowWriter(r.in.Rejected, header, errorName, textName); err != nil {
			return err
		}
	}
	switch {
	case r.rows.csv == nil:
		return r.rejected.object(rejectedMembers(one.text), reason(one.Err))
	case one.cells == nil:
		return r.rejected.cells(nil, reason(one.Err), string(one.text))
	}
	return r.rejected.cells(one.cells, reason(one.Err), "")
}

// rejectedMembers are those of a bad line of JSON Lines, or its text.
func rejectedMembers(line []byte) []member {
	members, err := decodeObject(bytes.TrimSpace(line))
	if err != nil {
		return []member{{textName, jsonString(string(line))}}
	}
	return withoutOurs(members, Schema{})
}

// reason returns the error of a row without its file and line.
func reason(bad error) string {
	if row, ok := errors.AsType[*RowError](bad); ok {
		return row.Msg
	}
	return bad.Error()
}

// badMark precedes the text of a bad row of JSON Lines: the two are not JSON.
const badMark = '!'

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
	text, cells := one.text, one.cells
	if format := r.rows.csv; format != nil {
		for i, cell := range cells {
			cells[i] = strings.ToValidUTF8(cell, "\ufffd") // it is stored as JSON
		}
		all := make([]string, len(r.columns)) // "" in those that defaults fill
		if cells != nil && len(text) <= maxBad && !r.areGood(cells) {
			copy(all, format.notLeftOut(cells))
		}
		content, _ := json.Marshal(all) // strings always have a JSON form
		return content
	}
	text = bytes.TrimSpace(text)
	object := json.RawMessage("{}")
	if members, err := decodeObject(text); err == nil && len(text) <= maxBad {
		object = whole(text, members, r.rows.schema)
	}
	return append([]byte{badMark}, object...)
}

// areGood reports whether cells would be taken for a row.
func (r *reading) areGood(cells []string) bool {
	format := *r.rows.csv
	format.notes = &notes{} // which are about the input
	values, broken := format.values(cells)
	if len(broken) > 0 {
		return false
	}
	row, err := r.kind.Parse(values, r.in.Defaults)
	return err == nil && !row.NeedsIDs()
}
