package cli

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

// reasonGroup is the rows that failed for the same reason.
type reasonGroup struct {
	reason string // with … in place of what names the row
	rows   []UnwellRow
}

// FailedByReason writes why rows of the run failed: each reason once, the most frequent
// first, with the rows that failed for it. It looks at no more than most rows. about adds what
// else is known of a row; "": nothing.
func FailedByReason(ctx context.Context, out io.Writer, ledger *runs.Ledger, r runs.Run, most int, about func(UnwellRow) string) error {
	if Unwell(r) == 0 {
		return nil
	}
	failed, err := UnwellOf(ctx, ledger, r, most)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), %d of %d rows failed:\n", r.ID, r.Kind, Unwell(r), r.Total)
	for _, group := range byReason(failed) {
		fmt.Fprintf(out, "  %d %s\n     %s\n", len(group.rows), group.reason, group.names(about))
	}
	more(out, Unwell(r)-int64(len(failed)))
	return nil
}

func byReason(rows []UnwellRow) []reasonGroup {
	var groups []reasonGroup
	for _, row := range rows {
		reason := row.plainReason()
		i := slices.IndexFunc(groups, func(g reasonGroup) bool { return g.reason == reason })
		if i < 0 {
			i, groups = len(groups), append(groups, reasonGroup{reason: reason})
		}
		groups[i].rows = append(groups[i].rows, row)
	}
	slices.SortStableFunc(groups, func(a, b reasonGroup) int { return len(b.rows) - len(a.rows) })
	for i, g := range groups {
		if len(g.rows) == 1 { // nothing is shared: the reason as it is
			groups[i].reason = said(g.rows[0].Fate)
		}
	}
	return groups
}

// plainReason is the row's outcome and detail, without the words that contain its
// identifiers, such as a verification host.
func (row UnwellRow) plainReason() string {
	return mask(said(row.Fate), ".:,", func(word string) bool {
		return row.Organization != "" && strings.Contains(word, row.Organization) || row.Domain != "" && strings.Contains(word, row.Domain)
	})
}

// names lists the group's first rows.
func (g reasonGroup) names(about func(UnwellRow) string) string {
	var names []string
	for _, row := range g.rows[:min(len(g.rows), rowsShown)] {
		name := fmt.Sprintf("row %d (%s)", row.Item, row.Name)
		if more := about(row); more != "" {
			name += ": " + more
		}
		names = append(names, name)
	}
	if rest := len(g.rows) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(names, "\n     ")
}
