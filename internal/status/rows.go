package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// OpenRow is a row that is not settled.
type OpenRow struct {
	runs.OpenRow
	RowName
}

// FailedRow is a row that did not become what it asked for.
type FailedRow struct {
	runs.Result
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

// OpenReason is why the row is open, without when it is looked at next.
func OpenReason(row OpenRow) string { return cmp.Or(row.Reason, forWorker) }

// FirstFailed returns the first most failed rows.
func FirstFailed(ctx context.Context, ledger *runs.Ledger, r runs.Run, most int) ([]FailedRow, error) {
	if Failed(r) == 0 {
		return nil, nil
	}
	failed, _, err := FailedPage(ctx, ledger, r, FailedQuery{Limit: most})
	return failed, err
}

// FailedQuery says which rows a page is of.
type FailedQuery struct {
	From    int64  // the first row that may be on it
	Outcome string // the rows that settled so; empty: all that are not well
	Text    string // stands in their name, or in why they settled so, in capitals or not; empty: anything may
	Limit   int    // rows on the page
	MaxRead int    // rows that are looked at, at the most; 0: as many as it takes
}

func (w FailedQuery) is(row FailedRow) bool {
	if w.Text == "" {
		return true
	}
	text := strings.ToLower(w.Text)
	return strings.Contains(strings.ToLower(row.Name), text) || strings.Contains(strings.ToLower(row.Detail), text)
}

// FailedPage returns failed rows, in their order.
// Where there may be more of them, next is the row to go on from; else it is 0. The
// page may be short of w.Limit, or empty, where w.MaxRead rows were looked at. Of one
// outcome no more are looked for than r counts.
func FailedPage(ctx context.Context, ledger *runs.Ledger, r runs.Run, w FailedQuery) (page []FailedRow, next int64, err error) {
	names, looked, settledSo := rowNames{ledger: ledger, run: r}, 0, int64(0)
	if w.Outcome != "" && r.Counts[w.Outcome] == 0 {
		return nil, 0, nil
	}
	for fate, err := range ledger.ResultsFrom(ctx, r.ID, w.From) {
		if err != nil {
			return nil, 0, err
		}
		if looked++; w.MaxRead > 0 && looked > w.MaxRead {
			return page, fate.Item, nil
		}
		if fate.Well() || (w.Outcome != "" && fate.Outcome != w.Outcome) {
			continue
		}
		if len(page) == w.Limit {
			return page, fate.Item, nil
		}
		name, err := names.of(ctx, fate.Item)
		if err != nil {
			return nil, 0, err
		}
		if row := (FailedRow{fate, name}); w.is(row) {
			page = append(page, row)
		}
		if settledSo++; w.From == 0 && w.Outcome != "" && settledSo == r.Counts[w.Outcome] {
			return page, 0, nil
		}
	}
	return page, 0, nil
}

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

// forWorker is what rows wait for to which no worker has come yet.
const forWorker = "waiting for a worker"

// String is the row with why it is open.
func (row OpenRow) String() string {
	return fmt.Sprintf("row %d (%s): %s", row.Item, row.Name, Waits(runs.Run{}, row.OpenRow))
}

// WriteFailed writes a line for each row that did not become what it asked
// for, with its reason: at most most of them, and how many more there are.
func WriteFailed(ctx context.Context, out io.Writer, ledger *runs.Ledger, r runs.Run, most int) error {
	if Failed(r) == 0 {
		return nil
	}
	failed, err := FirstFailed(ctx, ledger, r, most)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), failed rows:\n", r.ID, r.Kind)
	for _, row := range failed {
		fmt.Fprintf(out, "  row %d (%s): %s\n", row.Item, row.Name, said(row.Result))
	}
	more(out, Failed(r)-int64(len(failed)))
	return nil
}

// said is a row's outcome, with its detail if it has one: a cancel gives none.
func said(f runs.Result) string {
	if f.Detail == "" {
		return f.Outcome
	}
	return f.Outcome + ": " + f.Detail
}

func more(out io.Writer, n int64) {
	if n > 0 {
		fmt.Fprintf(out, "  and %d more\n", n)
	}
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

// longestShown is the most characters of a row's identifier that are shown.
const longestShown = 80

// Shown caps what a stranger wrote, and quotes it if it would not print as it
// stands.
func Shown(s string) string { return shown(s, longestShown) }

// shown is [Shown] with at most most characters.
func shown(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	if !utf8.ValidString(s) || slices.ContainsFunc([]rune(s), func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
