package intake

import (
	"context"
	"crypto/sha256"
	"fmt"

	"orgops/internal/runs"
	"orgops/internal/scan"
	"orgops/tasks"
)

// BeginPending creates the run whose rows are the pending domains of one organization, or of
// all if that is empty, which a scan finds. A repetition changes nothing; if a run for
// something else has the id, the error is a *runs.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string, r Run) (run runs.Run, created bool, err error) {
	progress, err := scan.PendingProgress(organization)
	if err != nil {
		return runs.Run{}, false, err
	}
	return i.createScan(ctx, runs.Run{
		ID: r.ID, Kind: tasks.TypeVerify, Tenant: r.Tenant, Label: r.Label, Caller: r.Caller, Format: FormatJSONL, GiveUp: r.GiveUp, Priority: string(r.Priority),
		Digest: digestOf("pending domains of %q", organization),
	}, progress)
}

// digestOf returns the digest of a run whose rows a scan finds: that of its request.
func digestOf(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}
