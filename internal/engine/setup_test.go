package engine_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const (
	tenant = ledger.Tenant("acme")
	org    = "org_1"
)

// patience is how long a test waits for something that hangs if it takes longer.
const patience = 2 * time.Minute

// site is a tenant with its ledger. The test delivers the rows.
type site struct {
	*ledger.Ledger
	t       *testing.T
	rdb     redis.UniversalClient
	sandbox *sandbox.Sandbox
	api     *apiclient.Client
	run     ledger.Run
	idle    time.Duration // from the last release until a row is due
	points  int           // before and after the calls of executions, so far
	on      func(point string)
	clock   *engineClock // of all workers
}

// engineClock is the clock of executions: the real time, unless a test changes it.
type engineClock struct {
	mu   sync.Mutex
	read func() time.Time
}

func (c *engineClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *engineClock) change(next func(now func() time.Time) func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = next(c.read)
}

// stopClock stops the clock of executions. On a busy machine they would ask the ledger again, which
// a test that counts calls does not expect.
func (s *site) stopClock() {
	s.clock.change(func(now func() time.Time) func() time.Time {
		stopped := now()
		return func() time.Time { return stopped }
	})
}

// pass has time pass for executions.
func (s *site) pass(d time.Duration) {
	s.clock.change(func(now func() time.Time) func() time.Time {
		return func() time.Time { return now().Add(d) }
	})
}

func newSite(t *testing.T, change ...func(*sandbox.Options)) *site {
	t.Helper()
	s := newLedgerSite(t)
	options := sandbox.Options{Seed: 1}
	for _, f := range change {
		f(&options)
	}
	sb, err := sandbox.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	s.sandbox = sb
	s.api = s.client(nil)
	return s
}

// client returns a client of the tenant.
func (s *site) client(gate apiclient.Gate) *apiclient.Client {
	s.t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: s.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token())), Gate: gate,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.CloseIdle)
	return client
}

// gated returns a client whose requests get their permits after something has happened.
func (s *site) gated(meanwhile func()) *apiclient.Client {
	s.t.Helper()
	return s.client(slowGate{meanwhile})
}

type slowGate struct{ meanwhile func() }

func (g slowGate) Wait(context.Context, string) error {
	g.meanwhile()
	return nil
}

func (slowGate) Answered(context.Context, string, int, http.Header) {}

// newLedgerSite returns a site without a tenant, of which nothing needs sockets.
func newLedgerSite(t *testing.T) *site {
	t.Helper()
	rdb := redistest.New(t)
	return &site{
		Ledger: ledger.New(rdb), t: t, rdb: rdb, on: func(string) {}, clock: &engineClock{read: time.Now},
	}
}

// submit submits rows of a kind as one run.
func (s *site) submit(kind ledger.Kind, rows ...string) {
	s.t.Helper()
	s.submitAs("a", kind, rows...)
}

// submitAs submits rows of a kind as a run, which is the site's from then on.
func (s *site) submitAs(id ledger.RunID, kind ledger.Kind, rows ...string) {
	s.t.Helper()
	run, _, err := s.Create(s.t.Context(), ledger.NewRun{ID: id, Tenant: tenant, Kind: kind})
	if err != nil {
		s.t.Fatal(err)
	}
	stager, err := s.NewStager(s.t.Context(), run)
	for _, row := range rows {
		if err == nil {
			err = stager.Add(s.t.Context(), []byte(row))
		}
	}
	if err == nil {
		s.run, err = stager.Commit(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) segment() ledger.Segment {
	return ledger.Segment{Tenant: tenant, Run: s.run.ID, Incarnation: s.run.Incarnation}
}

// release releases the due rows and returns their task; nil if none is due.
func (s *site) release() *asynq.Task {
	s.t.Helper()
	r, err := s.Release(s.t.Context(), s.segment(), ledger.Quota{First: 100, Check: 100, Ready: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	s.idle = r.Due.Sub(r.Now)
	if len(r.Rows) == 0 {
		return nil
	}
	return s.task(engine.NewTask(s.run, s.segment(), r.Token, r.Rows...))
}

// rest waits after a release of no rows until one is due, or for some time: each release is a
// script.
func (s *site) rest() {
	if s.idle <= 0 {
		s.idle = 25 * time.Millisecond
	}
	time.Sleep(min(s.idle, 500*time.Millisecond))
}

func (s *site) task(t engine.Task) *asynq.Task {
	s.t.Helper()
	payload, err := t.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	return asynq.NewTask(string(t.Kind), payload)
}

// worker returns an engine with a session of its own.
func (s *site) worker(change ...func(*engine.Config)) (*engine.Engine, ledger.SessionID) {
	session := ledger.NewSessionID()
	c := engine.Config{
		Tenant: tenant, Ledger: s.Ledger, Session: session, Logger: slog.New(slog.DiscardHandler),
		Handlers: map[ledger.Kind]engine.Handler{}, Now: s.clock.now,
	}
	for _, f := range change {
		f(&c)
	}
	return engine.New(c), session
}

// handler has a worker use this handler for all kinds.
func handler(f func(context.Context, *engine.Execution, *engine.Row) (ledger.Result, error)) func(*engine.Config) {
	return func(c *engine.Config) { c.Handlers["test"] = engine.One(f) }
}

// drain executes rows until none is open.
func (s *site) drain(e *engine.Engine) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		if time.Now().After(end) {
			s.t.Fatalf("rows stay open: %+v", s.row(0))
		}
		if task := s.release(); task != nil {
			_ = e.ProcessTask(s.t.Context(), task)
			continue
		}
		run, err := s.Get(s.t.Context(), "", s.run.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		if run.Ended() {
			return
		}
		s.rest()
	}
}

// row returns the state of a row.
func (s *site) row(n ledger.Row) ledger.RowState {
	s.t.Helper()
	return s.rowsFrom(n, 1)[0]
}

// rows returns the states of all rows.
func (s *site) rows() []ledger.RowState {
	s.t.Helper()
	return s.rowsFrom(0, int(s.run.Rows))
}

func (s *site) rowsFrom(n ledger.Row, most int) []ledger.RowState {
	s.t.Helper()
	rows, err := s.Rows(s.t.Context(), s.segment(), n, most)
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

// requests returns the methods of the API's requests, in their order.
func (s *site) requests() (methods []string) {
	for _, r := range s.sandbox.Requests() {
		if r.Operation != sandbox.OpToken {
			methods = append(methods, r.Method)
		}
	}
	return methods
}
