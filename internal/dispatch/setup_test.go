package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

func TestMain(m *testing.M) {
	redistest.Parallel(16)
	goleak.VerifyTestMain(m)
}

const (
	tenant = ledger.Tenant("acme")
	queue  = "acme.rows"
	org    = "org_1"
	places = 16
	// patience is how long a test waits for what takes seconds, on a
	// machine that has much else to do.
	patience = 4 * time.Minute
)

// site is a tenant with its ledger.
type site struct {
	*ledger.Ledger
	t       *testing.T
	rdb     redis.UniversalClient
	sandbox *sandbox.Sandbox
	api     func(apiclient.Binding) handlers.Domains
	log     *logtest.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOn(t, redistest.Open(t))
}

func newSiteOn(t *testing.T, rdb redis.UniversalClient) *site {
	t.Helper()
	sb, client := newAPI(t)
	return siteOf(t, rdb, sb, func(b apiclient.Binding) handlers.Domains { return client.For(b) })
}

// onSite runs a test of a site in a bubble, if the Redis is an embedded one.
func onSite(outer *testing.T, test func(t *testing.T, s *site)) {
	outer.Helper()
	redistest.InBubble(outer, func(t *testing.T, out *redistest.Outside) {
		var sb *sandbox.Sandbox
		var client *apiclient.Client
		out.Do(func() { sb, client = newAPI(outer) })
		test(t, siteOf(t, redistest.Open(t), sb, brief(client)))
	})
}

func newAPI(t *testing.T) (*sandbox.Sandbox, *apiclient.Client) {
	t.Helper()
	sb, err := sandbox.Start(sandbox.Options{Seed: 1, Resolvers: 1}) // no test needs its DNS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	client, err := apiclient.New(apiclient.Config{
		BaseURL: sb.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(sb.Token())),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return sb, client
}

// briefAPI keeps no connection between requests: the time of a bubble stops while a goroutine
// waits for a socket.
type briefAPI struct{ *apiclient.Client }

// DiscoveryDomain implements [handlers.Domains].
func (a briefAPI) DiscoveryDomain(ctx context.Context, organization, domain string) (schema.DiscoveryDomain, error) {
	defer a.CloseIdle()
	return a.Client.DiscoveryDomain(ctx, organization, domain)
}

// UpdateDiscoveryDomain implements [handlers.Domains].
func (a briefAPI) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	defer a.CloseIdle()
	return a.Client.UpdateDiscoveryDomain(ctx, organization, domain, u, intent)
}

// brief returns the API as clients that are bound to executions reach it.
func brief(c *apiclient.Client) func(apiclient.Binding) handlers.Domains {
	return func(b apiclient.Binding) handlers.Domains { return briefAPI{c.For(b)} }
}

func siteOf(t *testing.T, rdb redis.UniversalClient, sb *sandbox.Sandbox,
	api func(apiclient.Binding) handlers.Domains) *site {
	t.Helper()
	sb.AddOrganization(org, "one")
	s := &site{Ledger: ledger.New(rdb), t: t, rdb: rdb, sandbox: sb, api: api, log: &logtest.Buffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tail(s.log, 6000))
		}
	})
	return s
}

// tail returns the end of a log.
func tail(log *logtest.Buffer, n int) string {
	text := log.String()
	return text[max(0, len(text)-n):]
}

func (s *site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// domains adds n domains whose flag is set, and returns rows that clear it.
func (s *site) domains(n int) [][]byte {
	s.t.Helper()
	rows := make([][]byte, n)
	for i := range rows {
		d := s.sandbox.AddDomain(org, sandbox.Domain{Use: new(true)})
		row, err := json.Marshal(tasks.UpdateRow{OrganizationID: org, DiscoveryDomainID: d.ID,
			UseForOrganizationDiscovery: new(false)})
		if err != nil {
			s.t.Fatal(err)
		}
		rows[i] = row
	}
	return rows
}

// submit creates and commits a run, as a producer does.
func (s *site) submit(id ledger.RunID, kind ledger.Kind, rows [][]byte, change ...func(*ledger.NewRun)) ledger.Run {
	s.t.Helper()
	ctx := s.t.Context()
	n := ledger.NewRun{ID: id, Tenant: tenant, Kind: kind}
	for _, f := range change {
		f(&n)
	}
	run, _, err := s.Create(ctx, n)
	if err != nil {
		s.t.Fatal(err)
	}
	stager, err := s.NewStager(ctx, run)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range rows {
		if err := stager.Add(ctx, row); err != nil {
			s.t.Fatal(err)
		}
	}
	if run, err = stager.Commit(ctx); err != nil {
		s.t.Fatal(err)
	}
	return run
}

// worker is a worker process: a session, an asynq server with an engine, a dispatcher.
type worker struct {
	*site
	engine   *engine.Engine
	server   *asynq.Server
	session  ledger.Session
	stopping chan struct{}
	end      context.CancelFunc
	done     sync.WaitGroup
	stopped  sync.Once
}

// options change a worker before it starts.
type options struct {
	engine   engine.Config
	dispatch dispatch.Config
	places   int // of the server
}

func (s *site) engineConfig(l engine.Ledger, session ledger.SessionID) engine.Config {
	return engine.Config{
		Tenant: tenant, Ledger: l, Session: session, Logger: s.logger(),
		Handlers: map[ledger.Kind]engine.Handler{
			handlers.Update: handlers.NewUpdate(handlers.UpdateConfig{API: s.api, RequestTimeout: 50 * time.Millisecond,
				States:  &sweep.States{Tenant: string(tenant), Store: sweep.NewStore(s.rdb, string(tenant))},
				Settled: 200 * time.Millisecond}),
		},
	}
}

// start starts a worker.
func (s *site) start(change ...func(*options)) *worker {
	s.t.Helper()
	w := &worker{site: s, stopping: make(chan struct{})}
	w.session = ledger.Session{ID: ledger.NewSessionID(), Version: "test", Protocol: engine.Protocol,
		Tenants: []ledger.Tenant{tenant}, Kinds: []ledger.Kind{handlers.Update}}
	rdb := redistest.ForServer(s.t)
	l := ledger.New(rdb)
	o := options{engine: s.engineConfig(l, w.session.ID), places: places, dispatch: dispatch.Config{
		Tenant: tenant, Ledger: l, Redis: rdb, Queue: queue, Session: w.session.ID, Protocol: engine.Protocol, Places: places,
		Kinds: map[ledger.Kind]release.Kind{
			handlers.Update: {Operations: release.Always(schema.OpUpdateDiscoveryDomain),
				Cost: release.Cost{First: 1, Check: 1, Ready: 1}},
		},
		Logger: s.logger(),
	}}
	o.engine.Stopping = w.stopping
	for _, f := range change {
		f(&o)
	}
	w.engine = engine.New(o.engine)
	w.server = asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: o.places, Queues: map[string]int{queue: 1}, TaskCheckInterval: 10 * time.Millisecond,
		ShutdownTimeout: time.Second, LogLevel: asynq.FatalLevel,
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	w.end = cancel
	registered, _ := engine.KeepSession(ctx, l, func() ledger.Session { return w.session }, s.logger())
	<-registered
	if err := w.server.Start(w.engine); err != nil {
		s.t.Fatal(err)
	}
	d := dispatch.New(o.dispatch)
	w.done.Go(func() { d.Run(ctx) })
	s.t.Cleanup(w.stop)
	return w
}

// done is the handler of rows that are done at once.
var done = engine.One(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
	return engine.Settle(ledger.Result{})
})

// stop stops a worker as SIGTERM does.
func (w *worker) stop() { w.stopped.Do(w.terminate) }

func (w *worker) terminate() {
	w.t.Helper()
	w.server.Stop()
	close(w.stopping)
	w.server.Shutdown()
	ctx := context.WithoutCancel(w.t.Context())
	if err := w.engine.GiveBack(ctx); err != nil {
		w.t.Error(err)
	}
	w.end()
	w.done.Wait()
	if err := w.EndSession(ctx, w.session.ID); err != nil {
		w.t.Error(err)
	}
}

// await waits until the condition holds.
func (s *site) await(what string, holds func() bool) {
	s.t.Helper()
	end := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) || s.t.Failed() {
			s.t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// run returns a run with its counts.
func (s *site) run(id ledger.RunID) ledger.Run {
	s.t.Helper()
	run, err := s.Get(s.t.Context(), "", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// awaitEnd waits for the end of a run and returns it.
func (s *site) awaitEnd(id ledger.RunID) ledger.Run {
	s.t.Helper()
	s.await(fmt.Sprintf("the end of %s", id), func() bool {
		r, err := s.Get(s.t.Context(), "", id)
		if err != nil {
			s.t.Fatal(err)
		}
		return r.Ended()
	})
	return s.run(id)
}

// patches returns the number of PATCHes by path.
func (s *site) patches() map[string]int {
	n := map[string]int{}
	for _, r := range s.sandbox.Requests() {
		if r.Method == "PATCH" {
			n[r.Path]++
		}
	}
	return n
}

// open counts the open rows of a run: those that are queued or released, or wait at stage ready.
func (s *site) open(id ledger.RunID) (o ledger.OpenRows) {
	s.t.Helper()
	for r, err := range s.Each(s.t.Context(), s.run(id), ledger.Unsettled, 0) {
		switch {
		case err != nil:
			s.t.Fatal(err)
		case r.Phase == ledger.PhaseQueued || r.Phase == ledger.PhaseWaiting && r.Checkpoint.FirstBegun.IsZero():
			o.Queued++
		case r.Phase == ledger.PhaseReleased:
			o.Released++
		case r.Phase == ledger.PhaseWaiting && r.Checkpoint.Stage == ledger.StageReady:
			o.Ready++
		}
	}
	return o
}
