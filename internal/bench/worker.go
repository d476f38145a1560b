package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ops"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

// What a worker is like for a tenant without a limit; see cmd/worker.
const (
	dnsConcurrency  = 250
	apiConcurrency  = 100
	shutdownTimeout = 25 * time.Second
)

// Intervals of a worker's servers; see tasks.NewServers.
const (
	checkEvery   = 10 * time.Millisecond
	forwardEvery = 200 * time.Millisecond
)

// tenantName is whose queues are used.
const tenantName = tasks.DefaultTenant

// calls are the clients that make a row's calls, alike for the worker and for
// the plain loop.
type calls struct {
	api *apiclient.Client
	dns *dnscheck.Checker
}

// callsTo returns new clients. Without a gate and metrics the requests are
// neither paced nor measured.
func callsTo(to endpoint, gate apiclient.Gate, metrics *ops.Metrics) (calls, error) {
	tokenURL, audience, err := tokensAt(to)
	if err != nil {
		return calls{}, err
	}
	a := apiclient.Config{BaseURL: to.BaseURL, Gate: gate, Tokens: apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
		TokenURL: tokenURL, Audience: audience, ClientID: to.ClientID, ClientSecret: apiclient.NewSecret(to.ClientSecret),
	})}
	var d dnscheck.Config
	for _, address := range to.Resolvers {
		r, err := dnscheck.ParseResolver(address)
		if err != nil {
			return calls{}, err
		}
		d.Resolvers = append(d.Resolvers, r)
	}
	if metrics != nil {
		a.Observe = func(operation string, status int, took time.Duration) {
			metrics.APIRequest(tenantName, operation, status, took)
		}
		d.Observe = func(o dnscheck.Observation) {
			metrics.DNSQuery(o.Resolver, o.Transport, o.RCode, o.State.String(), string(o.Reason), o.Took)
		}
	}
	api, err := apiclient.New(a)
	if err != nil {
		return calls{}, err
	}
	checker, err := dnscheck.New(d)
	return calls{api: api, dns: checker}, err
}

func tokensAt(to endpoint) (tokenURL, audience string, err error) {
	audience, err = apiclient.DefaultAudience(to.BaseURL)
	return apiclient.DefaultTokenURL(to.AuthURL), audience, err
}

// measuredGate measures the wait for permits, as cmd/worker does.
type measuredGate struct {
	*pace.Limiter
	metrics *ops.Metrics
}

func (g measuredGate) Wait(ctx context.Context, operation string) error {
	start := time.Now()
	err := g.Limiter.Wait(ctx, operation)
	g.metrics.PermitWait(tenantName, time.Since(start))
	return err
}

// classOf tells classes as cmd/worker does.
func classOf(ctx context.Context) pace.Class {
	e := tasks.ErrandOf(ctx)
	return pace.ClassOf(e.Lane == tasks.Fast, e.Looking, e.Sweeping)
}

// worker is what cmd/worker puts together for one tenant, wired as it is there: metrics, a gate that is measured, a log line a task.
type worker struct {
	redis    redis.UniversalClient
	calls    calls
	servers  *tasks.Servers // of rows that no file has submitted
	core     *core
	stopping chan struct{}
	log      io.Closer
}

// newWorker returns a worker whose servers are not started, for a tenant with that
// limit, if any. A nil ledger, of either sort of rows, is one on the store.
func newWorker(s *store, to endpoint, ledger tasks.Ledger, executions engine.Ledger, limit pace.Limit) (w *worker, err error) {
	// Lines are written, as to a terminal or a collector, but to nowhere.
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	w = &worker{stopping: make(chan struct{}), log: log}
	logger := slog.New(slog.NewJSONHandler(log, nil))
	metrics, err := ops.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if w.redis, err = s.client(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if ledger == nil {
		ledger = runs.New(w.redis)
	}
	limiter := pace.New(pace.Config{Redis: w.redis, Tenant: tenantName, Limit: limit, Class: classOf, Stopping: w.stopping, Logger: logger})
	if w.calls, err = callsTo(to, measuredGate{limiter, metrics}, metrics); err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.servers = tasks.NewServers(tasks.ServerConfig{
		Redis: w.redis, Tenant: tenantName, Logger: logger, ShutdownTimeout: shutdownTimeout,
		DNSConcurrency: dnsConcurrency, APIConcurrency: apiConcurrency,
		Mux: tasks.NewMux(tasks.Config{
			Tenant: tenantName, API: w.calls.api, DNS: w.calls.dns, Ledger: ledger, Pace: limiter,
			Enqueuer: asynq.NewClientFromRedisClient(w.redis), Meter: metrics, Logger: logger,
			ClientLimit: pace.NewClientLimit(w.redis, tenantName), RequestTimeout: w.calls.api.Timeout(), Stopping: w.stopping,
		}),
	})
	w.core = newCore(w.redis, w.calls, limiter, limit, executions, metrics, w.stopping, logger)
	return w, nil
}

// start begins to execute rows.
func (w *worker) start() error {
	if err := w.servers.Start(); err != nil {
		return err
	}
	return w.core.start()
}

// stop ends the servers that were started.
func (w *worker) stop() {
	w.servers.Stop()
	close(w.stopping)
	w.core.stop()
	w.servers.Shutdown()
}

func (w *worker) close() error {
	if w.calls.api != nil {
		w.calls.api.CloseIdle()
	}
	return errors.Join(w.redis.Close(), w.log.Close())
}

// bareServer is an asynq server for a group's two lanes, set up as a tenant's
// servers are, but for how often an idle one asks (0: asynq's default).
func bareServer(rdb redis.UniversalClient, concurrency int, every time.Duration, queue func(string, tasks.Lane) string, tenant string) *asynq.Server {
	return asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency:              concurrency,
		Queues:                   map[string]int{queue(tenant, tasks.Normal): 1, queue(tenant, tasks.Fast): 1},
		TaskCheckInterval:        every,
		DelayedTaskCheckInterval: forwardEvery,
		ShutdownTimeout:          shutdownTimeout,
		LogLevel:                 asynq.FatalLevel,
	})
}
