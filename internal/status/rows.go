package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// OpenRow is a row that is not settled.
type OpenRow struct {
	runs.OpenRow
	RowName
}

// RowName is by which a row is known. Name has its identifiers, fit to be shown;
// Organization and Domain are the ids of these as they were submitted, empty where
// the row names none.
type RowName struct {
	Name                 string
	Organization, Domain string
}

// FirstOpen returns the first most rows that are not settled.
func FirstOpen(ctx context.Context, ledger *runs.Ledger, r runs.Run, most int) ([]OpenRow, error) {
	var open []OpenRow
	for row, err := range OpenFrom(ctx, ledger, r, 0) {
		if err != nil {
			return nil, err
		}
		if len(open) == most {
			break
		}
		open = append(open, row)
	}
	return open, nil
}

// OpenFrom returns the rows from row first on that are not settled, and holds few of
// them at a time.
func OpenFrom(ctx context.Context, ledger *runs.Ledger, r runs.Run, first int64) iter.Seq2[OpenRow, error] {
	return func(yield func(OpenRow, error) bool) {
		names := rowNames{ledger: ledger, run: r}
		for row, err := range ledger.OpenFrom(ctx, r.ID, first) {
			var name RowName
			if err == nil {
				name, err = names.of(ctx, row.Item)
			}
			if !yield(OpenRow{WithStop(r, row), name}, err) || err != nil {
				return
			}
		}
	}
}

// WithStop returns an open row with the reason of its run, if that is stopped.
func WithStop(r runs.Run, row runs.OpenRow) runs.OpenRow {
	stopped := Stopped(r)
	if stopped == "" {
		return row
	}
	if row.Reason != "" {
		stopped += "; before: " + row.Reason
	}
	return runs.OpenRow{Item: row.Item, Reason: stopped}
}

// Waits says why the open row of that run is open, and when it is looked at next.
func Waits(r runs.Run, row runs.OpenRow) string {
	row = WithStop(r, row)
	return cmp.Or(row.Reason, forWorker) + nextAt("check", row.Next)
}

// forWorker is what rows wait for to which no worker has come yet.
const forWorker = "waiting for a worker"

// OpenReason is why the row is open, without when it is looked at next.
func OpenReason(row OpenRow) string { return cmp.Or(row.Reason, forWorker) }

// WriteOpen writes a line for each row that is not settled, with why it was
// last left open and when it is looked at next: at most most of them, and how
// many more there are.
func WriteOpen(ctx context.Context, out io.Writer, ledger *runs.Ledger, r runs.Run, most int) error {
	if r.Ended() {
		return nil
	}
	open, err := FirstOpen(ctx, ledger, r, most)
	if err != nil || (len(open) == 0 && most > 0) {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), open rows:\n", r.ID, r.Kind)
	for _, row := range open {
		fmt.Fprintf(out, "  %s\n", row)
	}
	if r.Sealed {
		more(out, r.Total-r.Settled-int64(len(open)))
	}
	return nil
}

// String is the row with why it is open.
func (row OpenRow) String() string {
	return fmt.Sprintf("row %d (%s): %s", row.Item, row.Name, Waits(runs.Run{}, row.OpenRow))
}

// rowNames names rows by their identifiers, as they were submitted. It keeps
// the last chunk read, since rows are asked for in their order.
type rowNames struct {
	ledger *runs.Ledger
	run    runs.Run

	first int64
	chunk [][]byte
}

// chunk is how many rows are read at once, as many as the ledger compresses together.
const chunk = 128

func (n *rowNames) of(ctx context.Context, item int64) (RowName, error) {
	if first := item - item%chunk; n.chunk == nil || n.first != first {
		rows, err := n.ledger.Rows(ctx, n.run.ID, first, chunk)
		if err != nil {
			return RowName{}, err
		}
		n.first, n.chunk = first, rows
	}
	at := item - n.first
	if at >= int64(len(n.chunk)) {
		return RowName{Name: "not stored"}, nil
	}
	return rowName(n.run, n.chunk[at]), nil
}

// rowName names a stored row: an object, or what was submitted of an invalid one, which is its
// cells if it was of CSV.
func rowName(r runs.Run, source []byte) RowName {
	var row any
	text := intake.PlainText(source)
	if json.Unmarshal(text, &row) != nil { // a line that could not be read
		return RowName{Name: Shown(string(text))}
	}
	values, _ := row.(map[string]any)
	if cells, ok := row.([]any); ok {
		if len(cells) == 1 && len(r.Columns) != 1 { // such a line of CSV
			return RowName{Name: Shown(fmt.Sprint(cells[0]))}
		}
		values = map[string]any{}
		for i, column := range r.Columns[:min(len(r.Columns), len(cells))] {
			values[column] = cells[i]
		}
	}
	value := func(member string) string {
		text, _ := values[member].(string)
		return text
	}
	var names []string
	for _, member := range []string{"organization_id", "discovery_domain_id", "client_id", "name"} {
		if value(member) != "" {
			names = append(names, Shown(value(member)))
		}
	}
	return RowName{strings.Join(names, " "), value("organization_id"), value("discovery_domain_id")}
}
