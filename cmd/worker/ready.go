package main

import "orgops/internal/health"

// readiness returns the checks of /readyz.
func (w *worker) readiness() *health.Readiness {
	var tenants []health.Served
	for _, t := range w.tenants {
		tenants = append(tenants, health.Served{
			Name: t.Name, API: t.api, DNS: t.dns, Quorum: t.Quorum, Canary: t.CanaryZone != "", AwaitsToken: func() bool { return w.awaitsToken(t) },
		})
	}
	return health.OfWorker(w.permits, tenants)
}
