package terminal

import (
	"fmt"
	"io"

	"orgops/internal/stamp"
	"orgops/internal/status"
)

// WriteDomain writes a domain: its record, its rows, each with the last check, and what sweeps have
// stored of it.
func WriteDomain(out io.Writer, d status.Domain) error {
	// The domain, and its record.
	w := NewTable(out)
	w.Facts(d.Facts())
	switch k := d.Known; {
	case k != nil:
		w.Line("TXT record", status.TXTRecord(k.Host, k.TXT))
		if k.State != "" {
			w.Line("last check", k.State+" at "+stamp.UTC(k.At))
		}
		if !k.Next.IsZero() {
			w.Line("next check", stamp.UTC(k.Next))
		}
	case d.Record != nil:
		w.Line("TXT record", status.TXTRecord(d.Record.Host, d.Record.TXT))
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}

	// Its rows, each with the last check.
	for i, row := range d.Rows {
		fmt.Fprintf(out, "run %s (%s, %s), row %d: %s\n", row.Run, row.Kind, stamp.UTC(row.CreatedAt), row.Item, row.Text())
		for _, fact := range row.Facts() {
			fmt.Fprintln(out, fact)
		}
		if !row.Fix.IsZero() {
			fmt.Fprintf(out, "what to do: %s\n", row.Fix)
		}
		if row.Evidence == nil {
			continue
		}
		fmt.Fprintln(out)
		if err := writeFindings(out, *row.Evidence, row.Evidence.When()); err != nil {
			return err
		}
		if i+1 < len(d.Rows) || d.More > 0 {
			fmt.Fprintln(out)
		}
	}
	if d.More > 0 {
		fmt.Fprintf(out, "and %d more\n", d.More)
	}

	// The state from sweeps.
	if d.Swept == nil {
		return nil
	}
	if len(d.Rows) > 0 {
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "what sweeps have seen:")
	return WriteSwept(out, *d.Swept)
}

// WriteSwept writes the state of a domain that sweeps have stored: the facts, two columns a line,
// then the domain's history, the proof of its token, and the evidence for each change of its
// record.
func WriteSwept(out io.Writer, d status.SweptDomain) error {
	w := NewTable(out)
	w.Facts(d.Facts())
	if err := w.Flush(); err != nil {
		return err
	}
	if len(d.History) > 0 {
		fmt.Fprintln(w, "\nWHEN\tWHAT\tWHY")
	}
	for _, e := range d.History {
		fmt.Fprintf(w, "%s\t%s\t%s\n", stamp.UTC(e.At), status.Shown(e.Event), status.ShownReason(e.Reason))
	}
	err := w.Flush()
	if d.Proof != nil && err == nil {
		fmt.Fprintln(out)
		err = writeFindings(out, *d.Proof, status.Fact{Name: "proven at", Text: stamp.UTC(d.ProvenAt)})
	}
	for _, e := range d.History {
		if e.Evidence != nil && err == nil {
			fmt.Fprintln(out)
			err = writeFindings(out, *e.Evidence, status.Fact{Name: status.Shown(e.Event), Text: stamp.UTC(e.At)})
		}
	}
	return err
}
