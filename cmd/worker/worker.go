package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/console"
	"orgops/internal/deliveries"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/redisconn"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/internal/tracing"
	"orgops/internal/webhooks"
	"orgops/internal/workers"
)

// version and commit are set when a release is built, from sources without their history.
var (
	version = "dev"
	commit  string
)

// build is the version of this program, as the linker or Go has stamped it.
var build = cli.ReadBuild(version, commit)

// worker is one process of the fleet.
type worker struct {
	settings settings
	alone    sync.Mutex // see [engine.Config]
	logger   *slog.Logger
	redis    redis.UniversalClient // its commands do not end with their contexts, as asynq requires
	permits  redis.UniversalClient // of the limiters; its commands end with their contexts
	pages    redis.UniversalClient // of the operator's pages; its commands end with their requests
	queue    deliveries.Enqueuer
	queues   *queues.Servers
	ledger   *ledger.Ledger
	session  ledger.SessionID
	order    *workers.Order // nil before work
	metrics  *metrics.Metrics
	meters   *meters.Meters
	started  time.Time
	host     string           // its name, for people; empty: unknown
	traces   *tracing.Tracing // nil: nothing is traced
	// schemaEvery is how often the version of the data in Redis is read, and whose it is.
	schemaEvery time.Duration

	network   *health.Network // the way to name servers
	served    atomic.Pointer[[]*served]
	ready     atomic.Pointer[health.Readiness]
	storage   atomic.Pointer[[]health.Finding] // faults of how Redis stores the data
	renewed   atomic.Bool                      // the session, at least once
	clock     atomic.Pointer[health.Finding]   // that this machine's clock is wrong; nil: it is right
	lost      atomic.Pointer[time.Time]        // when Redis was last found to have lost data; nil: never
	file      *settingsFile                    // of the tenants; nil: their settings are flags
	stops     []func(context.Context) error    // of the HTTP listeners
	addresses []string                         // of the HTTP listeners, as URLs
}

// pageConnections bounds the connections of the operator's pages to Redis.
const pageConnections = 10

func newWorker(ctx context.Context, s settings, c redisconn.Config, logger *slog.Logger) (*worker, error) {
	traces, err := tracing.New(ctx, os.Getenv, "orgops-worker", build.Version, logger)
	if err != nil {
		return nil, cli.Usage(err)
	}
	logger = traces.Logger(logger)
	// go-redis has one log for the process, and writes to stderr by default.
	redis.SetLogger(cli.RedisLog{Logger: logger})
	client, err := redisconn.ForServer(c)
	permits, noPermits := redisconn.Open(c)
	c.PoolSize = pageConnections
	pages, noPages := redisconn.Open(c)
	if err := cmp.Or(err, noPermits, noPages); err != nil {
		return nil, cli.Usage(err)
	}
	registry := prometheus.NewRegistry()
	measured := metrics.New(registry)
	measured.BuildInfo(build.Version, build.Commit)
	host, _ := os.Hostname()
	w := &worker{
		settings: s, logger: logger, redis: client, permits: permits, pages: pages,
		queue:  asynq.NewClientFromRedisClient(client),
		ledger: ledger.New(client), session: ledger.NewSessionID(), metrics: measured, traces: traces,
		meters: meters.New(), started: time.Now().UTC(), host: host,
		schemaEvery: schemaEvery,
	}
	w.network = &health.Network{Probe: w.probeNetwork, Found: w.networkFound}
	w.queues = queues.New(queues.Config{
		Redis: permits, Servers: client, ShutdownTimeout: s.ShutdownTimeout, Logger: logger,
		Rank: func(tenant string) int { return w.order.Place(ledger.Tenant(tenant)).Rank },
	})
	return w, nil
}

func (w *worker) close() {
	if err := errors.Join(w.redis.Close(), w.permits.Close(), w.pages.Close()); err != nil {
		w.logger.Debug("redis connections closed", "error", err)
	}
	w.traces.Close()
}

// tenants returns the tenants of this worker. The list is not modified.
func (w *worker) tenants() []*served {
	if all := w.served.Load(); all != nil {
		return *all
	}
	return nil
}

// setTenants replaces the tenants of this worker. Session, pages, metrics and probes follow.
func (w *worker) setTenants(all []*served) {
	w.served.Store(&all)
	w.ready.Store(w.readiness())
}

// intake returns the intake of this worker, for retries, sweeps and samples.
func (w *worker) intake() intake.Intake { return intake.New(w.redis, w.ledger) }

// author returns the author of actions without a person.
func (w *worker) author(name string) activity.Author {
	return activity.Author{Redis: w.permits, Logger: w.logger, Name: name} // its commands end with their contexts
}

// served is a tenant of this worker. It is started and stopped once: with other settings the
// tenant is another one.
type served struct {
	tenant.Settings
	logger     *slog.Logger
	api        *apiclient.Client
	tokens     apiclient.TokenSource
	limiter    *pace.Limiter
	dns        *dnscheck.Checker
	disprover  *dnscheck.Checker // for disproofs
	engine     *engine.Engine
	dispatcher *dispatch.Dispatcher // releases rows that any worker executes
	hooks      *webhooks.Sender
	schedule   *schedule.Scheduler // of its sweeps; nil: there is none
	deliveries deliveries.Config   // of events to webhooks
	deliver    asynq.Handler       // of a delivery
	queues     []queues.Queue
	shown      console.Tenant // on the operator's pages, and to /readyz

	mu       sync.Mutex
	end      func() // ends the parts; nil: it was not started
	forget   func() // removes its metrics; set with end
	stopped  bool
	stopping chan struct{} // closed when no more tasks are fetched

	fetchesToken atomic.Bool // by [worker.fetchTokens]
	lacksToken   bool        // of fetchToken: the last attempt failed
	tokenRefused time.Time   // of fetchToken: when the endpoint last refused the request; zero: never
	examined     atomic.Bool // by [worker.examine]
}

// settingsFile is the file of tenants, whose changes take effect while the worker runs.
type settingsFile struct {
	path    string
	read    func() (all []tenant.Settings, digest string, err error) // as at the start
	content string                                                   // digest of the file that is in force
	hangups <-chan os.Signal
	every   time.Duration
	refused atomic.Bool // the present content
}

// Intervals of commands to Redis.
const (
	redisAgain    = 2 * time.Second
	announceEvery = time.Minute
	// noticeEvery is how often deliveries that were deleted are looked for.
	noticeEvery = time.Minute
	schemaEvery = time.Minute
	// obstaclesEvery is how often the activity follows obstacles, which are recorded once they have
	// lasted a minute.
	obstaclesEvery = time.Minute
)
