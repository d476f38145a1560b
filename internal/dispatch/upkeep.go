package dispatch

import (
	"context"
	"errors"
	"time"
)

// upkeepWait is how long a round waits for the upkeep that it has begun. By then that of most
// tenants has ended, so that a new dispatcher begins with a whole index.
const upkeepWait = 100 * time.Millisecond

// tend begins the upkeep once a minute, in a goroutine: with many runs it takes longer than
// rows may wait for their release. It returns the error of one that has failed, which is
// repeated.
func (d *Dispatcher) tend(now time.Time) error {
	var wait time.Duration
	if d.upkept == nil {
		if now.Sub(d.upkeepAt) < upkeepEvery {
			return nil
		}
		upkept := make(chan error, 1)
		d.ends.background(func(ctx context.Context) {
			defer close(upkept)
			upkept <- d.upkeep(ctx)
		})
		wait, d.upkeepAt, d.upkept = upkeepWait, now, upkept
	}
	select {
	case err := <-d.upkept:
		d.upkept = nil
		if err != nil {
			d.upkeepAt = time.Time{}
		}
		return err
	case <-time.After(wait):
		return nil
	}
}

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
			d.cfg.Logger.ErrorContext(ctx, "run is incomplete", "tenant", d.cfg.Tenant, "run", p.Run.ID,
				"missing_segments", len(p.Missing))
		}
	}
	_, err = d.cfg.Ledger.Sweep(ctx, d.cfg.Tenant)
	failed = append(failed, err)
	now, err := d.cfg.Redis.Time(ctx).Result()
	if err == nil {
		_, err = d.queue.TrimArchive(ctx, now)
	}
	failed = append(failed, err)
	if err := errors.Join(failed...); err != nil && ctx.Err() == nil {
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
