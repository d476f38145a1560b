package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/activity"
	"orgops/internal/console"
	"orgops/internal/deliveries"
	"orgops/internal/health"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/internal/tracing"
	"orgops/internal/webhooks"
)

// serve returns the parts of a tenant, not started. It changes nothing.
func (w *worker) serve(t tenant.Settings) (*served, error) {
	logger := w.logger.With("tenant", t.Name)
	stopping := make(chan struct{})
	limiter := pace.New(pace.Config{Redis: w.permits, Tenant: t.Name, Limit: t.Limit,
		MaxWait: longestWait(t.Limit), Stopping: stopping, Writes: schema.Writes, Logger: w.logger,
		Changed: func(ctx context.Context, how, what string) {
			w.author("worker").Record(ctx, activity.Entry{Tenant: t.Name, Action: activity.Action(how), Result: what})
		}})
	if w.settings.DebugHTTP {
		t.Network.Exchanges = logger
	}
	tokens, err := t.TokenSource()
	if err != nil {
		return nil, err
	}
	problems := new(console.APIErrors)
	api, err := apiclient.New(apiclient.Config{
		BaseURL: t.BaseURL, Tokens: tokens, Network: t.Network, Body: apiclient.BodyFormat(t.Body),
		Gate: measuredGate{permits{limiter}, w.metrics, w.traces, t.Name}, UserAgent: "orgops/" + build.Version,
		Logger:   logger,
		MaxConns: rowPlaces(t.Limit.Rate) + scan.Parallel, // one for each request that can be waiting for an answer
		Observe: func(operation string, status int, took time.Duration) {
			w.metrics.APIRequest(t.Name, operation, status, took)
			w.meters.Request(t.Name, status)
		},
		Trace:  w.traces.Request,
		Failed: problems.Note,
	})
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	dns := dnscheck.Config{
		Resolvers: t.DNSResolvers, Quorum: t.ResolverQuorum, RequireDNSSEC: t.RequireDNSSEC, Mode: t.Mode,
		RefuseAliases: t.RefuseAliases,
		Observe: func(o dnscheck.Observation) {
			w.metrics.DNSQuery(resolverLabel(o), o.Transport, o.RCode, o.State.String(), string(o.Reason), o.Took)
			w.network.Observe(o)
		},
	}
	checker, err := dnscheck.New(dns)
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	// A disproof queries the name servers in every mode, or nothing is revoked.
	dns.Mode = dnscheck.ModeAuthority
	if t.OnLoopback() {
		dns.Mode = t.Mode // a sandbox may have no name servers
	}
	disprover, err := dnscheck.New(dns)
	if err != nil {
		checker.Close()
		return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	hooks, err := webhooks.NewSender(webhooks.Config{Endpoints: t.Endpoints, UserAgent: "orgops/" + build.Version,
		Proxy: t.Network.Proxy, RootCAs: t.Network.RootCAs})
	if err != nil {
		checker.Close()
		disprover.Close()
		return nil, fmt.Errorf("tenant %s: webhooks: %w", t.Name, err)
	}
	s := &served{
		shown: console.Tenant{
			Served: health.Served{Settings: t, API: api, DNS: checker},
			Errors: problems, Webhooks: t.Endpoints,
		},
		Settings: t, logger: logger, api: api, tokens: tokens, limiter: limiter, dns: checker, disprover: disprover,
		hooks: hooks, schedule: w.schedule(t, logger), stopping: stopping,
	}
	if t.Mode != dnscheck.ModeResolvers {
		s.shown.Network = w.network.Last
	}
	s.shown.AwaitsToken = func() bool { return w.awaitsToken(s) }
	notifier := w.newNotifier(s) // adds queues, too
	queue, err := w.newExecution(s, notifier)
	if err != nil {
		s.close()
		return nil, err
	}
	s.queues = append(s.queues, queue)
	return s, nil
}

// permits is a limiter as the gate of a client.
type permits struct{ *pace.Limiter }

func (p permits) Wait(ctx context.Context, r apiclient.Request) error {
	return p.Limiter.Wait(ctx, pace.Request{Operation: r.Operation, Class: pace.Class(r.Class), Again: r.Again})
}

// measuredGate measures and traces the wait of requests for their permits.
type measuredGate struct {
	permits
	metrics *metrics.Metrics
	traces  *tracing.Tracing
	tenant  string
}

func (g measuredGate) Wait(ctx context.Context, r apiclient.Request) error {
	ctx, traced := g.traces.Begin(ctx, "permit")
	start := time.Now()
	err := g.permits.Wait(ctx, r)
	traced(err != nil)
	g.metrics.PermitWait(g.tenant, time.Since(start))
	return err
}

// newNotifier returns the notifier of a tenant's events, and adds the queues of its deliveries.
func (w *worker) newNotifier(t *served) *deliveries.Notifier {
	t.deliveries = deliveries.Config{
		Tenant: t.Name, Receivers: t.hooks, Redis: w.redis, Enqueuer: w.queue, Enqueued: w.queues.Wake,
		Backlog: t.WebhookBacklog,
		Meter:   w.metrics, Headers: w.traces.Headers, Ended: w.traces.Ended, Stopping: t.stopping,
		Logger: w.logger,
	}
	t.deliver = w.traces.Traced(deliveries.NewHandler(t.deliveries))
	for _, endpoint := range t.Endpoints {
		t.queues = append(t.queues, t.deliveriesTo(endpoint.Name))
	}
	return deliveries.NewNotifier(t.deliveries)
}

func (t *served) deliveriesTo(endpoint string) queues.Queue {
	return queues.Queue{Name: deliveries.Queue(t.Name, endpoint), Tenant: t.Name, Config: deliveries.ServerConfig(),
		Full: deliveriesFull, Handler: t.deliver}
}

// deliveriesFull is how many deliveries to an endpoint are due when the next worker makes some too:
// so many that a receiver has at most [deliveries.Places] in progress in ordinary times.
const deliveriesFull = 1000

// openDeliveries has endpoints whose settings have changed get deliveries again, and makes attempts
// for endpoints that the file no longer has, so that their waiting events are given up.
func (w *worker) openDeliveries(ctx context.Context, t *served) {
	others, err := deliveries.Reopen(ctx, t.deliveries)
	if err != nil {
		t.logger.WarnContext(ctx, "webhook endpoints not resumed", "error", err)
	}
	for _, endpoint := range others {
		q := t.deliveriesTo(endpoint)
		t.queues = append(t.queues, q)
		w.queues.Add(q)
	}
}

// schedule returns the scheduler of the tenant's sweeps; nil if it has no schedule, or if the
// worker drains, which new sweeps would prolong.
func (w *worker) schedule(t tenant.Settings, logger *slog.Logger) *schedule.Scheduler {
	if w.settings.Drain || t.Cron.String() == "" {
		return nil
	}
	in := w.intake()
	in.By = w.author("schedule")
	return &schedule.Scheduler{
		Intake: in, Store: sweep.NewStore(w.redis, t.Name), Tenant: t.Name,
		Cron: t.Cron, Pending: t.VerifyPending, Logger: logger,
		Ticked: func(result string) { w.metrics.SweepTick(t.Name, result) },
	}
}

// resolverLabel returns the label of the queried server in metrics. All name servers of zones have
// the same one: there are many, and strangers choose their names.
func resolverLabel(o dnscheck.Observation) string {
	if o.Authority {
		return "authority"
	}
	return o.Resolver
}

// longestWait is how long a request waits for its permit before its row is given back: long enough
// for a task that needs two at a low rate.
func longestWait(limit pace.Limit) time.Duration {
	const wait = 20 * time.Second
	left, _ := limit.Effective()
	return wait + time.Duration(2/left.PerSecond()*float64(time.Second))
}
