package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/signal"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/console"
	"orgops/internal/deliveries"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/metrics"
	"orgops/internal/queues"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/internal/serving"
	"orgops/internal/tenant"
	"orgops/internal/tracing"
	"orgops/internal/workers"
)

// version and commit are set when a release is built.
var (
	version = "dev"
	commit  string
)

type grammar struct {
	Work    settings       `cmd:"" default:"withargs" help:"Process tasks (the default command)."`
	Sandbox sandboxCommand `cmd:"" help:"Serve a sandbox tenant and its DNS, without a worker, and print the settings to connect to them."`
	Doctor  doctorCommand  `cmd:"" help:"Test Redis, credentials, API and resolvers with these settings, and print each fault with its remedy. Exit status 1 if anything is wrong."`
	cli.Manual
	Version kong.VersionFlag `help:"Print the version and exit." noenv:"true"`
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := cli.Program{
		Name: "worker", Description: "Process bulk operations on an identity platform's Management API.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: cli.NewEnvironment(environ), Version: cli.ReadBuild(version, commit).String(),
	}
	var g grammar
	selected, done, err := p.Parse(&g)
	if done && len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		// Whoever asks has typed no command, and that means work: its flags are wanted.
		fmt.Fprintln(stdout)
		p.Args = []string{"work", "--help"}
		_, _, err = p.Parse(&g)
	}
	if err != nil || done {
		return p.Fail(err)
	}
	redisFromArgs := cli.Given(selected, "redis-url")
	switch selected.Command() {
	case "sandbox":
		err = g.Sandbox.run(ctx, p)
	case "doctor":
		if err = checkTogether(selected, g.Doctor.systems, false); err == nil {
			err = g.Doctor.run(ctx, p, redisFromArgs)
		}
	case "work":
		if err = checkTogether(selected, g.Work.systems, g.Work.Sandbox); err == nil {
			err = g.Work.run(ctx, p, redisFromArgs)
		}
	default:
		err = selected.Run()
	}
	return p.Fail(err)
}

// run works for the tenants that the settings name, or in the sandbox.
func (s settings) run(ctx context.Context, p cli.Program, redisFromArgs bool) error {
	if s.Sandbox {
		return workInSandbox(ctx, p, s)
	}
	tenants, err := s.tenants(p.Env.Get)
	if err != nil {
		return err
	}
	redis, err := s.redis(p, redisFromArgs)
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	logger, level, err := cli.NewLogger(p.Stderr, s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	p.WarnOfUnknownVariables(logger)
	if s.CheckConfig {
		s.print(p.Stdout, tenants, redis)
		return nil
	}
	asSet := cli.SwitchLevelBySignal(ctx, logger, level, signal.Notify, signal.Stop)
	defer asSet()
	w, err := newWorker(ctx, s, redis, logger)
	if err != nil {
		return err
	}
	defer w.close()
	return w.work(ctx, tenants, func(ctx context.Context) error {
		if s.Drain {
			return w.drained(ctx)
		}
		<-ctx.Done()
		return nil
	})
}

// worker is one process of the fleet.
type worker struct {
	settings settings
	logger   *slog.Logger
	redis    redis.UniversalClient // every command outlives its context, as asynq needs it
	clock    *redisconn.Clock
	permits  redis.UniversalClient // the limiters', whose commands end when they say: they know what to do without Redis
	pages    redis.UniversalClient // the operator's pages', whose commands end when who asked for them has gone
	queue    deliveries.Enqueuer
	queues   *queues.Servers
	ledger   *runs.Ledger
	session  ledger.SessionID
	order    *workers.Order // from when the tenants are known
	metrics  *metrics.Metrics
	traces   *tracing.Tracing // nil: nothing is traced
	// schemaEvery is how often the version of the data in Redis is read.
	schemaEvery time.Duration

	tenants   []*served
	stopping  chan struct{}
	stops     []func(context.Context) error // of the HTTP listeners
	addresses []string                      // of the HTTP listeners, as URLs
}

// pageConnections bounds what the operator's pages ask of Redis at a time.
const pageConnections = 10

func newWorker(ctx context.Context, s settings, c redisconn.Config, logger *slog.Logger) (*worker, error) {
	traces, err := tracing.New(ctx, tracing.Config{Endpoint: s.OTLPEndpoint, Ratio: s.OTLPRatio, Service: "orgops-worker", Version: version, Logger: logger})
	if err != nil {
		return nil, cli.Usage(err)
	}
	logger = traces.Logger(logger)
	// It has one log for the whole process, and would write to stderr itself.
	redis.SetLogger(cli.RedisLog{Logger: logger})
	client, err := redisconn.ForServer(c)
	permits, noPermits := redisconn.Open(c)
	c.PoolSize = pageConnections
	pages, noPages := redisconn.Open(c)
	if err := cmp.Or(err, noPermits, noPages); err != nil {
		return nil, cli.Usage(fmt.Errorf("redis-url: %w", err))
	}
	// Both clients enqueue, and asynq's servers have the first.
	clock := redisconn.NewClock(permits)
	client.AddHook(clock)
	permits.AddHook(clock)
	registry := prometheus.NewRegistry()
	measured := metrics.New(registry)
	build := cli.ReadBuild(version, commit)
	measured.BuildInfo(build.Version, build.Commit)
	w := &worker{
		settings: s, logger: logger, redis: client, clock: clock, permits: permits, pages: pages, queue: traces.Around(asynq.NewClientFromRedisClient(client)),
		ledger: runs.New(client), session: ledger.NewSessionID(), metrics: measured, traces: traces, schemaEvery: schemaEvery, stopping: make(chan struct{}),
	}
	w.queues = queues.New(queues.Config{
		Redis: permits, Servers: client, ShutdownTimeout: s.ShutdownTimeout, Logger: logger,
		Rank: func(tenant string) int { return w.order.Place(ledger.Tenant(tenant)).Rank },
	})
	return w, nil
}

// work starts everything, waits until until returns or ctx is done, and stops
// everything in order. Being stopped by ctx is no error.
func (w *worker) work(ctx context.Context, tenants []tenant.Settings, until func(context.Context) error) error {
	for _, t := range tenants {
		one, err := w.serve(t)
		if err != nil {
			return err
		}
		w.tenants = append(w.tenants, one)
	}
	w.order = workers.New(w.about(), ledger.New(w.permits), w.logger) // whose commands end with their contexts
	var settings []tenant.Announced
	for _, t := range w.tenants {
		settings = append(settings, t.Announced())
		w.metrics.WatchToken(t.Name, t.api)
	}
	w.metrics.WatchRedis(w.redis, w.ledger, settings, w.logger)
	if err := w.listen(ctx); err != nil {
		return err
	}
	var endSession func()
	err := w.awaitRedis(ctx)
	if err == nil {
		endSession, err = w.beginSession(ctx)
	}
	if err != nil {
		w.stopListening()
		return stopped(ctx, err)
	}
	defer endSession() // last, when no row is in progress any more
	background, cancel := context.WithCancel(ctx)
	var besides sync.WaitGroup
	w.announceOnce(ctx, w.tenants...) // before "worker started", so that producers find the tenants from then on
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	besides.Go(func() { w.order.Run(background, func() { w.fetchTokens(background, &besides) }) })
	besides.Go(func() { w.announce(background) })
	besides.Go(func() { w.watchSchema(background, fail) })
	defer besides.Wait()
	defer cancel()
	for _, t := range w.tenants {
		if t.schedule != nil {
			besides.Go(func() { t.schedule.Run(background) })
		}
	}
	besides.Go(func() { w.queues.Run(background) })
	stopDispatching := w.startDispatching(background)
	w.sayStarted(ctx)
	err = until(running)
	if cause := context.Cause(running); cause != nil && ctx.Err() == nil {
		err = cause
	}
	w.logger.InfoContext(ctx, "worker stopping: running tasks may finish, the others are requeued", "within", w.settings.ShutdownTimeout)
	stopDispatching()
	w.stop()
	w.logger.InfoContext(ctx, "worker stopped")
	return stopped(ctx, err)
}

// stopped makes nothing of an error that only says that we were told to stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// Intervals of asking Redis.
const (
	redisAgain    = 2 * time.Second
	announceEvery = time.Minute
	schemaEvery   = time.Minute
)

// wait waits for that long, or until ctx ends: then it returns why.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// awaitRedis waits until Redis answers and is one that this worker can use.
func (w *worker) awaitRedis(ctx context.Context) error {
	for {
		err := redisconn.Ready(ctx, w.redis)
		if err == nil {
			return errors.Join(redisconn.CheckVersion(ctx, w.redis), w.ledger.Core().CheckSchema(ctx))
		}
		w.logger.ErrorContext(ctx, "waiting for Redis", "error", err, "again_in", redisAgain)
		if err := wait(ctx, redisAgain); err != nil {
			return err
		}
	}
}

// listen opens the operator's pages and the probes.
func (w *worker) listen(ctx context.Context) error {
	config := console.Config{
		Redis: w.pages, Ledger: runs.New(w.pages), Intake: w.intake(), Version: version, Logger: w.logger,
		Tenants: w.shown(), Write: w.settings.OpsWrite,
	}
	if w.settings.HTTPAddr != off {
		access, certificate, err := w.settings.files(w.logger)
		if err != nil {
			return cli.Usage(err)
		}
		config.Access = access
		if err := w.listenAt(ctx, "http-addr", w.settings.HTTPAddr, certificate, console.Pages(config)); err != nil {
			return err
		}
	}
	if w.settings.ProbeAddr != off {
		return w.listenAt(ctx, "probe-addr", w.settings.ProbeAddr, nil, health.Probes(version, w.readiness().Findings, w.metrics.Handler()))
	}
	return nil
}

// shown is what pages and metrics tell of the tenants.
func (w *worker) shown() (tenants []console.Tenant) {
	for _, t := range w.tenants {
		tenants = append(tenants, t.shown)
	}
	return tenants
}

func (w *worker) listenAt(ctx context.Context, flag, addr string, certificate *tls.Config, handler http.Handler) error {
	at, stop, err := serving.Serve(context.WithoutCancel(ctx), addr, certificate, handler, w.logger)
	if err != nil {
		w.stopListening()
		return cli.Usage(fmt.Errorf("%s: %w (set --%s to another address, or to off)", flag, err, flag))
	}
	w.stops = append(w.stops, stop)
	scheme := "http"
	if certificate != nil {
		scheme = "https"
	}
	w.addresses = append(w.addresses, scheme+"://"+at+"/")
	w.logger.InfoContext(ctx, "listening", "for", flag, "url", scheme+"://"+at+"/")
	return nil
}

// intake is what puts rows back, or hands them in, from here.
func (w *worker) intake() intake.Intake { return intake.New(w.redis, w.ledger) }

// stop fetches nothing more, lets what runs finish within the shutdown
// timeout, and hands back the rest.
func (w *worker) stop() {
	w.queues.Stop()
	close(w.stopping)
	w.queues.Shutdown()
	for _, t := range w.tenants {
		t.api.CloseIdle()
		t.dns.Close()
		t.hooks.Close()
	}
	w.stopListening()
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

func (w *worker) close() {
	if err := errors.Join(w.redis.Close(), w.permits.Close(), w.pages.Close()); err != nil {
		w.logger.Debug("redis connections closed", "error", err)
	}
	w.traces.Close()
}

// announce tells producers the settings of the tenants whose first worker this is, now and
// again: they need Redis only.
func (w *worker) announce(ctx context.Context) {
	for wait(ctx, announceEvery) == nil {
		for _, t := range w.tenants {
			if w.order.Place(ledger.Tenant(t.Name)).Rank == 0 {
				w.announceOnce(ctx, t)
			}
		}
	}
}

func (w *worker) announceOnce(ctx context.Context, tenants ...*served) {
	for _, t := range tenants {
		settings := t.Announced()
		settings.UpdatedAt = time.Now().UTC()
		if err := tenant.Announce(ctx, w.redis, settings); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "announcing settings failed", "tenant", t.Name, "error", err)
		}
	}
}

// watchSchema marks a Redis that was emptied again, and calls fail once its data is of a
// version that this worker cannot use, for example since a backup was restored. It
// returns when ctx ends.
func (w *worker) watchSchema(ctx context.Context, fail context.CancelCauseFunc) {
	stored := ledger.New(w.permits) // whose commands end with ctx
	for wait(ctx, w.schemaEvery) == nil {
		err := stored.CheckSchema(ctx)
		if _, wrong := errors.AsType[*ledger.SchemaError](err); wrong {
			w.logger.ErrorContext(ctx, "stopping: the data in Redis was replaced", "error", err)
			fail(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "reading the schema version failed", "error", err)
		}
	}
}
