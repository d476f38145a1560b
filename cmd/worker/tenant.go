package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/console"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/scan"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/internal/tracing"
	"orgops/internal/webhooks"
)

// served is a tenant of this worker. It is started and stopped once: with other settings the
// tenant is another one.
type served struct {
	tenant.Settings
	logger   *slog.Logger
	api      *apiclient.Client
	tokens   apiclient.TokenSource
	limiter  *pace.Limiter
	dns      *dnscheck.Checker
	core     *core
	hooks    *webhooks.Sender
	schedule *schedule.Scheduler // of its sweeps; nil: there is none
	queues   []queues.Queue
	shown    console.Tenant // on the operator's pages

	mu       sync.Mutex
	end      func() // ends what start began; nil: it was not started
	stopped  bool
	stopping chan struct{} // closed when no more tasks are fetched

	fetchesToken atomic.Bool // by [worker.fetchTokens]
	lacksToken   bool        // of fetchTokens: the last attempt failed
}

// start runs the parts of a tenant until ctx ends or the tenant is stopped, and serves its
// queues. Its parts begin to read Redis after a delay: tenants that do it at different times
// need few connections.
func (w *worker) start(ctx context.Context, t *served, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || ctx.Err() != nil {
		return
	}
	t.warn()
	for _, r := range t.DNSResolvers {
		w.metrics.ResolverVotes(t.Name, r.Name, true) // until its canary shows otherwise
	}
	forget := w.metrics.WatchTenant(t.Name, t.api)
	for _, q := range t.queues {
		w.queues.Add(q)
	}
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	for _, run := range []func(){
		func() { t.core.dispatcher.Run(ctx) },
		func() { t.core.scanner.Run(ctx) },
		func() { t.core.engine.RunAudits(ctx, ledger.New(w.permits)) },
		func() { t.core.followUp.Run(ctx, t.core.dispatcher.Active) },
	} {
		parts.Go(func() {
			if wait(ctx, delay) == nil {
				run()
			}
		})
	}
	if t.schedule != nil {
		parts.Go(func() { t.schedule.Run(ctx) })
	}
	t.end = func() {
		cancel()
		parts.Wait() // until the dispatcher has given up its lease
		w.shutdown(t)
		forget()
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
	if t.end != nil {
		t.end()
	}
	t.close()
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

// close closes the connections of a tenant.
func (t *served) close() {
	t.api.CloseIdle()
	t.dns.Close()
	t.hooks.Close()
}

// warn logs the settings that are probably not intended.
func (t *served) warn() {
	if open := inTheClear(t.DNSResolvers); len(open) > 0 {
		t.logger.Warn("resolvers queried without encryption: an attacker on the path to them can forge their answers and prove any domain", "resolvers", open,
			"what_to_do", "name them by tls:// or https://, as the default does")
	}
	for _, doubt := range t.Warnings() {
		t.logger.Warn("suspicious setting", "setting", doubt)
	}
}

// inTheClear returns the names of the resolvers whose answers can be forged on the way.
func inTheClear(resolvers []dnscheck.Resolver) (names []string) {
	for _, r := range resolvers {
		if r.InTheClear() {
			names = append(names, r.String())
		}
	}
	return names
}

// dnsConcurrency is how many looks run at a time. Most wait for servers that do
// not answer, which costs little: 8 s each, over UDP and TCP at the name servers
// and then at the resolvers. Ten such a second, and as many that are looked at
// again, hold 170 places (dnscheck has a test of the 8 s); the rest is for the
// others, which take milliseconds.
const dnsConcurrency = 250

// resolverLabel says in metrics who was asked: zones' own name servers are one,
// for their names are strangers', and without number.
func resolverLabel(o dnscheck.Observation) string {
	if o.Authority {
		return "authority"
	}
	return o.Resolver
}

// apiConcurrency is how many tasks that spend the budget run at a time: as
// many as are under way when requests of 2 s use the whole rate, and a few.
func apiConcurrency(rate pace.Rate) int {
	const latency, few, most = 2, 8, 200
	if rate.IsUnlimited() {
		return most / 2
	}
	return min(int(math.Ceil(rate.PerSecond()*latency))+few, most)
}

// classOf returns the pace's class of a request.
func classOf(ctx context.Context) pace.Class {
	return pace.ClassOf(kinds.Leading(ctx), kinds.Sweeping(ctx))
}

// longestWait is how long a request waits for its permit before its task goes
// back to the queue: long enough for whoever needs two where permits are rare.
func longestWait(limit pace.Limit) time.Duration {
	const wait = 20 * time.Second
	left, _ := limit.Effective()
	return wait + time.Duration(2/left.PerSecond()*float64(time.Second))
}

// serve returns the parts of a tenant, not started. It changes nothing.
func (w *worker) serve(t tenant.Settings) (*served, error) {
	logger := w.logger.With("tenant", t.Name)
	stopping := make(chan struct{})
	limiter := pace.New(pace.Config{Redis: w.permits, Tenant: t.Name, Limit: t.Limit, Class: classOf, MaxWait: longestWait(t.Limit), Stopping: stopping, Writes: apiclient.Writes, Repeats: apiclient.IsRepetition, Logger: w.logger})
	if w.settings.DebugHTTP {
		t.Network.Dump = logger
	}
	tokens, err := t.TokenSource()
	if err != nil {
		return nil, err
	}
	problems, reach := new(console.APIErrors), new(console.Reach)
	api, err := apiclient.New(apiclient.Config{
		BaseURL: t.BaseURL, Tokens: tokens, Network: t.Network, Body: apiclient.BodyFormat(t.Body), Gate: measuredGate{limiter, w.metrics, w.traces, t.Name}, UserAgent: "orgops/" + version, Logger: logger,
		MaxConns: corePlaces(t.Limit.Rate) + scan.Parallel, // one for each request that can be waiting for an answer
		Observe: func(operation string, status int, took time.Duration) {
			w.metrics.APIRequest(t.Name, operation, status, took)
		},
		Trace:  w.traces.Requests(t.Name),
		Failed: problems.Note,
	})
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	checker, err := dnscheck.New(dnscheck.Config{
		Resolvers: t.DNSResolvers, Quorum: t.Quorum, RequireDNSSEC: t.RequireDNSSEC, ThinProofs: t.ThinProofAfter > 0, Mode: t.Mode, CanaryZone: t.CanaryZone,
		RefuseAliases: t.RefuseAliases, RefuseWildcards: t.RefuseWildcards,
		Observe: func(o dnscheck.Observation) {
			w.metrics.DNSQuery(resolverLabel(o), o.Transport, o.RCode, o.State.String(), string(o.Reason), o.Took)
		},
		Vote: func(resolver string, trusted bool, why string) {
			w.metrics.ResolverVotes(t.Name, resolver, trusted)
			if trusted {
				logger.Info("resolver counts again", "resolver", resolver)
				return
			}
			logger.Error("resolver not counted: it answers for names that do not exist", "resolver", resolver, "error", why)
		},
		Reach: func(reached bool, why string) {
			reach.Set(reached, why)
			if reached {
				logger.Info("checking at the domains' own name servers")
				return
			}
			logger.Warn("name servers unreachable: checking at the resolvers alone", "dns_mode", t.Mode.String(), "error", why)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	hooks, err := webhooks.NewSender(webhooks.Config{Endpoints: t.Endpoints, UserAgent: "orgops/" + version, Proxy: t.Network.Proxy, RootCAs: t.Network.RootCAs})
	if err != nil {
		checker.Close()
		return nil, fmt.Errorf("tenant %s: webhooks: %w", t.Name, err)
	}
	s := &served{
		shown: console.Tenant{
			Name: t.Name, Settings: t.Announced(), API: api, DNS: checker,
			DNSMode: t.Mode.String(), Quorum: t.Quorum, Reach: reach, Errors: problems, Webhooks: shownReceivers(t),
		},
		Settings: t, logger: logger, api: api, tokens: tokens, limiter: limiter, dns: checker, hooks: hooks, schedule: w.schedule(t, logger), stopping: stopping,
	}
	notifier, deliveries := w.newNotifier(s)
	var rows queues.Queue
	s.core, rows = w.newCore(s, notifier)
	s.queues = []queues.Queue{rows, deliveries}
	return s, nil
}

// shownReceivers are those of the tenant's events, as far as they may be shown.
func shownReceivers(t tenant.Settings) (all []console.Receiver) {
	for _, e := range t.Endpoints {
		all = append(all, console.Receiver{Name: e.Name, Origin: e.Origin()})
	}
	return all
}

// measuredGate measures, and traces, how long requests wait for their permits.
type measuredGate struct {
	*pace.Limiter
	metrics *metrics.Metrics
	traces  *tracing.Tracing
	tenant  string
}

func (g measuredGate) Wait(ctx context.Context, operation string) error {
	ctx, traced := g.traces.Begin(ctx, "permit")
	start := time.Now()
	err := g.Limiter.Wait(ctx, operation)
	traced(err)
	g.metrics.PermitWait(g.tenant, time.Since(start))
	return err
}

var _ interface {
	Answered(context.Context, string, int, http.Header)
} = measuredGate{}
