package intake

import (
	"context"

	"orgops/internal/runs"
	"orgops/tasks"
)

// judgedBy is how many rows tell what the others of their run come to: a chunk,
// which is read whole anyway, or the window within which clients are grouped.
func judgedBy(kind string) int {
	if kind == tasks.TypeRemove {
		return 10 * runs.ChunkRows
	}
	return runs.ChunkRows
}

// CallsPerRow is how many requests to the API a row of the run comes to where
// nothing has to be tried again, as [Input.Plan] counts them, on the average of
// its first rows; 0 while none is stored. maxClients is the tenant's.
func CallsPerRow(ctx context.Context, ledger *runs.Ledger, r runs.Run, maxClients int) (float64, error) {
	stored, err := newStoredRows(ledger, r)
	if err != nil {
		return 0, err
	}
	sources, err := ledger.Rows(ctx, r.ID, 0, judgedBy(r.Kind))
	if err != nil {
		return 0, err
	}
	plan, rows := tasks.NewPlan(r.Kind, maxClients), 0
	for item, source := range sources {
		if row, bad := stored.row(source); bad == nil {
			plan.Add(int64(item), row)
			rows++
		}
	}
	plan.Close()
	if r.Scan != nil && r.Kind == tasks.TypeVerify {
		plan.Calls -= int64(rows) // what a look needs was read by the walk
	}
	if rows == 0 {
		return 0, nil
	}
	return float64(plan.Calls) / float64(rows), nil
}
