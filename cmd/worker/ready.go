package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/stamp"
	"orgops/internal/tenant"
)

func (w *worker) readiness() *health.Readiness {
	var tenants []health.Served
	for _, t := range w.tenants() {
		tenants = append(tenants, t.shown.Served)
	}
	return health.OfWorker(w.permits, tenants)
}

func (w *worker) findings(ctx context.Context) []health.Finding {
	return append(w.ready.Load().Findings(ctx), w.faults()...)
}

// faults returns the known faults of this worker's settings and of the data in Redis.
func (w *worker) faults() (found []health.Finding) {
	if w.file != nil && w.file.refused.Load() {
		found = append(found, health.Finding{
			Level: health.Warning, Subject: "settings",
			Text: "the changed file of tenants is refused, and the former settings are in force: see the log",
		})
	}
	if at := w.lost.Load(); at != nil {
		found = append(found, health.Finding{
			Level: health.Warning, Subject: "redis data", Text: "Redis lost data shortly before " + stamp.UTC(*at),
			Fix: fixLostData,
		})
	}
	if clock := w.clock.Load(); clock != nil {
		found = append(found, *clock)
	}
	if faults := w.storage.Load(); faults != nil {
		found = append(found, *faults...)
	}
	if fault, bad := w.network.Fault(); bad {
		found = append(found, fault)
	}
	return found
}

// probeNetwork probes the way to name servers with the resolvers of the first tenant that asks
// any: it is the same for all tenants.
func (w *worker) probeNetwork(ctx context.Context) (found dnscheck.Network, needed bool) {
	all := w.tenants()
	first := slices.IndexFunc(all, func(t *served) bool { return t.Mode != dnscheck.ModeResolvers })
	if first < 0 {
		return dnscheck.Network{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	return all[first].dns.ProbeNetwork(ctx), true
}

// networkFound logs what a probe of the way to name servers found, if it is news, and measures it.
func (w *worker) networkFound(now, before dnscheck.Network) {
	w.metrics.Network(string(now.Port53), string(now.IPv6))
	if now.Port53 == before.Port53 && now.IPv6 == before.IPv6 {
		return
	}
	faults := slices.DeleteFunc(now.Faults(), func(f dnscheck.NetworkFault) bool { return f.Usual })
	for _, f := range faults {
		if f.Severe {
			w.logger.Error("domains' own name servers cannot be reached", "problem", f.Text, "fix", f.Fix)
		} else {
			w.logger.Warn("the way to domains' own name servers has a fault", "problem", f.Text, "fix", f.Fix)
		}
	}
	if len(faults) == 0 && now.Port53 == dnscheck.Port53Open {
		w.logger.Info("domains' own name servers can be reached", "ipv6", string(now.IPv6))
	}
}

// checkStorage has /readyz report how Redis may lose data, and logs each new fault. The sandbox's
// Redis is to keep nothing.
func (w *worker) checkStorage(ctx context.Context) {
	if w.settings.Sandbox {
		return
	}
	found := health.Storage(ctx, w.permits)
	if ctx.Err() != nil {
		return
	}
	before := w.storage.Swap(&found)
	for _, f := range found {
		if before == nil || !slices.Contains(*before, f) {
			w.logger.WarnContext(ctx, "redis may lose data", "problem", f.Text, "fix", f.Fix)
		}
	}
}

// fixLostData is the remedy after Redis has lost data.
const fixLostData = "compare the runs with the submissions, submit missing rows again, then restart this worker"

// Renew renews the session, and compares the clocks. If Redis has forgotten the session, runs and
// results may be gone too: the log and /readyz say so.
func (w *worker) Renew(ctx context.Context, s ledger.Session) (r ledger.Renewal, err error) {
	began := time.Now()
	r, err = w.ledger.Renew(ctx, s)
	if err == nil {
		w.compareClocks(ctx, r.Now.Sub(began), time.Since(began))
	}
	if err == nil && w.renewed.Swap(true) && r.New {
		now := time.Now()
		w.lost.Store(&now)
		w.logger.ErrorContext(ctx, "redis has lost data", "fix", fixLostData)
	}
	return r, err
}

// compareClocks has the worker fetch no tasks while its clock is wrong: asynq would take tasks from
// workers that execute them, or lose its own to them. ahead is Redis' time less this machine's
// before a command that took so long.
func (w *worker) compareClocks(ctx context.Context, ahead, took time.Duration) {
	var wrong *health.Finding
	if ahead < -health.ClockWrong || ahead-took > health.ClockWrong {
		f := health.Clock(ahead)
		wrong = &f
	}
	before := w.clock.Swap(wrong)
	if (before == nil) == (wrong == nil) {
		return
	}
	w.queues.Halt(wrong != nil)
	if wrong != nil {
		w.logger.ErrorContext(ctx, "this worker executes nothing until its clock is right", "problem", wrong.Text, "fix",
			wrong.Fix)
		return
	}
	w.logger.InfoContext(ctx, "the clock is right again: this worker executes rows")
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

func (w *worker) logFaults(ctx context.Context, found []health.Finding) {
	for _, f := range found {
		if f.Level == health.Wrong && ctx.Err() == nil {
			w.logger.ErrorContext(ctx, "something is wrong", "subject", f.Subject, "problem", f.Text, "fix", f.Fix)
		}
	}
}

// testTime bounds the tests. A service that has not answered by then is reported as silent.
const testTime = 20 * time.Second

func (w *worker) examine(ctx context.Context, t *served) {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	w.logFaults(ctx, slices.Concat(health.DNS(ctx, t.Settings, t.dns), receivers(ctx, t.Settings)))
}

// receivers connects to the receivers of events, unless there is a proxy, which would do that.
func receivers(ctx context.Context, t tenant.Settings) []health.Finding {
	var found []health.Finding
	for _, e := range t.Endpoints {
		f := health.Finding{Level: health.OK, Subject: "tenant " + t.Name, Text: "webhook " + e.Name + " can be connected to"}
		if t.Network.Proxy != nil {
			f.Text = "webhook " + e.Name + " is not tried: there is a proxy"
		} else if err := e.Reach(ctx, t.Network.RootCAs); err != nil {
			f.Level = health.Wrong
			f.Text = fmt.Sprintf("webhook %s cannot be connected to: %v", e.Name, err)
			f.Fix = "check its url, its certificate (--ca-file) and allow_private"
		}
		found = append(found, f)
	}
	return found
}

// tokenPause is the pause of fetchTokens after the endpoint has refused the request, which only a
// person can correct: the credentials, or its own address. A request that has its permit, such as a
// probe after "tenant start", asks the endpoint at once.
const tokenPause = time.Minute

// fetchTokens begins to fetch the tokens of the tenants of which this worker has become one of
// the first, so that wrong credentials show before there is work, and examines these tenants once.
// It also fetches tokens that a request needed and did not get, so that the worker is ready again
// without another request. It is called every few seconds.
func (w *worker) fetchTokens(ctx context.Context, all *sync.WaitGroup) {
	for _, t := range w.tenants() {
		h := t.api.TokenHealth()
		lacks := h.Err != nil || (h.GotAt.IsZero() && w.awaitsToken(t))
		if lacks && !t.fetchesToken.Swap(true) {
			all.Go(func() {
				defer t.fetchesToken.Store(false)
				w.fetchToken(ctx, t)
			})
		}
		if w.awaitsToken(t) && !t.examined.Swap(true) {
			all.Go(func() { w.examine(ctx, t) })
		}
	}
}

// fetchToken fetches a tenant's token, unless its endpoint refused the request just now, and logs
// the first of several failures. No two may run for one tenant.
func (w *worker) fetchToken(ctx context.Context, t *served) {
	if time.Since(t.tokenRefused) < tokenPause {
		return
	}
	_, err := t.tokens.Token(ctx)
	if err == nil {
		t.lacksToken = false
		w.logFaults(ctx, health.Scopes(t.Settings, t.api.TokenHealth()))
		return
	}
	fault := apiclient.FaultOf(err)
	if ctx.Err() == nil && !t.lacksToken {
		w.logger.ErrorContext(ctx, "no token", "tenant", t.Name, "error", err, "fix", t.Remedy(fault))
	}
	t.lacksToken = true
	none, ok := errors.AsType[*apiclient.TokenError](err)
	if ok && none.Status/100 == 4 && fault != apiclient.FaultPassing {
		t.tokenRefused = time.Now()
	}
}
