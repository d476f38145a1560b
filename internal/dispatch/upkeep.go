package dispatch

import (
	"context"
	"errors"
	"time"
)

// upkeep rebuilds the index, finishes runs that have ended, deletes runs after their
// retention and trims asynq's archive. A failure for one run does not
// prevent it for the others.
func (d *Dispatcher) upkeep(ctx context.Context) error {
	all, err := d.cfg.Ledger.Rebuild(ctx, d.cfg.Tenant)
	if len(all) == 0 && err != nil {
		return err
	}
	failed := []error{err}
	d.ends.prune()
	for _, p := range all {
		if p.Run.Ended() {
			d.finish(p.Run)
		}
		if len(p.Missing) > 0 {
			d.cfg.Logger.ErrorContext(ctx, "run is incomplete", "tenant", d.cfg.Tenant, "run", p.Run.ID, "missing_segments", len(p.Missing))
		}
	}
	_, err = d.cfg.Ledger.Sweep(ctx, d.cfg.Tenant)
	failed = append(failed, err)
	now, err := d.cfg.Redis.Time(ctx).Result()
	if err == nil {
		_, err = d.queue.TrimArchive(ctx, now)
	}
	failed = append(failed, err)
	if err := errors.Join(failed...); err != nil {
		d.cfg.Logger.WarnContext(ctx, "upkeep is incomplete", "tenant", d.cfg.Tenant, "error", err)
	}
	return nil
}

// stateEvery is how often the pace is read.
const stateEvery = time.Second

// refresh reads the state of the pace, once a second.
func (d *Dispatcher) refresh(ctx context.Context, now time.Time) (err error) {
	if d.cfg.Pace == nil || now.Sub(d.stateAt) < stateEvery {
		return nil
	}
	if d.pace, err = d.cfg.Pace(ctx); err != nil {
		return err
	}
	burst := d.pace.Available
	if d.load.Pending+d.load.Active > 0 {
		burst = 0 // the outstanding work takes it
	}
	d.permits.Burst(float64(burst))
	d.stateAt = now
	return nil
}
