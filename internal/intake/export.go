package intake

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orgops/internal/ledger"
	"orgops/internal/runs"
)

// ExportFailed writes the failed rows of a run to out, in their order and in the form in which
// they were submitted, or with asJSON as JSON Lines, with their outcome and reason as
// orgops_outcome and orgops_error. The output can be submitted unchanged; CSV is safe to open
// in a spreadsheet. It holds a chunk of rows at a time, and returns the number of rows. Rows
// that are settled meanwhile may or may not be among them.
func ExportFailed(ctx context.Context, l *runs.Ledger, r ledger.Run, asJSON bool,
	out io.Writer) (rows int64, err error) {
	stored, err := newStoredRows(l, r)
	if err != nil {
		return 0, err
	}
	var header []string
	if r.Format == FormatCSV && !asJSON {
		header = r.Columns
	}
	w, err := newRowWriter(out, header, outcomeName, errorName)
	if err != nil {
		return 0, err
	}
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
		if err := stored.write(w, source, string(f.Outcome), f.Detail); err != nil {
			return rows, fmt.Errorf("run %s: write row %d: %w", r.ID, f.Item, err)
		}
		rows++
	}
	return rows, nil
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
