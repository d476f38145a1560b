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

// TestAllowed has something happen to a row while its handler executes it. More than a second later
// the handler may begin no request for a row that is stopped or that it has lost.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name   string
		during func(context.Context, *site, *engine.Engine) error
		want   error
	}{
		{"nothing", func(context.Context, *site, *engine.Engine) error { return nil }, nil},
		{"paused", func(ctx context.Context, s *site, _ *engine.Engine) error {
			return s.Pause(ctx, tenant, s.Run.ID)
		}, engine.ErrStopped},
		{"cancelled", cancelRun, engine.ErrStopped},
		{"given back", giveBackAll, engine.ErrSuperseded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enginetest.New(t)
			s.Submit(kind, `{}`)
			var e *engine.Engine
			executed := false
			e, _ = s.Worker(handler(func(ctx context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
				executed = true
				if err := x.Allowed(ctx); err != nil {
					t.Errorf("at first: %v", err)
				}
				if err := c.during(ctx, s, e); err != nil {
					t.Error(err)
				}
				s.Pass(1100 * time.Millisecond)
				if err := x.Allowed(ctx); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				return engine.Fail(engine.ErrSuperseded)
			}))
			_ = e.ProcessTask(t.Context(), s.NextTask())
			if !executed {
				t.Error("not executed")
			}
		})
	}
}

// TestIntend has a row of a run that was stopped, or that belongs to another execution: no intent
// of a request is stored, nor one that replaces another.
func TestIntend(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // an intent is stored before
		during func(context.Context, *site, *engine.Engine) error
		want   error
	}{
		{"nothing", false, func(context.Context, *site, *engine.Engine) error { return nil }, nil},
		{"cancelled", false, cancelRun, engine.ErrStopped},
		{"cancelled, with an intent", true, cancelRun, engine.ErrStopped},
		{"given back", false, giveBackAll, engine.ErrSuperseded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enginetest.New(t)
			s.Submit(kind, `{}`)
			var e *engine.Engine
			e, _ = s.Worker(handler(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
				if c.before {
					if err := x.Intend(ctx, row, []byte("former")); err != nil {
						t.Error(err)
					}
				}
				if err := c.during(ctx, s, e); err != nil {
					t.Error(err)
				}
				s.Pass(1100 * time.Millisecond)
				if err := x.Intend(ctx, row, []byte("next")); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if c.want == nil {
					return engine.Settle(ledger.Result{})
				}
				if in := s.Row(0).Intent; in != nil && string(in.Value) == "next" {
					t.Errorf("intent %s", in.Value)
				}
				return enginetest.End(c.want)
			}))
			_ = e.ProcessTask(t.Context(), s.NextTask())
		})
	}
}
