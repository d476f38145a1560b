package main

import (
	"context"
	"log/slog"
	"net/url"
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
		slog.Float64("reserve", s.Reserve/100), slog.String("dns_mode", s.dnsMode.String()), slog.Any("resolvers", s.Resolvers), slog.Int("quorum", s.quorum),
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

// fetchToken fetches the tenant's token, so that bad credentials show before there is work,
// and tries again until there is one or ctx ends. The token source itself decides how often
// its endpoint is asked.
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
