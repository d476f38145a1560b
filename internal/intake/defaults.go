package intake

import (
	"slices"

	"orgops/tasks"
)

// columnsWith returns the columns of the rows as they are stored: those of a CSV header, and
// those that the defaults fill; nil for JSON Lines.
func columnsWith(d tasks.Defaults, rows *Reader) []string {
	if rows.Format() != FormatCSV {
		return rows.Columns()
	}
	all := slices.Clone(rows.Columns())
	add := func(filled bool, column string) {
		if filled && !slices.Contains(all, column) {
			all = append(all, column)
		}
	}
	add(d.Status != "", "status")
	add(d.UseForDiscovery != nil, "use_for_organization_discovery")
	return all
}
