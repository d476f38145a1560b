package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/runs"
)

// FailedRow is a row that settled without success.
type FailedRow struct {
	runs.Result
	RowName
}

// FirstFailed returns the first most failed rows.
func FirstFailed(ctx context.Context, l *runs.Ledger, r ledger.Run, most int) ([]FailedRow, error) {
	if Failed(r) == 0 {
		return nil, nil
	}
	failed, _, err := FailedPage(ctx, l, r, FailedQuery{Limit: most})
	return failed, err
}

// FailedQuery selects a page of failed rows.
type FailedQuery struct {
	From    int64  // the first row that may be on it
	Outcome string // of the rows; empty: any
	Text    string // contained in a row's name or detail, in any case; empty: any
	Limit   int    // the most rows of the page
	MaxRead int    // the most rows to read; 0: no bound
}

// FailedPage returns failed rows, in their order. If there may be more, next is the row to
// continue from; else it is 0. A page for which MaxRead rows were read may be short of Limit,
// or empty. Of one outcome it reads no more rows than r counts.
func FailedPage(ctx context.Context, l *runs.Ledger, r ledger.Run, w FailedQuery) (page []FailedRow, next int64, err error) {
	names, read, found := rowNames{ledger: l, run: r}, 0, int64(0)
	if w.Outcome != "" && r.Counts[ledger.Outcome(w.Outcome)] == 0 {
		return nil, 0, nil
	}
	for result, err := range l.Results(ctx, r.ID, w.From) {
		if err != nil {
			return nil, 0, err
		}
		if read++; w.MaxRead > 0 && read > w.MaxRead {
			return page, result.Item, nil
		}
		if result.Well() || (w.Outcome != "" && string(result.Outcome) != w.Outcome) {
			continue
		}
		if len(page) == w.Limit {
			return page, result.Item, nil
		}
		name, err := names.of(ctx, result.Item)
		if err != nil {
			return nil, 0, err
		}
		if row := (FailedRow{result, name}); w.is(row) {
			page = append(page, row)
		}
		if found++; w.From == 0 && w.Outcome != "" && found == r.Counts[ledger.Outcome(w.Outcome)] {
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

// WriteFailed writes a line with the reason for each of the first most failed rows, and the
// number of the others.
func WriteFailed(ctx context.Context, out io.Writer, l *runs.Ledger, r ledger.Run, most int) error {
	failed, err := FirstFailed(ctx, l, r, most)
	if err != nil || Failed(r) == 0 {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), failed rows:\n", r.ID, r.Kind)
	for _, row := range failed {
		fmt.Fprintf(out, "  row %d (%s): %s\n", row.Item, row.Name, resultText(row.Result))
	}
	more(out, Failed(r)-int64(len(failed)))
	return nil
}

// WriteFailedByReason writes why rows of the run failed: each reason once, the most frequent
// first, with the rows that failed for it. It reads no more than most rows. about returns
// more about a row, or "".
func WriteFailedByReason(ctx context.Context, out io.Writer, l *runs.Ledger, r ledger.Run, most int, about func(FailedRow) string) error {
	failed, err := FirstFailed(ctx, l, r, most)
	if err != nil || len(failed) == 0 {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), %d of %d rows failed:\n", r.ID, r.Kind, Failed(r), r.Total())
	for _, rows := range byReason(failed) {
		reason := rows[0].plainReason()
		if len(rows) == 1 { // nothing is shared: the reason as it is
			reason = resultText(rows[0].Result)
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

// rowsShown is the number of rows of one reason that are named.
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
	return mask(resultText(row.Result), ".:,", func(word string) bool {
		return row.Organization != "" && strings.Contains(word, row.Organization) || row.Domain != "" && strings.Contains(word, row.Domain)
	})
}

// resultText returns a row's outcome, with its detail if it has one: a cancel gives none.
func resultText(f runs.Result) string {
	if f.Detail == "" {
		return string(f.Outcome)
	}
	return string(f.Outcome) + ": " + f.Detail
}
