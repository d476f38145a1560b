package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"orgops/dnscheck"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks/handlers"
)

// Export is the form of an export.
type Export struct {
	JSON bool // JSON Lines, whatever was submitted
	Raw  bool // cells of CSV as they are, also those that a spreadsheet takes for formulas
}

// ExportFailed writes the failed rows of a run to out, in their order and in the form in which
// they were submitted, with their outcome and reason as orgops_outcome and orgops_error; those of
// domain:verify with the record to publish, what was found, and advice. The output can be
// submitted unchanged; CSV is safe to open in a spreadsheet, unless it is raw. It holds a chunk of
// rows at a time, and returns the number of rows. Rows that are settled meanwhile may or may not be
// among them.
func ExportFailed(ctx context.Context, l *runs.Ledger, r ledger.Run, o Export, out io.Writer) (rows int64, err error) {
	stored, err := newStoredRows(l, r)
	if err != nil {
		return 0, err
	}
	var header []string
	if r.Format == FormatCSV && !o.JSON {
		header = r.Columns
	}
	names := []string{outcomeName, errorName}
	if r.Kind == handlers.Verify {
		names = append(names, adviceNames...)
	}
	w, err := newRowWriter(out, header, names...)
	if err != nil {
		return 0, err
	}
	w.raw = o.Raw
	defer func() { err = errors.Join(err, w.flush()) }()
	for f, err := range l.Results(ctx, r, 0) {
		if err != nil {
			return rows, err
		}
		if f.Well() {
			continue
		}
		source, err := stored.source(ctx, f.Item)
		if err != nil {
			return rows, err
		}
		added := append([]string{string(f.Outcome), f.Detail}, adviceOf(f)...)
		if w.csv != nil { // a row that was not checked has no advice
			added = append(added, make([]string, len(names)-len(added))...)
		}
		if err := stored.write(w, source, added...); err != nil {
			return rows, fmt.Errorf("run %s: write row %d: %w", r.ID, f.Item, err)
		}
		rows++
	}
	return rows, nil
}

// adviceOf returns the values of adviceNames for a row that has expired, or nil.
func adviceOf(f runs.Result) []string {
	e, err := handlers.ReadEvidence(f.Evidence)
	if err != nil || e.Record == nil {
		return nil
	}
	found, advice := "", f.Detail
	switch r := e.Finding; {
	case r != nil:
		found = r.Found
		if !strings.EqualFold(r.Host, e.Record.Host) {
			found = strings.TrimSpace(found + " at " + r.Host)
		}
	case e.State == dnscheck.Absent.String():
		advice += " Add a TXT record there with the expected value."
		if i := slices.IndexFunc(e.Said, func(o dnscheck.ObservationRecord) bool { return len(o.Values) > 0 }); i >= 0 {
			found = e.Said[i].Values[0]
		}
	}
	return []string{e.Record.Domain, e.Record.Host, e.Record.TXT, found, advice}
}

// write writes a row in the form of the writer.
func (s *storedRows) write(w *rowWriter, source []byte, added ...string) error {
	if w.csv != nil {
		cells, err := s.cells(source)
		if err != nil {
			return err
		}
		return w.cells(cells, added...)
	}
	members, err := s.members(source)
	if err != nil {
		return err
	}
	return w.object(members, added...)
}
