package main

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"orgops/internal/deliveries"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// sayStarted logs what runs where: one line for a single tenant, else one more for each.
func (w *worker) sayStarted(ctx context.Context) {
	attrs := []slog.Attr{slog.String("version", version), slog.Any("addresses", w.addresses)}
	if len(w.tenants) == 1 {
		attrs = append(attrs, w.tenants[0].attrs()...)
	} else {
		attrs = append(attrs, slog.Int("tenants", len(w.tenants)))
	}
	w.logger.LogAttrs(ctx, slog.LevelInfo, "worker started", attrs...)
	if len(w.tenants) == 1 {
		return
	}
	for _, t := range w.tenants {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "serving tenant", t.attrs()...)
	}
}

// attrs are the settings by which the tenant is served.
func (s *served) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("tenant", s.Name), slog.String("api", hostOf(s.BaseURL)), slog.String("rate", s.Rate), slog.Int("burst", s.Burst),
		slog.Float64("reserve", s.Reserve/100), slog.String("dns_mode", s.Mode.String()), slog.Any("resolvers", s.Resolvers), slog.Int("quorum", s.Quorum),
		slog.Any("queues", []string{engine.Queue(ledger.Tenant(s.Name)), deliveries.Queue(s.Name)}),
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

// tokenAgain is how long the worker waits before it tries again to fetch a token.
const tokenAgain = 10 * time.Second

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
// needed and did not get, so that the worker is ready again without another request.
func (w *worker) fetchTokens(ctx context.Context, all *sync.WaitGroup) {
	for _, t := range w.tenants {
		h := t.api.TokenHealth()
		lacks := h.Err != nil || h.GotAt.IsZero() && w.awaitsToken(t)
		if lacks && !t.fetchesToken.Swap(true) {
			all.Go(func() {
				defer t.fetchesToken.Store(false)
				t.fetchToken(ctx, w.logger)
			})
		}
	}
}

// fetchToken fetches the tenant's token, and tries again until there is one or ctx ends. The
// token source limits the requests to its endpoint.
func (s *served) fetchToken(ctx context.Context, logger *slog.Logger) {
	for told := false; ; told = true {
		_, err := s.tokens.Token(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !told {
			logger.ErrorContext(ctx, "no token", "tenant", s.Name, "error", err)
		}
		if wait(ctx, tokenAgain) != nil {
			return
		}
	}
}
