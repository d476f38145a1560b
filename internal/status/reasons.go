package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"orgops/internal/runs"
)

// rowsShown is how many rows of one reason are named.
const rowsShown = 3

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
