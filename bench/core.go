package main

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/internal/queues"
)

// core executes submitted rows, wired as cmd/worker does it for a tenant.
type core struct {
	ledger     *ledger.Ledger
	session    ledger.Session
	engine     *engine.Engine
	server     *asynq.Server
	dispatcher *dispatch.Dispatcher
	logger     *slog.Logger

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newCore returns a core that is not started. executions is the ledger that the engine
// uses; nil: the one of the store.
func newCore(rdb redis.UniversalClient, c calls, limiter *pace.Limiter, limit pace.Limit, executions engine.Ledger, metrics *metrics.Metrics, stopping <-chan struct{}, logger *slog.Logger) *core {
	const tenant = ledger.Tenant(tenantName)
	l := ledger.New(rdb)
	if executions == nil {
		executions = l
	}
	session := ledger.Session{ID: ledger.NewSessionID(), Version: "bench", Protocol: engine.Protocol, Tenants: []ledger.Tenant{tenant}}
	places := dnsConcurrency + apiConcurrency
	return &core{
		ledger: l, session: session, logger: logger,
		engine: engine.New(engine.Config{
			Tenant: tenant, Ledger: executions, Session: session.ID, Stopping: stopping, Block: limiter.Block, Logger: logger,
			Handlers: map[ledger.Kind]engine.Handler{
				kinds.Verify: kinds.NewVerify(kinds.VerifyConfig{
					API: c.api, DNS: c.dns, Line: limiter, RequestTimeout: c.api.Timeout(), Places: kinds.NewPlaces(dnsConcurrency, dnsConcurrency/2), Logger: logger,
				}),
				kinds.Update: kinds.NewUpdate(kinds.UpdateConfig{API: c.api, RequestTimeout: c.api.Timeout()}),
			},
			Observe: func(_ context.Context, kind ledger.Kind, outcome ledger.Outcome, _ int, took time.Duration) {
				metrics.Task(tenantName, string(kind), string(outcome), took)
			},
		}),
		server: queues.NewServer(rdb, queues.Queue{Name: engine.Queue(tenant), Tenant: tenantName, Config: engine.ServerConfig(places)}, shutdownTimeout, logger),
		dispatcher: dispatch.New(dispatch.Config{
			Tenant: tenant, Ledger: l, Redis: rdb, Queue: engine.Queue(tenant), Session: session.ID, Protocol: engine.Protocol, Places: places,
			Kinds: map[ledger.Kind]dispatch.Kind{
				kinds.Verify: {
					Operations: dispatch.Operations{First: []string{apiclient.OpGetDiscoveryDomain}, Ready: []string{apiclient.OpGetDiscoveryDomain, apiclient.OpUpdateDiscoveryDomain}},
					Cost:       dispatch.Cost{First: 2, Ready: 2},
				},
				kinds.Update: {Operations: dispatch.Always(apiclient.OpUpdateDiscoveryDomain), Cost: dispatch.Cost{First: 1, Check: 1, Ready: 1}},
			},
			Pace: limiter.State, Rate: perSecond(limit), Logger: logger,
		}),
	}
}

// perSecond returns the rate by which rows are released.
func perSecond(limit pace.Limit) func() float64 {
	rate, _ := limit.Effective()
	if rate.IsUnlimited() {
		return func() float64 { return math.Inf(1) }
	}
	return rate.PerSecond
}

// start begins to release and execute rows.
func (c *core) start() error {
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	registered, ended := engine.KeepSession(ctx, c.ledger, func() ledger.Session { return c.session }, c.logger)
	<-registered
	if err := c.server.Start(c.engine); err != nil {
		return err
	}
	c.running.Go(func() { <-ended })
	c.running.Go(func() { c.dispatcher.Run(ctx) })
	c.running.Go(func() { c.ledger.Wakes(ctx, func(ledger.Tenant) { c.dispatcher.Wake() }) })
	return nil
}

// stop ends a core that was started.
func (c *core) stop() {
	c.cancel()
	c.running.Wait()
	c.server.Shutdown()
}

// watchedRows is the ledger of an engine, and takes the time at which the first row
// begins and the last one settles.
type watchedRows struct {
	engine.Ledger

	began sync.Once
	mu    sync.Mutex
	start time.Time
	open  int64 // rows
	end   time.Time
	ended chan struct{}
}

// Begin is an execution's first call.
func (l *watchedRows) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution, rows ...ledger.Row) (ledger.Begun, error) {
	l.began.Do(func() { l.start = time.Now() })
	return l.Ledger.Begin(ctx, seg, e, rows...)
}

// End counts the rows that are left.
func (l *watchedRows) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce, ends ...ledger.RowEnd) (ledger.Receipt, error) {
	receipt, err := l.Ledger.End(ctx, seg, n, ends...)
	if err != nil {
		return receipt, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, status := range receipt.Statuses {
		if _, settled := ends[i].Ending.(ledger.Result); !settled || status != ledger.RowWritten {
			continue
		}
		if l.open--; l.open == 0 {
			l.end = time.Now()
			close(l.ended)
		}
	}
	return receipt, err
}
