package main

import (
	"context"

	"orgops/internal/health"
)

// readiness returns the checks of the present tenants for /readyz.
func (w *worker) readiness() *health.Readiness {
	var tenants []health.Served
	for _, t := range w.tenants() {
		tenants = append(tenants, health.Served{
			Name: t.Name, API: t.api, DNS: t.dns, Quorum: t.Quorum, Canary: t.CanaryZone != "", AwaitsToken: func() bool { return w.awaitsToken(t) },
		})
	}
	return health.OfWorker(w.permits, tenants)
}

// findings returns the findings of /readyz.
func (w *worker) findings(ctx context.Context) []health.Finding {
	found := w.ready.Load().Findings(ctx)
	if w.file != nil && w.file.refused.Load() {
		found = append(found, health.Finding{
			Level: health.Warning, Subject: "settings", Text: "the changed file of tenants is refused, and the former settings are in force: see the log",
		})
	}
	return found
}
