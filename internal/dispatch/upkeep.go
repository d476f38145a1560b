package dispatch

import (
	"context"
	"errors"
	"time"
)

// tend begins the upkeep once a minute, in a goroutine: with many runs it takes longer than rows
// may wait for their release.
func (d *Dispatcher) tend(now time.Time) {
	if now.Sub(d.upkeepAt) < upkeepEvery || !d.upkeeping.CompareAndSwap(false, true) {
		return
	}
	d.upkeepAt = now
	d.ends.background(func(ctx context.Context) {
		defer d.upkeeping.Store(false)
		d.upkeep(ctx)
	})
}

// upkeep deletes runs after their retention and trims asynq's archive.
func (d *Dispatcher) upkeep(ctx context.Context) {
	d.ends.prune()
	_, err := d.cfg.Ledger.Sweep(ctx, d.cfg.Tenant)
	now, failed := d.cfg.Redis.Time(ctx).Result()
	if failed == nil {
		_, failed = d.queue.TrimArchive(ctx, now)
	}
	if err := errors.Join(err, failed); err != nil && ctx.Err() == nil {
		d.cfg.Logger.WarnContext(ctx, "upkeep is incomplete", "tenant", d.cfg.Tenant, "error", err)
	}
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
