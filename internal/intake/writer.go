package intake

import (
	"bufio"
	"encoding/csv"
	"io"
	"slices"
)

// The columns and members that are added to rows.
const (
	outcomeName = ignoredPrefix + "outcome"
	errorName   = ignoredPrefix + "error"
	// itemName has the number of the row, from 0, settledAtName when its work was done, atName the
	// time of its proof or last check, and templateName the id of its template.
	itemName      = ignoredPrefix + "item"
	settledAtName = ignoredPrefix + "settled_at"
	atName        = ignoredPrefix + "at"
	templateName  = ignoredPrefix + "template"
	// The run: its id, kind and tenant, who has submitted it, and when its rows could start.
	runName         = ignoredPrefix + "run"
	kindName        = ignoredPrefix + "kind"
	tenantName      = ignoredPrefix + "tenant"
	submittedByName = ignoredPrefix + "submitted_by"
	startedAtName   = ignoredPrefix + "started_at"
	// What an update has replaced.
	statusBeforeName = ignoredPrefix + "status_before"
	flagBeforeName   = ignoredPrefix + "use_for_organization_discovery_before"
	// textName has the text of a row that does not fit: of CSV if its cells are more or fewer
	// than the header, of JSON Lines if it is no object.
	textName = ignoredPrefix + "row"
)

// rowWriter writes rows in the form in which they came, so that they can be submitted as a
// file of their own: JSON Lines, or CSV that is safe in a spreadsheet. It adds columns or
// members to them, and leaves out those that were added to them before.
type rowWriter struct {
	out     *bufio.Writer
	csv     *csv.Writer // nil: JSON Lines
	raw     bool        // cells are written as they are
	columns []int       // of the header, without those that were added before
	added   []string    // the names of the columns or members
}

// newRowWriter returns a writer after it has written the header of CSV; nil: JSON Lines.
func newRowWriter(out io.Writer, header []string, added ...string) (*rowWriter, error) {
	w := &rowWriter{out: bufio.NewWriterSize(out, 64<<10), added: added}
	if header == nil {
		return w, nil
	}
	w.csv = csv.NewWriter(w.out)
	var record []string
	for i, column := range header {
		if !ignored(column) && !slices.Contains(added, column) {
			w.columns = append(w.columns, i)
			record = append(record, inert(column))
		}
	}
	return w, w.csv.Write(append(record, added...))
}

// cells writes a row of CSV. cells are those of the header, nil if they are not known.
func (w *rowWriter) cells(cells []string, added ...string) error {
	record := make([]string, len(w.columns), len(w.columns)+len(added))
	for i, from := range w.columns {
		if cells != nil {
			record[i] = cells[from]
		}
	}
	record = append(record, added...)
	for i, cell := range record {
		if !w.raw {
			record[i] = inert(cell) // the reader undoes it
		}
	}
	return w.csv.Write(record)
}

// object writes a row of JSON Lines, its values as they were. Members to add that are empty are
// left out; the last ones may be missing.
func (w *rowWriter) object(members []member, added ...string) error {
	for i, text := range added {
		if text == "" {
			continue
		}
		members = slices.DeleteFunc(members, func(m member) bool { return m.name == w.added[i] })
		value := jsonString(text)
		if w.added[i] == itemName {
			value = []byte(text)
		}
		members = append(members, member{w.added[i], value})
	}
	_, err := w.out.Write(append(objectOf(members), '\n'))
	return err
}

// flush ends the writing; of nil it does nothing.
func (w *rowWriter) flush() error {
	if w == nil {
		return nil
	}
	if w.csv != nil {
		w.csv.Flush() // its error is one of out
	}
	return w.out.Flush()
}
