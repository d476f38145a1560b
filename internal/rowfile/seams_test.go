package rowfile

import (
	"encoding/json"
)

// Source returns the row that was read last: the cells of CSV as a JSON array, the line of
// JSON Lines.
func (r *Reader) Source() string {
	switch {
	case r.csv == nil:
		text, _ := r.Last()
		return string(text)
	case r.csv.cells == nil:
		return ""
	}
	b, err := json.Marshal(r.csv.cells)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ObjectOf returns a good row as a JSON object, the members in the order of the columns.
func ObjectOf(s Schema, r Record) string {
	if s.Object || r.Err != nil {
		return string(r.Object)
	}
	var o Object
	for i, c := range s.Columns {
		switch value := r.Values[i]; {
		case value == "":
		case c.Bool:
			o = append(o, Member{c.Name, json.RawMessage(value)})
		default:
			o = append(o, Member{c.Name, jsonString(value)})
		}
	}
	return string(o.JSON())
}
