package terminal

import (
	"cmp"
	"fmt"
	"io"

	"orgops/internal/status"
)

// WriteCheck writes the record and the findings of a check.
func WriteCheck(out io.Writer, c status.CheckResult) error {
	heading := status.Fact{Name: "TXT record"}
	if c.Host != "" {
		heading.Text = fmt.Sprintf("at %s, with the value %s", status.Whole(c.Host), status.Whole(c.TXT))
	}
	if c.Findings != nil {
		return writeFindings(out, *c.Findings, heading)
	}
	w := NewTable(out)
	w.Line(heading.Name, heading.Text)
	w.Line("verdict", "not checked: "+c.Error)
	return w.Flush()
}

// writeFindings writes the heading and the facts, two columns a line, and then the answer of each
// server.
func writeFindings(out io.Writer, f status.Findings, heading status.Fact) error {
	w := NewTable(out)
	w.Facts([]status.Fact{heading})
	w.Facts(f.Facts())
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nSERVER\tANSWER\tFOUND\tTOOK")
	for _, o := range f.Said {
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\n", status.ServerName(o), o.State, o.Reason,
			cmp.Or(status.AnswerText(o), "-"), status.Took(o))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missing := status.MissingAnswers(f.Evidence.Evidence); missing != "" {
		fmt.Fprintln(out, missing)
	}
	return nil
}
