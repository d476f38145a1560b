package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
)

// TestBoundClients makes each request of the API in a run that was cancelled more than a second
// ago. A fenced client does not send it, whichever it is, and an unfenced one does.
func TestBoundClients(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			api, client := matrixTenant(t, "", "", 0)
			sent := func() (n int) {
				for _, r := range api.Requests() {
					if r.Operation == op.name {
						n++
					}
				}
				return n
			}
			s := enginetest.New(t)
			s.Submit(kind, `{}`)
			executed := false
			e, _ := s.Worker(handler(func(ctx context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
				executed = true
				if err := cancelRun(ctx, s, nil); err != nil {
					t.Error(err)
				}
				s.Pass(1100 * time.Millisecond)
				if err := op.do(ctx, client.For(x.Fenced())); !errors.Is(err, engine.ErrStopped) || sent() != 0 {
					t.Errorf("fenced: %d requests, %v; want none, and %v", sent(), err, engine.ErrStopped)
				}
				s.StopClock()
				if err := op.do(ctx, client.For(x.Unfenced())); err != nil || sent() != 1 {
					t.Errorf("unfenced: %d requests, %v; want 1", sent(), err)
				}
				return engine.Fail(engine.ErrStopped)
			}))
			_ = e.ProcessTask(t.Context(), s.NextTask())
			if !executed {
				t.Error("not executed")
			}
		})
	}
}

// TestRequested has time pass between the requests of an execution, which has the time of the
// last one.
func TestRequested(t *testing.T) {
	_, client := matrixTenant(t, "", "", 0)
	s := enginetest.New(t)
	s.Submit(kind, `{}`)
	counted := 0
	count := func(c *engine.Config) {
		c.Requested = func(run ledger.RunID) {
			if run == s.Run.ID {
				counted++
			}
		}
	}
	e, _ := s.Worker(count, handler(func(ctx context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
		if at := x.Requested(); !at.IsZero() {
			t.Errorf("no request yet: %v", at)
		}
		s.StopClock()
		read := func(name string) {
			t.Helper()
			binding := x.Fenced()
			if name == "unfenced" {
				binding = x.Unfenced()
			}
			s.Pass(time.Minute)
			if _, err := client.For(binding).DiscoveryDomain(ctx, org, dom); err != nil {
				t.Error(err)
			}
			if at := x.Requested(); !at.Equal(x.Now()) {
				t.Errorf("%s: %v, want %v", name, at, x.Now())
			}
		}
		read("fenced")
		read("unfenced")
		s.Pass(time.Minute)
		if at := x.Requested(); !at.Equal(x.Now().Add(-time.Minute)) {
			t.Errorf("a minute later: %v, want the time of the request", at)
		}
		if counted != 2 {
			t.Errorf("%d requests of the run were counted, want 2", counted)
		}
		return engine.Fail(engine.ErrStopped)
	}))
	_ = e.ProcessTask(t.Context(), s.NextTask())
}
