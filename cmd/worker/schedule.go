package main

import (
	"log/slog"

	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
)

// schedule returns the scheduler of the tenant's sweeps; nil if it has no schedule. A worker
// that drains starts none: it would not come to its end.
func (w *worker) schedule(t tenant.Settings, logger *slog.Logger) *schedule.Scheduler {
	if w.settings.Drain || t.Cron.String() == "" {
		return nil
	}
	return &schedule.Scheduler{
		Intake: w.intake(), Store: sweep.NewStore(w.redis, t.Name), Tenant: t.Name,
		Cron: t.Cron, Pending: t.VerifyPending, Logger: logger,
		Ticked: func(what string) { w.metrics.SweepTick(t.Name, what) },
	}
}
