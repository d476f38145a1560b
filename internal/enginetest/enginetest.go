// Package enginetest delivers rows of a tenant's ledger to workers, for tests of the engine and
// of the handlers of kinds.
package enginetest

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// Tenant is the tenant of a site.
const Tenant = ledger.Tenant("acme")

// Patience is how long a test waits for something that hangs if it takes longer.
const Patience = 2 * time.Minute

// Site is a tenant with its ledger. The test delivers the rows.
type Site struct {
	*ledger.Ledger
	Redis redistest.Client
	Run   ledger.Run // the last one that was submitted

	t     *testing.T
	idle  time.Duration // from the last release until a row is due
	clock *clock        // of all workers
}

// New returns a site without rows.
func New(t *testing.T) *Site {
	t.Helper()
	rdb := redistest.New(t)
	return &Site{Ledger: ledger.New(rdb), Redis: rdb, t: t, clock: &clock{read: time.Now}}
}

// Of returns the site of another run.
func (s *Site) Of(run ledger.Run) *Site {
	one := *s
	one.Run = run
	return &one
}

// Submit submits rows of a kind as run "a".
func (s *Site) Submit(kind ledger.Kind, rows ...string) {
	s.t.Helper()
	s.SubmitAs("a", kind, rows...)
}

// SubmitAs submits rows of a kind as a run, which is the site's from then on.
func (s *Site) SubmitAs(id ledger.RunID, kind ledger.Kind, rows ...string) {
	s.t.Helper()
	run, _, err := s.Create(s.t.Context(), ledger.NewRun{ID: id, Tenant: Tenant, Kind: kind})
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
		s.Run, err = stager.Commit(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Segment returns the segment of the run's first rows.
func (s *Site) Segment() ledger.Segment {
	return ledger.Segment{Tenant: Tenant, Run: s.Run.ID, Incarnation: s.Run.Incarnation}
}

// NextTask releases the due rows and returns their task; nil if none is due.
func (s *Site) NextTask() *asynq.Task {
	s.t.Helper()
	r, err := s.Release(s.t.Context(), s.Segment(), ledger.Quota{First: 100, Check: 100, Ready: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	s.idle = r.Due.Sub(r.Now)
	if len(r.Rows) == 0 {
		return nil
	}
	return s.Message(engine.NewTask(s.Run, s.Segment(), r.Token, r.Rows...))
}

// Rest waits after a release of no rows until one is due, or for some time: each release is a
// script.
func (s *Site) Rest() {
	if s.idle <= 0 {
		s.idle = 25 * time.Millisecond
	}
	time.Sleep(min(s.idle, 500*time.Millisecond))
}

// Message returns the message of a task.
func (s *Site) Message(t engine.Task) *asynq.Task {
	s.t.Helper()
	payload, err := t.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	return asynq.NewTask(string(t.Kind), payload)
}

// Worker returns an engine with a session of its own.
func (s *Site) Worker(change ...func(*engine.Config)) (*engine.Engine, ledger.SessionID) {
	session := ledger.NewSessionID()
	c := engine.Config{
		Tenant: Tenant, Ledger: s.Ledger, Session: session, Logger: slog.New(slog.DiscardHandler),
		Handlers: map[ledger.Kind]engine.Handler{}, Now: s.clock.now,
	}
	for _, f := range change {
		f(&c)
	}
	return engine.New(c), session
}

// Drain executes rows until none is open.
func (s *Site) Drain(e *engine.Engine) {
	s.t.Helper()
	for end := time.Now().Add(Patience); ; {
		if time.Now().After(end) {
			s.t.Fatalf("rows stay open: %+v", s.Row(0))
		}
		if task := s.NextTask(); task != nil {
			_ = e.ProcessTask(s.t.Context(), task)
			continue
		}
		run, err := s.Get(s.t.Context(), "", s.Run.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		if run.Ended() {
			return
		}
		s.Rest()
	}
}

// Row returns the state of a row.
func (s *Site) Row(n ledger.Row) ledger.RowState {
	s.t.Helper()
	return s.rowsFrom(n, 1)[0]
}

// AllRows returns the states of all rows.
func (s *Site) AllRows() []ledger.RowState {
	s.t.Helper()
	return s.rowsFrom(0, int(s.Run.Rows))
}

func (s *Site) rowsFrom(n ledger.Row, most int) []ledger.RowState {
	s.t.Helper()
	rows, err := s.Rows(s.t.Context(), s.Segment(), n, most)
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

// clock is the clock of executions: the real time, unless a test changes it.
type clock struct {
	mu   sync.Mutex
	read func() time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) change(next func(now func() time.Time) func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = next(c.read)
}

// StopClock stops the clock of executions. On a busy machine they would ask the ledger again, which
// a test that counts calls does not expect.
func (s *Site) StopClock() {
	s.clock.change(func(now func() time.Time) func() time.Time {
		stopped := now()
		return func() time.Time { return stopped }
	})
}

// Pass has time pass for executions.
func (s *Site) Pass(d time.Duration) {
	s.clock.change(func(now func() time.Time) func() time.Time {
		return func() time.Time { return now().Add(d) }
	})
}

// End ends an execution with the error; nil: the row is done.
func End(err error) *engine.Consequence {
	if err != nil {
		return engine.Fail(err)
	}
	return engine.Settle(ledger.Result{})
}
