package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"orgops/internal/ledger"
)

// upkeep rebuilds the index, finishes runs that have ended, deletes runs after their
// retention and trims asynq's archive. What cannot be done for one run does not keep the
// others from it.
func (d *Dispatcher) upkeep(ctx context.Context) error {
	all, err := d.cfg.Ledger.Rebuild(ctx, d.cfg.Tenant)
	if len(all) == 0 && err != nil {
		return err
	}
	failed := []error{err}
	for _, p := range all {
		if p.Run.Ended() {
			d.finish(ctx, p.Run)
		}
		if len(p.Missing) > 0 {
			d.cfg.Logger.ErrorContext(ctx, "run is incomplete", "tenant", d.cfg.Tenant, "run", p.Run.ID, "missing_segments", len(p.Missing))
		}
	}
	_, err = d.cfg.Ledger.Sweep(ctx, d.cfg.Tenant)
	failed = append(failed, err)
	_, err = d.queue.TrimArchive(ctx, time.Now())
	failed = append(failed, err)
	if err := errors.Join(failed...); err != nil {
		d.cfg.Logger.WarnContext(ctx, "upkeep is incomplete", "tenant", d.cfg.Tenant, "error", err)
	}
	return nil
}

// finish does what follows the end of a run, unless that was done. If it fails, the next
// upkeep does it.
func (d *Dispatcher) finish(ctx context.Context, r ledger.Run) {
	if !r.FinishedAt.IsZero() {
		return
	}
	err := d.follow(ctx, r)
	if err == nil {
		err = d.cfg.Ledger.Finish(ctx, r.ID)
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrOpen) { // deleted, or open again
		d.cfg.Logger.WarnContext(ctx, "run not finished", "tenant", d.cfg.Tenant, "run", r.ID, "error", err)
	}
}

func (d *Dispatcher) follow(ctx context.Context, r ledger.Run) error {
	if d.cfg.Ended == nil {
		return nil
	}
	return d.cfg.Ended(ctx, r)
}

// refresh reads the state of the pace and counts the tenant's workers, once a second.
func (d *Dispatcher) refresh(ctx context.Context, now time.Time) error {
	if now.Sub(d.stateAt) < stateEvery {
		return nil
	}
	sessions, err := d.cfg.Ledger.Sessions(ctx)
	if err != nil {
		return err
	}
	d.workers = 0
	for _, s := range sessions {
		if slices.Contains(s.Tenants, d.cfg.Tenant) {
			d.workers++
		}
	}
	if d.cfg.Pace != nil {
		if d.pace, err = d.cfg.Pace(ctx); err != nil {
			return err
		}
	}
	d.stateAt = now
	return nil
}
