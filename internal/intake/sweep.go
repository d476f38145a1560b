package intake

import (
	"context"
	"fmt"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// sweepKeepFor is how long a sweep's run is kept after its end: one of 200,000 domains
// takes 40 MB.
const sweepKeepFor = 7 * 24 * time.Hour

// BeginSweep creates the run of a sweep, whose rows a scan finds. A repetition changes
// nothing: the sweep keeps the tick with which it was created. If a run for something else
// has the id, the error is a *ledger.MismatchError. orgops/internal/sweep/schedule decides
// whether a sweep may start.
func (i Intake) BeginSweep(ctx context.Context, r Run, o sweep.Order) (run ledger.Run, created bool, err error) {
	if o.Organization != "" {
		if err := tasks.CheckOrganization(o.Organization); err != nil {
			return ledger.Run{}, false, err
		}
	}
	progress, err := scan.SweepProgress(o)
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("sweep %s: %w", r.ID, err)
	}
	n := r.newRun(tasks.TypeRecheck)
	n.Format, n.KeepFor, n.Scan = FormatJSONL, sweepKeepFor, progress
	n.Digest = digestOf("sweep of %q, pending ones too: %t", o.Organization, o.Pending)
	return i.createScan(ctx, n)
}
