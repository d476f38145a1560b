package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// BeginPending creates the run whose rows are the pending domains of one organization, or of
// all if that is empty, which a scan finds. A repetition changes nothing; if a run for
// something else has the id, the error is a *ledger.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string,
	n ledger.NewRun) (run ledger.Run, created bool, err error) {
	n.Kind = tasks.TypeVerify
	n.Format, n.Digest = FormatJSONL, digestOf("pending domains of %q", organization)
	return i.createScan(ctx, n, progress.Scan{Organization: organization}, activity.Submitted)
}

// sweepKeepFor is how long a sweep's run is kept after its end: one of 200,000 domains
// takes 40 MB.
const sweepKeepFor = 7 * 24 * time.Hour

// BeginSweep creates the run of a sweep, whose rows a scan finds. A repetition changes
// nothing: the sweep keeps the tick with which it was created. If a run for something else
// has the id, the error is a *ledger.MismatchError. orgops/internal/sweep/schedule decides
// whether a sweep may start.
func (i Intake) BeginSweep(ctx context.Context, n ledger.NewRun,
	p progress.Scan) (run ledger.Run, created bool, err error) {
	if p.Organization != "" {
		if err := tasks.CheckOrganization(p.Organization); err != nil {
			return ledger.Run{}, false, err
		}
	}
	n.Kind = tasks.TypeRecheck
	n.Format, n.KeepFor = FormatJSONL, sweepKeepFor
	n.Digest = digestOf("sweep of %q, pending ones too: %t", p.Organization, p.Pending)
	return i.createScan(ctx, n, p, activity.SweepStarted)
}

// createScan creates a run whose rows a scan finds, or returns the one that exists. If its
// Redis may lose the writes of its last second it creates the run again two seconds later.
func (i Intake) createScan(ctx context.Context, n ledger.NewRun, p progress.Scan,
	action activity.Action) (run ledger.Run, created bool, err error) {
	n.Scan, _ = json.Marshal(p) // texts and numbers always encode
	if run, created, err = i.create(ctx, n); err != nil || !created {
		return run, created, err
	}
	i.committed()
	i.By.Record(ctx, activity.OfRun(n.Tenant, n.ID, action, ""))
	if may, err := i.mayBeLost(ctx); !may {
		return run, true, err
	}
	run, _, err = i.create(ctx, n)
	return run, true, err
}

// digestOf returns the digest of a run whose rows a scan finds: that of its request.
func digestOf(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}
