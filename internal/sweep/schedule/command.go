package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
)

// Now starts a sweep by a command. Its tick is the present by Redis' clock unless the order has
// one; a repetition returns the run with the order that it has. store is the tenant's.
//
// While a sweep of the whole tenant is in progress, by command or of the schedule, another one of
// the whole tenant is refused with an *[InProgressError].
func Now(ctx context.Context, in intake.Intake, store *sweep.Store, r ledger.NewRun,
	o progress.Scan) (run ledger.Run, created bool, err error) {
	now, err := store.Clock(ctx)
	if err != nil {
		return ledger.Run{}, false, err
	}
	if o.Tick == 0 {
		o.Tick = now.Unix()
	}
	switch _, err = in.Ledger.Get(ctx, r.Tenant, r.ID); {
	case !errors.Is(err, ledger.ErrNotFound): // it was started before
	case o.Organization != "":
		err = nil
	default:
		err = claim(ctx, in, r.Tenant, store,
			sweep.TenantSweep{Run: string(r.ID), Tick: o.Tick, At: now, Pending: o.Pending}, now)
	}
	if err != nil {
		return ledger.Run{}, false, err
	}
	return in.BeginSweep(ctx, r, o)
}

// claim stores that the tenant is about to be swept by a command, unless a sweep is in
// progress.
func claim(ctx context.Context, in intake.Intake, t ledger.Tenant, store *sweep.Store, s sweep.TenantSweep,
	now time.Time) error {
	const attempts = 20 // other processes write only at ticks
	for range attempts {
		ticks, err := store.Ticks(ctx)
		if err != nil {
			return err
		}
		if ticks.ByHand.Run == s.Run && isClaimed(ticks.ByHand, now) {
			return nil // the command that claimed it was interrupted
		}
		other, err := inProgress(ctx, in, t, ticks, now)
		if err != nil {
			return err
		}
		if other != nil {
			return other
		}
		ticks.ByHand = s
		if ok, err := store.SetTicks(ctx, &ticks); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("sweep %s: others keep changing the tenant's sweeps: try again", s.Run)
}
