package main

import (
	"context"
	"sync"

	"orgops/internal/health"
	"orgops/internal/ledger"
)

// readiness returns the checks of the present tenants for /readyz.
func (w *worker) readiness() *health.Readiness {
	var tenants []health.Served
	for _, t := range w.tenants() {
		tenants = append(tenants, t.shown.Served)
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

// tokenRanks is how many workers of a tenant fetch its token before they need it. With the
// first two, a rollout of wrong credentials stops while a worker with the previous ones
// lives: one of the new workers is among the two.
const tokenRanks = 2

// awaitsToken reports whether the worker fetches the tenant's token before a request needs
// it. All others fetch it with their first request, so that a fleet does not request a token
// for each tenant and worker.
func (w *worker) awaitsToken(t *served) bool {
	return w.order.Place(ledger.Tenant(t.Name)).Rank < tokenRanks
}

// fetchTokens begins to fetch the tokens of the tenants of which this worker has become one of
// the first, so that wrong credentials show before there is work, and those that a request
// needed and did not get, so that the worker is ready again without another request. It is
// called every few seconds; the token source limits the requests to its endpoint.
func (w *worker) fetchTokens(ctx context.Context, all *sync.WaitGroup) {
	for _, t := range w.tenants() {
		h := t.api.TokenHealth()
		lacks := h.Err != nil || h.GotAt.IsZero() && w.awaitsToken(t)
		if lacks && !t.fetchesToken.Swap(true) {
			all.Go(func() {
				defer t.fetchesToken.Store(false)
				_, err := t.tokens.Token(ctx)
				if err != nil && ctx.Err() == nil && !t.lacksToken {
					w.logger.ErrorContext(ctx, "no token", "tenant", t.Name, "error", err)
				}
				t.lacksToken = err != nil
			})
		}
	}
}
