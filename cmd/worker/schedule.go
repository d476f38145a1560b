package main

import (
	"log/slog"

	"orgops/internal/intake"
	"orgops/internal/watch"
)

// schedule returns the scheduler of the tenant's sweeps; nil if it has no schedule. A worker
// that drains starts none: it would not come to its end.
func (w *worker) schedule(t tenant, logger *slog.Logger) *intake.Scheduler {
	if w.settings.Drain || t.cron.String() == "" {
		return nil
	}
	return &intake.Scheduler{
		Intake: w.intake(), Store: watch.New(w.redis, t.Name), Tenant: t.Name,
		Cron: t.cron, Pending: t.VerifyPending, Logger: logger,
		Ticked: func(what string) { w.metrics.SweepTick(t.Name, what) },
	}
}
