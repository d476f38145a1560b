package dispatch_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// settled counts how often each row was settled.
type settled struct {
	mu   sync.Mutex
	rows map[ledger.Row]int
}

// counted is a ledger whose settles are counted.
type counted struct {
	engine.Ledger
	*settled
}

func (c counted) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	receipt, err := c.Ledger.End(ctx, seg, n, ends...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, status := range receipt.Statuses {
		if _, settles := ends[i].Ending.(ledger.Result); settles && status == ledger.RowWritten {
			c.rows[ends[i].Row]++
		}
	}
	return receipt, err
}

// twice delivers one task in ten a second time, at the same time.
func twice(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var other sync.WaitGroup
		if rand.IntN(10) == 0 {
			other.Go(func() { _ = next.ProcessTask(ctx, t) })
		}
		err := next.ProcessTask(ctx, t)
		other.Wait()
		return err
	})
}

// TestFleet has three workers execute some hundred rows, of which one leaves and another comes,
// while tasks are delivered twice, answers of the tenant are lost, and the run is paused
// and resumed. Each row is settled once and each domain patched once; the run is
// finished.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	rows := redistest.Amount(250, 2000)
	s.submit("big", handlers.Update, s.domains(rows))
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Skip: 100, Count: 20, DropAfter: true})
	times := &settled{rows: map[ledger.Row]int{}}
	change := func(o *options) {
		o.engine.Ledger, o.around = counted{o.engine.Ledger, times}, twice
	}
	leaves := s.start(change)
	for range 2 {
		s.start(change)
	}
	s.await("the run begins", func() bool { return len(s.patches()) > rows/10 })
	leaves.stop()
	for _, control := range []func(context.Context, ledger.Tenant, ledger.RunID) error{s.Pause, s.Resume} {
		if err := control(t.Context(), tenant, "big"); err != nil {
			t.Error(err)
		}
	}
	s.start(change)
	run := s.awaitEnd("big")
	if run.Counts[ledger.Done] != int64(rows) {
		t.Errorf("counts %v, want %d done", run.Counts, rows)
	}
	s.await("the run is finished", func() bool { return !s.run("big").FinishedAt.IsZero() })
	times.mu.Lock()
	defer times.mu.Unlock()
	patches := s.patches()
	if len(patches) != rows || len(times.rows) != rows {
		t.Errorf("%d domains were patched and %d rows settled", len(patches), len(times.rows))
	}
	for path, n := range patches {
		if n != 1 {
			t.Errorf("%s was patched %d times", path, n)
		}
	}
	for row, n := range times.rows {
		if n != 1 {
			t.Errorf("row %d was settled %d times", row, n)
		}
	}
}

// TestSmallRunPassesBigOne submits ten rows behind a big run: they settle while most of
// the big run is open.
func TestSmallRunPassesBigOne(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		rows := redistest.Amount(600, 1500)
		s.submit("big", handlers.Update, s.domains(rows))
		w := s.start(func(o *options) { o.dispatch.Rate = func() float64 { return 200 } })
		s.await("the big run begins", func() bool { return len(s.patches()) > 50 })
		s.submit("small", handlers.Update, s.domains(10))
		begun := time.Now()
		s.awaitEnd("small")
		took, open := time.Since(begun), int64(rows)-s.run("big").Counts.Settled()
		if took > 3*time.Second || open < 300 {
			t.Errorf("the small run took %v, and %d rows of the big one are open", took, open)
		}
		w.stop()
	})
}

// TestRunsShareThePace executes two big runs at the tenant's pace: both advance alike.
func TestRunsShareThePace(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		rows := redistest.Amount(150, 600)
		s.submit("a", handlers.Update, s.domains(rows))
		s.submit("b", handlers.Update, s.domains(rows))
		w := s.start(func(o *options) { o.dispatch.Rate = func() float64 { return 100 } })
		s.await("a third is done", func() bool { return len(s.patches()) > 2*rows/3 })
		w.stop()
		a, b := s.run("a").Counts.Settled(), s.run("b").Counts.Settled()
		if least := int64(rows) / 4; a < least || b < least {
			t.Errorf("%d and %d rows are settled", a, b)
		}
	})
}

// TestPauseResumeCancel pauses a run, resumes it and cancels it.
func TestPauseResumeCancel(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.submit("a", handlers.Update, s.domains(600))
		w := s.start(func(o *options) { o.dispatch.Rate = func() float64 { return 150 } })
		defer w.stop()
		s.await("the run begins", func() bool { return len(s.patches()) > 20 })
		if err := s.Pause(t.Context(), tenant, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		paused := len(s.patches())
		time.Sleep(1500 * time.Millisecond)
		if n := len(s.patches()); n != paused {
			t.Errorf("%d requests were made while the run was paused", n-paused)
		}
		if err := s.Resume(t.Context(), tenant, "a"); err != nil {
			t.Fatal(err)
		}
		s.await("the run goes on", func() bool { return len(s.patches()) > paused+20 })
		if err := s.Cancel(t.Context(), tenant, "a"); err != nil {
			t.Fatal(err)
		}
		run := s.awaitEnd("a")
		if n := int64(len(s.patches())); run.Counts[ledger.Done] != n || run.Counts[ledger.Cancelled] != 600-n {
			t.Errorf("counts %v after %d requests", run.Counts, n)
		}
	})
}

// TestStop stops a worker whose rows are in progress: another one executes them at once,
// and no attempt is counted.
func TestStop(t *testing.T) {
	s := newSite(t)
	const slow = ledger.Kind("slow")
	entered, stopping := make(chan int, 10), make(chan struct{})
	var first, second *worker
	handler := engine.One(func(_ context.Context, _ *engine.Execution, row *engine.Row) (ledger.Result, error) {
		entered <- row.Attempts
		<-stopping
		return ledger.Result{}, engine.ErrStopping
	})
	quick := engine.One(func(_ context.Context, _ *engine.Execution, row *engine.Row) (ledger.Result, error) {
		entered <- row.Attempts
		return ledger.Result{Outcome: ledger.Done}, nil
	})
	with := func(h engine.Handler) func(*options) {
		return func(o *options) {
			o.engine.Handlers[slow] = h
			o.dispatch.Kinds[slow] = o.dispatch.Kinds[handlers.Update]
		}
	}
	s.submit("a", slow, [][]byte{[]byte(`{}`), []byte(`{}`)})
	first = s.start(with(handler))
	for range 2 {
		<-entered
	}
	close(stopping)
	first.stop()
	second = s.start(with(quick))
	run := s.awaitEnd("a")
	second.stop()
	for range 2 {
		if n := <-entered; n != 0 {
			t.Errorf("%d attempts were counted", n)
		}
	}
	if run.Counts[ledger.Done] != 2 {
		t.Errorf("counts %v", run.Counts)
	}
}
