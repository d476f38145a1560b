package terminal

import (
	"fmt"
	"io"
	"text/tabwriter"

	"orgops/internal/status"
)

// Table is a table on a terminal; Flush writes it.
type Table struct{ *tabwriter.Writer }

// NewTable returns a table that goes to out.
func NewTable(out io.Writer) Table { return Table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)} }

// Line adds a property and its value, unless that is empty.
func (t Table) Line(name, value string) {
	if value != "" {
		fmt.Fprintf(t, "%s\t%s\n", name, value)
	}
}

// Facts adds a line for each fact.
func (t Table) Facts(all []status.Fact) {
	for _, f := range all {
		t.Line(f.Name, f.Value())
	}
}

// more writes how many more there are, if there are any.
func more(out io.Writer, n int64) {
	if n > 0 {
		fmt.Fprintf(out, "  and %s more\n", status.Grouped(n))
	}
}
