package main

import (
	"context"
	"log/slog"
	"math"
	"net/url"
	"sync"
	"time"

	"orgops/internal/deliveries"
	"orgops/internal/engine"
	"orgops/internal/meters"
	"orgops/internal/queues"
)

// start runs the parts of a tenant until ctx ends or the tenant is stopped, and serves its
// queues. Its parts begin to read Redis after a delay: tenants that do it at different times
// need few connections.
func (w *worker) start(ctx context.Context, t *served, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || ctx.Err() != nil {
		return
	}

	// Its warnings, its metrics, and the allowed rate for plots.
	for _, doubt := range t.Warnings() {
		t.logger.WarnContext(ctx, "suspicious setting", "setting", doubt)
	}
	allowed := int64(0) // a minute; 0: any number
	if rate, _ := t.Limit.Effective(); !rate.IsUnlimited() {
		allowed = int64(math.Round(60 * rate.PerSecond()))
	}
	w.meters.Add(t.Name, meters.Allowed, allowed)
	t.forget = w.metrics.WatchTenant(t.Name, t.api)

	// Its queues, its dispatcher and its schedule.
	for _, q := range t.queues {
		w.queues.Add(q)
	}
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	parts.Go(func() {
		if engine.Sleep(ctx, delay) == nil {
			w.openDeliveries(ctx, t)
			t.dispatcher.Run(ctx)
		}
	})
	if t.schedule != nil {
		parts.Go(func() { t.schedule.Run(ctx) })
	}

	// The end of these parts.
	t.end = func() {
		cancel()
		parts.Wait() // until the dispatcher has given up its lease
		w.meters.Add(t.Name, meters.Allowed, -allowed)
	}
}

// stop releases and fetches no more rows of a tenant, and waits for those in progress, for the
// shutdown timeout at most. It returns once no part of the tenant runs any more.
func (w *worker) stop(t *served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.stopped = true
	if t.end == nil {
		t.close()
		return
	}
	t.end()
	w.shutdown(t)
	t.close()
	t.forget()
}

// shutdown fetches no more tasks of a tenant, and waits for those in progress.
func (w *worker) shutdown(t *served) {
	var all sync.WaitGroup
	defer all.Wait()
	var shutdowns []func()
	for _, q := range t.queues {
		shutdowns = append(shutdowns, w.queues.Remove(q.Name))
	}
	close(t.stopping)
	for _, shutdown := range shutdowns {
		all.Go(shutdown)
	}
}

func (t *served) close() {
	t.api.CloseIdle()
	t.dns.Close()
	t.disprover.Close()
	t.hooks.Close()
}

func (t *served) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("tenant", t.Name), slog.String("api", hostOf(t.BaseURL)), slog.String("rate", t.Rate),
		slog.Int("burst", t.Burst),
		slog.Float64("reserve", t.Reserve/100), slog.String("dns_mode", t.Mode.String()), slog.Any("resolvers", t.Resolvers),
		slog.Int("quorum", t.ResolverQuorum),
		slog.Any("queues", []string{queues.OfRows(t.Name), deliveries.Queue(t.Name, "*")}),
	}
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	return u.Host
}

// delayOf spreads the n tenants of a worker over a second.
func delayOf(i, n int) time.Duration { return time.Second * time.Duration(i) / time.Duration(n) }
