package kinds

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// OneRow is a run of one row that a handler submits.
type OneRow struct {
	// ID is derived from the domain and the sweep or the hour: a run that exists is not
	// submitted again, and one without success is followed by another one.
	ID      ledger.RunID
	Kind    ledger.Kind
	Content []byte
	// GiveUp is how long the row may wait for its token; 0: it does not.
	GiveUp time.Duration
}

// restoringID returns the id of the run that gives something back to a domain because of a
// sweep, by its tick, or within an hour, by its first second. The hash distinguishes
// tenants, since ids of runs are unique among all.
func restoringID(what string, t ledger.Tenant, domainID string, at int64) ledger.RunID {
	sum := sha256.Sum256([]byte(string(t) + "\x00" + domainID))
	return ledger.RunID(fmt.Sprintf("restore-%s-%d-%x", what, at, sum[:8]))
}

// NotifyStates returns a function for [VerifyConfig].Notify. The event of a domain that an
// action had set to pending says that it is restored.
func NotifyStates(s *sweep.States) func(context.Context, events.Event, []byte) error {
	return func(ctx context.Context, e events.Event, evidence []byte) error {
		e.Data.Tenant = s.Tenant
		switch {
		case e.Type == events.DomainVerified:
			return s.Verified(ctx, e, evidence)
		case s.Notifier == nil:
			return nil
		}
		return s.Notifier.Notify(ctx, e)
	}
}
