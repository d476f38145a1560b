package dispatch_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks/handlers"
)

// mortal ends its dispatcher, as kill -9 does, before or after the call of that number.
type mortal struct {
	dispatch.Ledger
	call  int // from 0
	after bool
	n     int
	died  bool
}

func (m *mortal) step(call func()) {
	n := m.n
	m.n++
	if n == m.call && !m.after {
		m.died = true
		runtime.Goexit()
	}
	call()
	if n == m.call && m.after {
		m.died = true
		runtime.Goexit()
	}
}

func (m *mortal) TakeDue(ctx context.Context, t ledger.Tenant, n int) (due ledger.DueSegments, err error) {
	m.step(func() { due, err = m.Ledger.TakeDue(ctx, t, n) })
	return due, err
}

func (m *mortal) Recall(ctx context.Context, t ledger.Tenant) (err error) {
	m.step(func() { err = m.Ledger.Recall(ctx, t) })
	return err
}

func (m *mortal) Release(ctx context.Context, seg ledger.Segment, q ledger.Quota) (r ledger.Release, err error) {
	m.step(func() { r, err = m.Ledger.Release(ctx, seg, q) })
	return r, err
}

// TestKill kills a dispatcher before and after each call of its rounds, or each third. Another
// one takes over and releases every row, also those that were released and not enqueued.
func TestKill(t *testing.T) {
	t.Parallel()
	every := redistest.Stride(3)
	for _, after := range []bool{false, true} {
		first := 0
		if after {
			first = 1 % every
		}
		for call := first; ; call += every {
			m := &mortal{call: call, after: after}
			t.Run(fmt.Sprintf("call %d after %t", call, after), func(t *testing.T) {
				onSite(t, func(t *testing.T, s *site) {
					clock := redistest.Mini(t)
					m.Ledger = s.Ledger
					s.submit("a", handlers.Update, s.domains(20))
					first := s.dispatcher(func(c *dispatch.Config) { c.Ledger = m })
					var life sync.WaitGroup
					life.Go(func() {
						for range 4 {
							round(t, first)
							s.execute()
						}
					})
					life.Wait()
					clock.SetTime(time.Now().Add(ledger.ReleaseTimeout + time.Second))
					second := s.dispatcher()
					for range 20 {
						round(t, second)
						s.execute()
						if s.run("a").Ended() {
							break
						}
						time.Sleep(200 * time.Millisecond)
					}
					if r := s.run("a"); r.Counts[ledger.Done] != 20 || len(s.patches()) != 20 {
						t.Errorf("counts %v, %d domains patched", r.Counts, len(s.patches()))
					}
				})
			})
			if !m.died {
				break
			}
		}
	}
}

// execute executes all tasks of the queue, in the test's goroutine.
func (s *site) execute() {
	s.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	tasks, err := inspector.ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil {
		return // the queue was never used
	}
	e := engine.New(s.engineConfig(s.Ledger, ledger.NewSessionID()))
	for _, t := range tasks {
		if err := e.ProcessTask(s.t.Context(), asynq.NewTask(t.Type, t.Payload)); err != nil {
			s.t.Error(err)
		}
		if err := inspector.DeleteTask(queue, t.ID); err != nil {
			s.t.Error(err)
		}
	}
}
