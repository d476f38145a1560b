package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

// ended submits runs and cancels them.
func (s *site) ended(n int) (ids []ledger.RunID) {
	s.t.Helper()
	for i := range n {
		id := ledger.RunID(fmt.Sprintf("ended%d", i))
		s.submit(id, handlers.Update, s.domains(1))
		if err := s.Cancel(s.t.Context(), tenant, id); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// unfinished returns the number of the runs that are not finished.
func (s *site) unfinished(ids []ledger.RunID) (n int) {
	s.t.Helper()
	for _, id := range ids {
		r, err := s.Get(s.t.Context(), "", id)
		if err != nil {
			s.t.Fatal(err)
		}
		if r.FinishedAt.IsZero() {
			n++
		}
	}
	return n
}

// calls counts calls of Config.Ended.
type calls struct {
	mu      sync.Mutex
	now     map[ledger.RunID]int // in progress
	most    int
	all     int
	doubled bool // two of one run at once
}

func (c *calls) begin(run ledger.RunID) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now = map[ledger.RunID]int{}
	}
	c.doubled = c.doubled || c.now[run] > 0
	c.now[run]++
	c.all++
	c.most = max(c.most, len(c.now))
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.now[run]--; c.now[run] == 0 {
			delete(c.now, run)
		}
	}
}

func (c *calls) get() (all, now, most int, doubled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, len(c.now), c.most, c.doubled
}

// run runs a dispatcher until the function that it returns is called.
func (s *site) dispatch(d *dispatch.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	s.t.Cleanup(stop)
	return stop
}

// TestFinish finishes a run that has ended, once what follows its end was done.
func TestFinish(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		ids := s.ended(1)
		var c calls
		follow := func(err error) func(*dispatch.Config) {
			return func(config *dispatch.Config) {
				config.Ended = func(_ context.Context, r ledger.Run) error {
					end := c.begin(r.ID)
					defer end()
					if r.ID != ids[0] || !r.Ended() {
						t.Errorf("ended: %+v", r)
					}
					return err
				}
			}
		}
		stop := s.dispatch(s.dispatcher(follow(errors.New("the receiver is away"))))
		s.await("the error is logged", func() bool { return strings.Contains(tail(s.log, 6000), "the receiver is away") })
		time.Sleep(300 * time.Millisecond)
		if all, _, _, _ := c.get(); all != 1 || s.unfinished(ids) != 1 {
			t.Errorf("followed %d times within a second, run %+v", all, s.run(ids[0]))
		}
		stop()
		again := redis.Z{Member: string(ids[0]) + "/" + string(s.run(ids[0]).Incarnation)} // not only in a minute
		if err := s.rdb.ZAdd(t.Context(), "orgops:v3:{tenant:"+string(tenant)+"}:finishing", again).Err(); err != nil {
			t.Fatal(err)
		}
		s.dispatch(s.dispatcher(follow(nil)))
		s.await("the run is finished", func() bool { return s.unfinished(ids) == 0 })
	})
}

// TestSlowEndsKeepTheDispatcherActive: while calls of Ended take longer than the lease, the
// dispatcher stays the active one and releases rows. No more than four run at a time, and one for
// each run.
func TestSlowEndsKeepTheDispatcherActive(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		ids := s.ended(7)
		var c calls
		over := make(chan struct{})
		d := s.dispatcher(func(config *dispatch.Config) {
			config.Ended = func(_ context.Context, r ledger.Run) error {
				defer c.begin(r.ID)()
				<-over
				return nil
			}
		})
		s.dispatch(d)
		s.await("four calls", func() bool { _, now, _, _ := c.get(); return now == 4 })
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if !d.Active() {
				t.Fatal("the dispatcher has lost its lease")
			}
		}
		s.submit("a", handlers.Update, s.domains(5))
		d.Wake()
		s.await("rows are released", func() bool { return s.pending() == 5 })
		close(over)
		s.await("all runs are finished", func() bool { return s.unfinished(ids) == 0 })
		if all, _, most, doubled := c.get(); all != len(ids) || most != 4 || doubled {
			t.Errorf("%d calls, %d at once, two of one run %t", all, most, doubled)
		}
	})
}

// TestEndPanics: a panic is logged with its stack, and ends neither the dispatcher nor the
// run.
func TestEndPanics(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		ids := s.ended(2)
		d := s.dispatcher(func(config *dispatch.Config) {
			config.Ended = func(_ context.Context, r ledger.Run) error {
				if r.ID == ids[0] {
					panic("no such domain")
				}
				return nil
			}
		})
		s.dispatch(d)
		s.await("the other run is finished", func() bool { return s.unfinished(ids) == 1 })
		s.await("the panic is logged", func() bool { return strings.Contains(tail(s.log, 20_000), "no such domain") })
		for _, want := range []string{"level=ERROR", "run=" + string(ids[0]), "ends_test.go"} {
			if text := tail(s.log, 20_000); !strings.Contains(text, want) {
				t.Errorf("log %s; want %s", text, want)
			}
		}
		if !d.Active() {
			t.Error("the dispatcher is not active")
		}
	})
}

// TestEndsAreInterrupted: the context of Ended ends with the dispatcher, which waits for
// the call, and when another dispatcher becomes the active one. The run stays for that one.
func TestEndsAreInterrupted(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{true, false} {
		t.Run(fmt.Sprintf("stops %t", stops), func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				ids := s.ended(1)
				var c calls
				stop := s.dispatch(s.dispatcher(func(config *dispatch.Config) {
					config.Ended = func(ctx context.Context, r ledger.Run) error {
						end := c.begin(r.ID)
						defer end()
						<-ctx.Done()
						time.Sleep(100 * time.Millisecond)
						return ctx.Err()
					}
				}))
				s.await("a call", func() bool { all, _, _, _ := c.get(); return all == 1 })
				if stops {
					stop()
					if _, now, _, _ := c.get(); now != 0 {
						t.Error("a call is in progress after the end of the dispatcher")
					}
				}
				s.dispatch(s.dispatcher(func(config *dispatch.Config) { config.Protocol = 2 }))
				s.await("the call has ended", func() bool { _, now, _, _ := c.get(); return now == 0 })
				s.await("the run is finished", func() bool { return s.unfinished(ids) == 0 })
				if all, _, _, _ := c.get(); all != 1 {
					t.Errorf("%d calls", all)
				}
			})
		})
	}
}

// TestEndsThatFail: more runs whose end fails than a dispatcher reads at once keep no other run
// from being finished, and each is tried again after a minute.
func TestEndsThatFail(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		const failing = 110
		ids := s.ended(failing + 1)
		good := ids[failing]
		var mu sync.Mutex
		tried := map[ledger.RunID]int{}
		s.dispatch(s.dispatcher(func(config *dispatch.Config) {
			config.Ended = func(_ context.Context, r ledger.Run) error {
				mu.Lock()
				defer mu.Unlock()
				if tried[r.ID]++; r.ID != good {
					panic("broken")
				}
				return nil
			}
		}))
		s.await("the run whose end is well is finished", func() bool { return s.unfinished(ids[failing:]) == 0 })
		mu.Lock()
		before := tried[ids[0]]
		mu.Unlock()
		if why := s.run(ids[0]).Stuck; before != 1 || why == nil || !strings.Contains(why.Why, "broken") {
			t.Errorf("an end that fails was tried %d times, and is said to be stuck: %+v", before, why)
		}
		s.await("an end is tried again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return tried[ids[0]] == 2
		})
	})
}
