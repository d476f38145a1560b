package intake

import (
	"context"
	"crypto/sha256"
	"fmt"

	"orgops/internal/ledger"
	"orgops/internal/scan"
	"orgops/tasks"
)

// BeginPending creates the run whose rows are the pending domains of one organization, or of
// all if that is empty, which a scan finds. A repetition changes nothing; if a run for
// something else has the id, the error is a *ledger.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string, r Run) (run ledger.Run, created bool, err error) {
	progress, err := scan.PendingProgress(organization)
	if err != nil {
		return ledger.Run{}, false, err
	}
	n := r.newRun(tasks.TypeVerify)
	n.Format, n.Digest, n.Scan = FormatJSONL, digestOf("pending domains of %q", organization), progress
	return i.createScan(ctx, n)
}

// digestOf returns the digest of a run whose rows a scan finds: that of its request.
func digestOf(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}
