package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks/handlers"
)

// TestActive has a dispatcher be the active one, lose its lease to one of a newer worker
// and to a Redis that is away, and give it up.
func TestActive(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		want := func(d *dispatch.Dispatcher, want bool) {
			t.Helper()
			if d.Active() != want {
				t.Errorf("active is %t", !want)
			}
		}
		d, newer := s.dispatcher(), s.dispatcher(func(c *dispatch.Config) { c.Protocol = 2 })
		want(d, false)
		stop := s.dispatch(d)
		s.await("the dispatcher is active", d.Active)
		stopNewer := s.dispatch(newer)
		s.await("the newer one is active", newer.Active)
		s.await("the first one is not", func() bool { return !d.Active() })
		stop()
		want(d, false)
		stopNewer()
		want(newer, false) // at once, without waiting for the lease to end
	})
}

// TestActiveWhileRedisIsAway: a dispatcher that cannot renew its lease is not the active
// one once the lease has ended.
func TestActiveWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		mini := redistest.Mini(t)
		d := s.dispatcher()
		if _, err := d.Round(t.Context()); err != nil || !d.Active() {
			t.Fatalf("active %t, %v", d.Active(), err)
		}
		mini.SetError("LOADING Redis is loading the dataset in memory")
		begun := time.Now()
		s.await("the lease has ended", func() bool { return !d.Active() })
		if took := time.Since(begun); took < 2*time.Second {
			t.Errorf("the lease ended after %v", took)
		}
		mini.SetError("")
	})
}

// TestRanks has the second worker of a tenant dispatch while the first is away, and yield to
// it later. The third tries seldom.
func TestRanks(t *testing.T) {
	s := newSite(t)
	// round has a dispatcher, whose last round was so long ago, make a round.
	round := func(d *dispatch.Dispatcher, ago time.Duration, active bool) {
		t.Helper()
		dispatch.Earlier(d, ago)
		if _, err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.Active() != active {
			t.Errorf("active is %t", !active)
		}
	}
	first, second, third := s.ranked(0), s.ranked(1), s.ranked(2)
	round(second, 0, true)
	round(third, 0, false)
	round(first, 0, false)
	round(second, 20*time.Second, true)
	round(first, time.Second, false)
	round(second, 20*time.Second, false) // it yields
	round(third, 5*time.Second, false)
	round(second, 2*time.Second, false)
	round(first, time.Second, true)
	round(first, time.Minute, true) // it does not yield
	round(third, 10*time.Second, false)
	round(second, 10*time.Second, false)
}

// tardy is a ledger that takes a while to delete old runs, or to read the index.
type tardy struct {
	dispatch.Ledger
	deleteOld, take time.Duration
}

func (l tardy) DeleteOld(ctx context.Context, t ledger.Tenant) (int, error) {
	if err := engine.Sleep(ctx, l.deleteOld); err != nil {
		return 0, err
	}
	return l.Ledger.DeleteOld(ctx, t)
}

func (l tardy) TakeDue(ctx context.Context, t ledger.Tenant, n int) (ledger.DueSegments, error) {
	if err := engine.Sleep(ctx, l.take); err != nil {
		return ledger.DueSegments{}, err
	}
	return l.Ledger.TakeDue(ctx, t, n)
}

// TestDeleteOldTakesLong has a deletion of old runs that takes ten minutes, as with very many: rows
// are released meanwhile, and one that has begun ends when the dispatcher does.
func TestDeleteOldTakesLong(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		w := s.start(func(o *options) { o.dispatch.Ledger = tardy{Ledger: o.dispatch.Ledger, deleteOld: 10 * time.Minute} })
		s.submit("a", handlers.Update, s.domains(3*places))
		begun := time.Now()
		if r := s.awaitEnd("a"); r.Counts[ledger.Done] != 3*places {
			t.Errorf("counts %v", r.Counts)
		}
		w.stop()
		if took := time.Since(begun); took > 2*time.Minute {
			t.Errorf("the rows were executed, and the worker stopped, after %v", took)
		}
	})
}

// TestLeaseDuringARound has rounds that take longer than the lease lasts: it is renewed, so that
// no other dispatcher interrupts the work. A round that hangs loses it.
func TestLeaseDuringARound(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		d := s.dispatcher(func(c *dispatch.Config) { c.Ledger = tardy{Ledger: c.Ledger, take: 10 * time.Minute} })
		ctx, cancel := context.WithCancel(t.Context())
		var rounds sync.WaitGroup
		rounds.Go(func() { _, _ = d.Round(ctx) })
		other := dispatch.NewLease(s.rdb, tenant, ledger.NewSessionID(), 1)
		taken := func() bool {
			held, _, err := other.Take(t.Context(), 3*time.Second, time.Minute)
			if err != nil {
				t.Error(err)
			}
			return held
		}
		s.await("the dispatcher is active", d.Active)
		for begun := time.Now(); time.Since(begun) < 50*time.Second; time.Sleep(500 * time.Millisecond) {
			if taken() || !d.Active() {
				t.Fatalf("the lease was lost after %v", time.Since(begun))
			}
		}
		s.await("the lease has ended", taken)
		cancel()
		rounds.Wait()
	})
}
