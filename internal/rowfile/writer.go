package rowfile

import (
	"bufio"
	"encoding/csv"
	"io"
	"slices"
)

// Writer writes rows in the form in which they came, so that they can be submitted as a file of
// their own: JSON Lines, or CSV that is safe in a spreadsheet. It adds columns or members to them,
// and leaves out those that were added to them before. It is for one goroutine.
type Writer struct {
	// Raw says that the cells of rows are written as they are, also those that a spreadsheet takes
	// for formulas.
	Raw bool
	// Number is the added member whose values are numbers, which JSON has without quotes; "": none.
	Number string

	out     *bufio.Writer
	csv     *csv.Writer // nil: JSON Lines
	columns []int       // of the header, without those that were added before
	added   []string    // the names of the columns or members
}

// NewWriter returns a writer after it has written the header of CSV, with the names of the added
// columns behind its own; nil: JSON Lines. The error is one of out.
func NewWriter(out io.Writer, header []string, added ...string) (*Writer, error) {
	w := &Writer{out: bufio.NewWriterSize(out, 64<<10), added: added}
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

// CSV reports whether rows are written by [Writer.Cells], not by [Writer.Object].
func (w *Writer) CSV() bool { return w.csv != nil }

// Cells writes a row of CSV. cells are those of the header, nil if they are not known, and added
// one for each added column. The error is one of out.
func (w *Writer) Cells(cells []string, added ...string) error {
	record := make([]string, len(w.columns), len(w.columns)+len(added))
	for i, from := range w.columns {
		if cells != nil {
			record[i] = cells[from]
		}
	}
	record = append(record, added...)
	for i, cell := range record {
		if !w.Raw {
			record[i] = inert(cell) // the reader undoes it
		}
	}
	return w.csv.Write(record)
}

// Object writes a row of JSON Lines, its values as they were. Members to add that are empty are
// left out; the last ones may be missing. The error is one of out.
func (w *Writer) Object(o Object, added ...string) error {
	for i, text := range added {
		if text == "" {
			continue
		}
		o = slices.DeleteFunc(o, func(m Member) bool { return m.Name == w.added[i] })
		value := jsonString(text)
		if w.added[i] == w.Number {
			value = []byte(text)
		}
		o = append(o, Member{w.added[i], value})
	}
	_, err := w.out.Write(append(o.JSON(), '\n'))
	return err
}

// Flush ends the writing. The error is one of out.
func (w *Writer) Flush() error {
	if w.csv != nil {
		w.csv.Flush() // its error is one of out
	}
	return w.out.Flush()
}
