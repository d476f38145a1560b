package schedule

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// Now starts a sweep by a command. Its tick is the present unless the order has one; a
// repetition returns the run with the order that it has. store is the tenant's.
//
// If the clocks of this machine and Redis are far apart the present is unknown, and the
// error is a *[ClocksError]. While a sweep of the whole tenant is in progress, by command or
// of the schedule, another one of the whole tenant is refused with an *[InProgressError].
func Now(ctx context.Context, in intake.Intake, store *sweep.Store, r ledger.NewRun,
	o sweep.Order) (run ledger.Run, created bool, err error) {
	at, err := readClocks(ctx, in, store)
	if err != nil {
		return ledger.Run{}, false, err
	}
	if o.Tick == 0 {
		o.Tick = at.redis.Unix()
	}
	switch _, err = in.Ledger.Get(ctx, r.Tenant, r.ID); {
	case !errors.Is(err, ledger.ErrNotFound): // it was started before
	case at.apart() > maxApart:
		err = &ClocksError{Sweep: string(r.ID), Own: at.own, Redis: at.redis}
	case o.Organization != "":
		err = nil
	default:
		err = claim(ctx, in, r.Tenant, store,
			sweep.TenantSweep{Run: string(r.ID), Tick: o.Tick, At: at.redis, Pending: o.Pending}, at)
	}
	if err != nil {
		return ledger.Run{}, false, err
	}
	return in.BeginSweep(ctx, r, o)
}

// claim stores that the tenant is about to be swept by a command, unless a sweep is in
// progress.
func claim(ctx context.Context, in intake.Intake, t ledger.Tenant, store *sweep.Store, s sweep.TenantSweep,
	at clocks) error {
	const attempts = 20 // other processes write only at ticks
	for range attempts {
		ticks, err := store.Ticks(ctx)
		if err != nil {
			return err
		}
		if ticks.ByHand.Run == s.Run && isClaimed(ticks.ByHand, at) {
			return nil // the command that claimed it was interrupted
		}
		other, err := inProgress(ctx, in, t, ticks, at)
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
