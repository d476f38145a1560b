package main

import (
	"context"
	"log/slog"
	"net/url"
	"sync"

	"orgops/internal/deliveries"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// sayStarted logs what runs where: one line for a single tenant, else one more for each.
func (w *worker) sayStarted(ctx context.Context) {
	attrs := []slog.Attr{slog.String("version", version), slog.Any("addresses", w.addresses)}
	all := w.tenants()
	if len(all) == 1 {
		attrs = append(attrs, all[0].attrs()...)
	} else {
		attrs = append(attrs, slog.Int("tenants", len(all)))
	}
	w.logger.LogAttrs(ctx, slog.LevelInfo, "worker started", attrs...)
	if len(all) == 1 {
		return
	}
	for _, t := range all {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "serving tenant", t.attrs()...)
	}
}

// attrs are the settings by which the tenant is served.
func (t *served) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("tenant", t.Name), slog.String("api", hostOf(t.BaseURL)), slog.String("rate", t.Rate), slog.Int("burst", t.Burst),
		slog.Float64("reserve", t.Reserve/100), slog.String("dns_mode", t.Mode.String()), slog.Any("resolvers", t.Resolvers), slog.Int("quorum", t.Quorum),
		slog.Any("queues", []string{engine.Queue(ledger.Tenant(t.Name)), deliveries.Queue(t.Name)}),
	}
}

// hostOf returns the host and port of a URL.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	return u.Host
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
