package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"orgops/internal/runs"
)

// FailedRow is a row that did not become what it asked for.
type FailedRow struct {
	runs.Result
	RowName
}

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

func (w FailedQuery) is(row FailedRow) bool {
	if w.Text == "" {
		return true
	}
	text := strings.ToLower(w.Text)
	return strings.Contains(strings.ToLower(row.Name), text) || strings.Contains(strings.ToLower(row.Detail), text)
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

// WriteFailedByReason writes why rows of the run failed: each reason once, the most frequent
// first, with the rows that failed for it. It looks at no more than most rows. about adds what
// else is known of a row; "": nothing.
func WriteFailedByReason(ctx context.Context, out io.Writer, ledger *runs.Ledger, r runs.Run, most int, about func(FailedRow) string) error {
	failed, err := FirstFailed(ctx, ledger, r, most)
	if err != nil || len(failed) == 0 {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), %d of %d rows failed:\n", r.ID, r.Kind, Failed(r), r.Total)
	for _, rows := range byReason(failed) {
		reason := rows[0].plainReason()
		if len(rows) == 1 { // nothing is shared: the reason as it is
			reason = said(rows[0].Result)
		}
		fmt.Fprintf(out, "  %d %s\n", len(rows), reason)
		for _, row := range rows[:min(len(rows), rowsShown)] {
			fmt.Fprintf(out, "     row %d (%s)", row.Item, row.Name)
			if more := about(row); more != "" {
				fmt.Fprintf(out, ": %s", more)
			}
			fmt.Fprintln(out)
		}
		if rest := len(rows) - rowsShown; rest > 0 {
			fmt.Fprintf(out, "     and %d more\n", rest)
		}
	}
	more(out, Failed(r)-int64(len(failed)))
	return nil
}

// rowsShown is how many rows of one reason are named.
const rowsShown = 3

// byReason groups rows that failed for the same reason, the largest group first.
func byReason(rows []FailedRow) (groups [][]FailedRow) {
	place := map[string]int{}
	for _, row := range rows {
		i, known := place[row.plainReason()]
		if !known {
			i, groups = len(groups), append(groups, nil)
			place[row.plainReason()] = i
		}
		groups[i] = append(groups[i], row)
	}
	slices.SortStableFunc(groups, func(a, b []FailedRow) int { return len(b) - len(a) })
	return groups
}

// plainReason is the row's outcome and detail, without the words that contain its
// identifiers, such as a verification host.
func (row FailedRow) plainReason() string {
	return mask(said(row.Result), ".:,", func(word string) bool {
		return row.Organization != "" && strings.Contains(word, row.Organization) || row.Domain != "" && strings.Contains(word, row.Domain)
	})
}

// said is a row's outcome, with its detail if it has one: a cancel gives none.
func said(f runs.Result) string {
	if f.Detail == "" {
		return f.Outcome
	}
	return f.Outcome + ": " + f.Detail
}
