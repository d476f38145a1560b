package dispatch_test

import (
	"testing"
	"time"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/workers"
	"orgops/tasks/handlers"
)

// awaitSleep waits until the active dispatcher sleeps.
const awaitSleep = 20 * time.Second

// wakes dispatches, and wakes the dispatcher as its process does.
func (s *site) wakes(d *dispatch.Dispatcher) (stop func()) {
	go redisconn.Subscribe(s.t.Context(), s.rdb, ledger.WakeChannel, func(string) { d.Wake() })
	return s.dispatch(d)
}

// ranked returns a dispatcher of the worker of a rank.
func (s *site) ranked(rank int) *dispatch.Dispatcher {
	return s.dispatcher(func(c *dispatch.Config) {
		c.Place = func() workers.Place { return workers.Place{Rank: rank, Workers: 2} }
	})
}

// TestIdleCosts counts the commands of the dispatchers of a tenant that has nothing due, those
// inside scripts too: at most one a second.
func TestIdleCosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		workers int
		prepare func(*site)
	}{
		"two workers, no rows": {2, func(*site) {}},
		"one worker, and a row that is due tomorrow": {1, func(s *site) {
			tomorrow := time.Now().Add(24 * time.Hour)
			s.submit("a", handlers.Update, s.domains(1), func(n *ledger.NewRun) { n.NotBefore = tomorrow })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSite(t, func(t *testing.T, s *site) {
				mini := redistest.Mini(t)
				tt.prepare(s)
				for rank := range tt.workers {
					d := s.ranked(rank)
					s.dispatch(d)
					s.await("it has tried to get the lease", func() bool { return rank > 0 || d.Active() })
				}
				time.Sleep(awaitSleep)
				before := mini.CommandCount()
				time.Sleep(10 * time.Minute)
				if n := mini.CommandCount() - before; n > 10*60 {
					t.Errorf("%d commands in ten minutes", n)
				}
			})
		})
	}
}

// TestSleepingDispatcher: one that sleeps releases rows as soon as they are committed or due, and
// stays the active one.
func TestSleepingDispatcher(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		redistest.Mini(t) // the times are exact
		d, other := s.ranked(0), s.ranked(1)
		s.wakes(d)
		s.await("the first one is active", d.Active)
		s.wakes(other)
		for _, id := range []ledger.RunID{"a", "b", "c"} {
			time.Sleep(awaitSleep)
			begun, due := time.Now(), time.Duration(0)
			if id == "c" {
				due = 7 * time.Second
			}
			s.submit(id, handlers.Update, s.domains(1), func(n *ledger.NewRun) { n.NotBefore = begun.Add(due) })
			s.await("the rows are released", func() bool { return s.pending() == 1 })
			if took := time.Since(begun) - due; took < 0 || took > time.Second {
				t.Errorf("%s is released %v after it was due", id, took)
			}
			if err := s.Cancel(t.Context(), tenant, id); err != nil {
				t.Fatal(err)
			}
			s.deletePending()
		}
		for begun := time.Now(); time.Since(begun) < awaitSleep; time.Sleep(100 * time.Millisecond) {
			if !d.Active() || other.Active() {
				t.Fatalf("active are %t and %t", d.Active(), other.Active())
			}
		}
	})
}

// TestSleepingDispatcherDies: when a run is submitted, or a row is due, the next worker takes over
// from a dispatcher that was killed while it slept, as soon as from one that had work.
func TestSleepingDispatcherDies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lease, due time.Duration
		polled     time.Duration // before the submission, by the next worker
	}{
		"submitted":                      {lease: 13 * time.Second, polled: 5 * time.Second},
		"submitted just after the death": {lease: 13 * time.Second},
		"due":                            {lease: 8 * time.Second, due: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSite(t, func(t *testing.T, s *site) {
				redistest.Mini(t) // the times are exact
				submit := func() {
					due := time.Now().Add(tt.due)
					s.submit("a", handlers.Update, s.domains(1), func(n *ledger.NewRun) { n.NotBefore = due })
				}
				if tt.due > 0 {
					submit()
				}
				killed := dispatch.NewLease(s.rdb, tenant, ledger.NewSessionID(), 1)
				if held, _, err := killed.Take(t.Context(), tt.lease, time.Minute); err != nil || !held {
					t.Fatalf("held %t, %v", held, err)
				}
				s.wakes(s.ranked(1))
				time.Sleep(tt.polled)
				begun := time.Now()
				if tt.due == 0 {
					submit()
				}
				s.await("the rows are released", func() bool { return s.pending() == 1 })
				if took := time.Since(begun) - tt.due; took > 7*time.Second {
					t.Errorf("released %v after it was due", took)
				}
			})
		})
	}
}

// TestSleepingDispatcherStops: the next worker need not wait for the end of its lease.
func TestSleepingDispatcherStops(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		redistest.Mini(t) // the times are exact
		first, second := s.ranked(0), s.ranked(1)
		stop := s.wakes(first)
		s.await("the first one is active", first.Active)
		s.wakes(second)
		time.Sleep(awaitSleep)
		begun := time.Now()
		stop()
		s.await("the second one is active", second.Active)
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("active after %v", took)
		}
	})
}

// TestSleepingDispatcherYields: the second worker sleeps, and leaves the tenant to the first one.
func TestSleepingDispatcherYields(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		first, second := s.ranked(0), s.ranked(1)
		s.wakes(second)
		s.await("the second one is active", second.Active)
		time.Sleep(awaitSleep)
		s.wakes(first)
		s.await("the first one is active", first.Active)
		if second.Active() {
			t.Error("the second one is active too")
		}
	})
}
