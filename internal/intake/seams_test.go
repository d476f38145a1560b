package intake

import (
	"encoding/json"

	"orgops/tasks"
)

// Repeated is a duplicate as [FindDuplicates] returns it.
type Repeated struct{ Item, Same int64 }

// FindDuplicates looks for duplicates among rows, holding most in memory.
func FindDuplicates(most int, rows []tasks.Row) (all []Repeated, err error) {
	f := newDuplicateFinder(most)
	for i, row := range rows {
		if err := f.add(Record{Item: int64(i), Line: i + 2}, row); err != nil {
			return nil, err
		}
	}
	err = f.each(func(r repeated) error {
		all = append(all, Repeated{r.item, r.same})
		return nil
	})
	return all, err
}

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
	var members []member
	for i, c := range s.Columns {
		switch value := r.Values[i]; {
		case value == "":
		case c.Bool:
			members = append(members, member{c.Name, json.RawMessage(value)})
		default:
			members = append(members, member{c.Name, jsonString(value)})
		}
	}
	return string(objectOf(members))
}
