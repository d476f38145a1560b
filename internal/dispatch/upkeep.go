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
	_, err := d.cfg.Ledger.DeleteOld(ctx, d.cfg.Tenant)
	_, failed := d.queue.TrimArchive(ctx)
	if err := errors.Join(err, failed); err != nil && ctx.Err() == nil {
		d.cfg.Logger.WarnContext(ctx, "upkeep is incomplete", "tenant", d.cfg.Tenant, "error", err)
	}
}
