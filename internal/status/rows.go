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
	"orgops/internal/ledger"
	"orgops/internal/runs"
)

// OpenRow is a row that is not settled.
type OpenRow struct {
	runs.OpenRow
	RowName
}

// RowName identifies a row. Name has its identifiers, safe to print; Organization and Domain
// are the ids of these as they were submitted, empty if the row names none.
type RowName struct {
	Name                 string
	Organization, Domain string
}

// OpenPage returns at most that many open rows, from row first on. If there may be more, next is
// the row to continue from; else it is 0.
func OpenPage(ctx context.Context, ledger *runs.Ledger, r ledger.Run, first int64, most int) (page []OpenRow, next int64, err error) {
	for row, err := range OpenFrom(ctx, ledger, r, first) {
		if err != nil {
			return nil, 0, err
		}
		if len(page) == most {
			return page, row.Item, nil
		}
		page = append(page, row)
	}
	return page, 0, nil
}

// OpenFrom returns the open rows from row first on. It holds few of them at a time.
func OpenFrom(ctx context.Context, ledger *runs.Ledger, r ledger.Run, first int64) iter.Seq2[OpenRow, error] {
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

// WithStop returns an open row; if its run is stopped, with that as the reason.
func WithStop(r ledger.Run, row runs.OpenRow) runs.OpenRow {
	stopped := Stopped(r)
	if stopped == "" {
		return row
	}
	if row.Reason != "" {
		stopped += "; before: " + row.Reason
	}
	return runs.OpenRow{Item: row.Item, Reason: stopped}
}

// waits returns why the row of the run is open, and when it is checked next.
func waits(r ledger.Run, row runs.OpenRow) string {
	row = WithStop(r, row)
	return cmp.Or(row.Reason, forWorker) + nextAt("check", row.Next)
}

// forWorker is the reason of rows that were not executed yet.
const forWorker = "waiting for a worker"

// Waits returns why the row is open.
func (row OpenRow) Waits() string { return cmp.Or(row.Reason, forWorker) }

// WriteOpen writes a line for each of the first most open rows, with the reason and the time
// of the next check, and the number of the others.
func WriteOpen(ctx context.Context, out io.Writer, ledger *runs.Ledger, r ledger.Run, most int) error {
	if r.Ended() {
		return nil
	}
	open, _, err := OpenPage(ctx, ledger, r, 0, most)
	if err != nil || (len(open) == 0 && most > 0) {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), open rows:\n", r.ID, r.Kind)
	for _, row := range open {
		fmt.Fprintf(out, "  %s\n", row)
	}
	if r.Sealed() {
		more(out, r.Total()-r.Settled()-int64(len(open)))
	}
	return nil
}

// String returns the row with the reason why it is open.
func (row OpenRow) String() string {
	return fmt.Sprintf("row %d (%s): %s", row.Item, row.Name, waits(ledger.Run{}, row.OpenRow))
}

// rowNames returns the names of rows. It caches the last chunk, since rows are named in
// their order.
type rowNames struct {
	ledger *runs.Ledger
	run    ledger.Run

	first int64
	chunk [][]byte
}

// chunk is the number of rows that are read at once: the ledger compresses as many together.
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

// rowName returns the name of a stored row: an object, or the input of an invalid row, which
// is the list of its cells if it was CSV.
func rowName(r ledger.Run, source []byte) RowName {
	var row any
	text := intake.PlainText(source)
	if json.Unmarshal(text, &row) != nil { // a line that could not be read
		return RowName{Name: Shown(string(text))}
	}
	values, _ := row.(map[string]any)
	if cells, ok := row.([]any); ok {
		if len(cells) == 1 && len(r.Columns) != 1 { // a line of CSV that could not be read
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
