package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/tasks"
)

// What a worker is like for a tenant without a limit; see cmd/worker.
const (
	dnsConcurrency  = 250
	apiConcurrency  = 100
	shutdownTimeout = 25 * time.Second
)

// Intervals of a worker's servers; see engine.ServerConfig.
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
func callsTo(to endpoint, gate apiclient.Gate, metrics *metrics.Metrics) (calls, error) {
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
	metrics *metrics.Metrics
}

func (g measuredGate) Wait(ctx context.Context, operation string) error {
	start := time.Now()
	err := g.Limiter.Wait(ctx, operation)
	g.metrics.PermitWait(tenantName, time.Since(start))
	return err
}

// classOf returns the class of a request, as cmd/worker does.
func classOf(ctx context.Context) pace.Class {
	return pace.ClassOf(kinds.Leading(ctx), kinds.Sweeping(ctx))
}

// worker has the parts of cmd/worker for one tenant, connected as they are there: metrics, a
// gate that is measured, a log line a task.
type worker struct {
	redis    redis.UniversalClient
	scripts  scriptCount
	calls    calls
	core     *core
	stopping chan struct{}
	log      io.Closer
}

// newWorker returns a worker whose core is not started, for a tenant with that limit, if
// any. If executions is nil the engine uses the ledger of the store.
func newWorker(s *store, to endpoint, executions engine.Ledger, limit pace.Limit) (w *worker, err error) {
	// Lines are written, as to a terminal or a collector, but to nowhere.
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	w = &worker{stopping: make(chan struct{}), log: log}
	logger := slog.New(slog.NewJSONHandler(log, nil))
	measured := metrics.New(prometheus.NewRegistry())
	if w.redis, err = s.client(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	w.redis.AddHook(&w.scripts)
	limiter := pace.New(pace.Config{Redis: w.redis, Tenant: tenantName, Limit: limit, Class: classOf, Stopping: w.stopping, Logger: logger})
	if w.calls, err = callsTo(to, measuredGate{limiter, measured}, measured); err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.core = newCore(w.redis, w.calls, limiter, limit, executions, measured, w.stopping, logger)
	return w, nil
}

// start begins to execute rows.
func (w *worker) start() error {
	return w.core.start()
}

// stop ends the core that was started.
func (w *worker) stop() {
	close(w.stopping)
	w.core.stop()
}

func (w *worker) close() error {
	if w.calls.api != nil {
		w.calls.api.CloseIdle()
	}
	return errors.Join(w.redis.Close(), w.log.Close())
}

// scriptCount counts the scripts that a client runs for rows: those of the ledger for a
// segment, those of asynq for a task, and permits. Polls, of asynq and the dispatcher, and
// what a worker does without rows are not counted.
type scriptCount struct{ n atomic.Int64 }

func (*scriptCount) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *scriptCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.count(cmd, err)
		return err
	}
}

func (c *scriptCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		for _, cmd := range commands {
			c.count(cmd, cmd.Err())
		}
		return err
	}
}

// count counts a script of rows by its keys: a segment's header, a task, a queue's pending
// or active tasks, and permits. Permits take the second key, their state is read without it.
func (c *scriptCount) count(cmd redis.Cmder, err error) {
	args := cmd.Args() // evalsha, script, number of keys, then keys and arguments
	if err != nil || !strings.HasPrefix(cmd.Name(), "eval") || len(args) < 5 {
		return
	}
	first, _ := args[3].(string)
	second, _ := args[4].(string)
	segment := strings.HasPrefix(first, "orgops:v2:{") && strings.HasSuffix(first, ":head")
	task := strings.HasPrefix(first, "asynq:{") && strings.Contains(first, "}:t:")
	queue := strings.HasSuffix(first, ":pending") && strings.HasSuffix(second, ":paused") || strings.HasSuffix(first, ":active") && strings.HasSuffix(second, ":lease")
	permit := strings.HasSuffix(first, ":pace") && strings.HasPrefix(second, "orgops:")
	if segment || task || queue || permit {
		c.n.Add(1)
	}
}
