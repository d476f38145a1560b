package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/console"
	"orgops/internal/deliveries"
	"orgops/internal/engine"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/internal/web"
	"orgops/internal/workers"
)

// work serves the tenants until ctx ends or the function returns, and then stops all parts in
// order. The end of ctx is no error.
func (w *worker) work(ctx context.Context, tenants []tenant.Settings, until func(context.Context) error) error {
	// The tenants, and the pages and probes, which answer while Redis is awaited.
	var all []*served
	for _, t := range tenants {
		one, err := w.serve(t)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	w.setTenants(all)
	w.order = workers.New(w.about, ledger.New(w.permits).Sessions, w.logger) // whose commands end with their contexts
	w.metrics.WatchRedis(w.redis, w.ledger, w.announced, w.logger)
	if err := w.listen(ctx); err != nil {
		return err
	}

	// Redis, the names of the tenants, and the session, without which nothing is executed.
	var endSession func()
	err := w.awaitRedis(ctx)
	if err == nil {
		err = w.claim(ctx, all...) // before a row of them is released, or executed
	}
	if err == nil {
		endSession, err = w.beginSession(ctx)
	}
	if err != nil {
		w.stopListening()
		return stopped(ctx, err)
	}
	defer endSession() // after all parts, when no row is in progress any more

	// The parts of the worker, and those of each tenant.
	background, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	w.announceOnce(ctx, all...) // before "worker started", after which producers find the tenants
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	parts.Go(func() { w.order.Run(background, func() { w.fetchTokens(background, &parts) }) })
	parts.Go(func() { w.announce(background) })
	parts.Go(func() { w.noticeDeleted(background) })
	parts.Go(func() { w.recordObstacles(background) })
	parts.Go(func() { w.watchData(background, fail) })
	parts.Go(func() { w.network.Run(background) })
	parts.Go(func() { w.queues.Run(background) })
	parts.Go(func() { w.meters.Run(background, w.permits, w.logger) })
	parts.Go(func() { redisconn.Subscribe(background, w.redis, ledger.WakeChannel, w.wake) })
	defer parts.Wait()
	defer cancel()
	for i, t := range all {
		w.start(background, t, delayOf(i, len(all)))
	}
	if w.file != nil {
		parts.Go(func() { w.watchFile(background) })
	}
	w.logStart(ctx)

	// Run until the end. Then rows in progress finish, and the others are given back.
	err = until(running)
	if cause := context.Cause(running); cause != nil && ctx.Err() == nil {
		err = cause
	}
	w.logger.InfoContext(ctx, "worker stopping: running tasks may finish, the others are requeued", "within",
		w.settings.ShutdownTimeout)
	cancel() // no tenant is started any more
	var stops sync.WaitGroup
	for _, t := range w.tenants() {
		stops.Go(func() { w.stop(t) })
	}
	stops.Wait()
	w.stopListening()
	w.logger.InfoContext(ctx, "worker stopped")
	return stopped(ctx, err)
}

// wake has the tenant's dispatcher read Redis at once.
func (w *worker) wake(name string) {
	for _, t := range w.tenants() {
		if t.Name == name {
			t.dispatcher.Wake()
		}
	}
}

// logStart logs addresses and tenants: one line for a single tenant, else one more for each.
func (w *worker) logStart(ctx context.Context) {
	attrs := []slog.Attr{slog.String("version", build.Version), slog.Any("addresses", w.addresses)}
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

// stopped returns nil instead of an error whose cause is the end of ctx.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// awaitRedis waits until Redis answers. An error is a Redis that this worker cannot use.
func (w *worker) awaitRedis(ctx context.Context) error {
	for {
		err := redisconn.Ready(ctx, w.redis)
		if err == nil {
			w.logFaults(ctx, health.Rights(ctx, w.permits))
			return errors.Join(redisconn.CheckVersion(ctx, w.redis), w.ledger.CheckSchema(ctx))
		}
		w.logger.ErrorContext(ctx, "waiting for Redis", "error", err, "again_in", redisAgain)
		if err := engine.Sleep(ctx, redisAgain); err != nil {
			return err
		}
	}
}

// claim claims the names of the tenants for their settings: see [tenant.Claim].
func (w *worker) claim(ctx context.Context, tenants ...*served) error {
	for _, t := range tenants {
		if err := tenant.Claim(ctx, w.permits, t.Name, t.Identity()); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) listen(ctx context.Context) error {
	if w.settings.HTTPAddr != off {
		config, certificate, err := w.settings.open(w.settings.HTTPAddr, w.logger)
		if err != nil {
			return cli.Usage(err)
		}
		if w.settings.Sandbox {
			config.Unsigned = web.Operator // for trying the actions
		}
		config.Redis = w.pages
		config.Ledger = ledger.New(w.pages)
		config.Intake = w.intake()
		config.Tenants = w.shown
		if len(w.settings.Links.LinkKeys) > 0 {
			if config.Links, err = w.settings.Links.Open(w.pages, config.Ledger, w.logger); err != nil {
				return cli.Usage(err)
			}
		}
		config.Faults = w.faults
		config.Version = build.Version
		config.Logger = w.logger
		if err := w.listenAt(ctx, "http-addr", w.settings.HTTPAddr, certificate, console.Pages(config)); err != nil {
			return err
		}
	}
	if w.settings.ProbeAddr != off {
		return w.listenAt(ctx, "probe-addr", w.settings.ProbeAddr, nil,
			health.Probes(w.findings, w.metrics.Handler()))
	}
	return nil
}

func (w *worker) shown() (tenants []console.Tenant) {
	for _, t := range w.tenants() {
		tenants = append(tenants, t.shown)
	}
	return tenants
}

func (w *worker) announced() (tenants []tenant.Announced) {
	for _, t := range w.tenants() {
		tenants = append(tenants, t.Announced)
	}
	return tenants
}

func (w *worker) listenAt(ctx context.Context, flag, addr string, certificate *tls.Config, handler http.Handler) error {
	url, _, stop, err := web.Serve(ctx, addr, certificate, handler, w.logger)
	if err != nil {
		w.stopListening()
		return cli.Usage(fmt.Errorf("%s: %w (set --%s to another address, or to off)", flag, err, flag))
	}
	w.stops = append(w.stops, stop)
	w.addresses = append(w.addresses, url+"/")
	w.logger.InfoContext(ctx, "listening", "for", flag, "url", url+"/")
	return nil
}

func (w *worker) stopListening() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, stop := range w.stops {
		if err := stop(ctx); err != nil {
			w.logger.Debug("pages closed with requests running", "error", err)
		}
	}
	w.stops = nil
}

// announce stores the settings of the tenants whose first worker this is, every minute, for
// producers, which connect to Redis only.
func (w *worker) announce(ctx context.Context) {
	for engine.Sleep(ctx, announceEvery) == nil {
		for _, t := range w.tenants() {
			if w.order.Place(ledger.Tenant(t.Name)).Rank == 0 {
				w.announceOnce(ctx, t)
			}
		}
	}
}

// noticeDeleted counts, every minute, the deliveries of the tenants whose first worker this is that
// another tool has deleted.
func (w *worker) noticeDeleted(ctx context.Context) {
	for engine.Sleep(ctx, noticeEvery) == nil {
		for _, t := range w.tenants() {
			if w.order.Place(ledger.Tenant(t.Name)).Rank > 0 {
				continue
			}
			var endpoints []string
			for _, e := range t.Endpoints {
				endpoints = append(endpoints, e.Name)
			}
			if err := deliveries.NoticeDeleted(ctx, t.deliveries, endpoints...); err != nil && ctx.Err() == nil {
				t.logger.DebugContext(ctx, "webhook backlog not compared with its queue", "error", err)
			}
		}
	}
}

// recordObstacles records, every minute, which obstacles of the tenants whose first worker this is
// have begun or ended, and which workers of them have died.
func (w *worker) recordObstacles(ctx context.Context) {
	for engine.Sleep(ctx, obstaclesEvery) == nil {
		var own []*served
		var names []string
		for _, t := range w.tenants() {
			if w.order.Place(ledger.Tenant(t.Name)).Rank == 0 {
				own = append(own, t)
				names = append(names, t.Name)
			}
		}
		states, err := status.ReadTenants(ctx, w.permits, names, nil)
		died, unread := ledger.New(w.permits).Died(ctx)
		if err = errors.Join(err, unread); err != nil {
			w.logger.DebugContext(ctx, "obstacles not recorded", "error", err)
			continue
		}
		for i, state := range states {
			state.Known.Token = own[i].shown.NoToken()
			err := errors.Join(own[i].limiter.Expire(ctx), actions.RecordObstacles(ctx, w.author("worker"), state),
				actions.RecordDeaths(ctx, w.author("worker"), ledger.Tenant(state.Name), died))
			if err != nil && ctx.Err() == nil {
				own[i].logger.WarnContext(ctx, "obstacles not recorded", "error", err)
			}
		}
	}
}

func (w *worker) announceOnce(ctx context.Context, tenants ...*served) {
	for _, t := range tenants {
		settings := t.Announced
		settings.UpdatedAt = time.Now().UTC()
		changed, err := tenant.Announce(ctx, w.redis, settings)
		if changed != "" {
			w.author("worker").Record(ctx, activity.Entry{Tenant: t.Name, Action: activity.SettingsChanged, Result: changed})
		}
		if err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "announcing settings failed", "tenant", t.Name, "error", err)
		}
	}
}

// watchData stores the version of the data and the identities of the tenants in a Redis that was
// emptied, and calls fail once the data has a version that this worker cannot use, or is of another
// tenant, for example after a backup was restored. It also checks how Redis stores the data. It
// returns when ctx ends.
func (w *worker) watchData(ctx context.Context, fail context.CancelCauseFunc) {
	stored := ledger.New(w.permits) // whose commands end with ctx
	w.checkStorage(ctx)
	for engine.Sleep(ctx, w.schemaEvery) == nil {
		err := stored.CheckSchema(ctx)
		if err == nil {
			err = w.claim(ctx, w.tenants()...)
		}
		_, wrong := errors.AsType[*ledger.SchemaError](err)
		_, other := errors.AsType[*tenant.OtherTenantError](err)
		if wrong || other {
			w.logger.ErrorContext(ctx, "stopping: the data in Redis was replaced", "error", err)
			fail(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "reading schema version and identities failed", "error", err)
		}
		if err == nil {
			w.checkStorage(ctx)
		}
	}
}
