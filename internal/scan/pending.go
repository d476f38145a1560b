package scan

import (
	"context"
	"time"

	"orgops/internal/discovery"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// pending searches for pending domains. Its rows are of kind [tasks.TypeVerify].
type pending struct{}

// row returns the row of a pending domain. Its content has the record, so that a check
// which begins within a minute needs no read of its own; but not one that would be
// refused: its check reads the record again, and gives the reason. A record outside the
// specification may be pending unless it reads as verified: it is a refused row.
func (pending) row(_ context.Context, _ progress.Scan, organization string, l listed,
	at time.Time) (*ledger.FoundRow, error) {
	d := discovery.Of(organization, l.Record)
	if d.IsVerified() {
		return nil, nil
	}
	row := tasks.VerifyRow{OrganizationID: organization, DiscoveryDomainID: d.ID}
	bad := outsideSpec(organization, l)
	switch {
	case bad != nil:
		row.DiscoveryDomainID = name(d.ID)
	case tasks.CheckRecord(d) == nil && !at.IsZero():
		row.Listed = &tasks.ListedRecord{ScannedRecord: tasks.Scanned(d), At: at}
	}
	return found(organization, row, bad)
}
