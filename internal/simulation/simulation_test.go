package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	gocmp "github.com/google/go-cmp/cmp"

	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

const tenant = ledger.Tenant("default")

// fewest is the smallest number of domains that has some of each kind.
const fewest = 120

// TestSimulation sweeps a tenant daily for sixty days of virtual time. Domains lose their
// tokens and get them back, name servers, resolvers and the API fail, and other clients change
// records. Sweeps are scheduled, scanned, dispatched, executed, evaluated and acted on by the
// parts of a worker, with the scripts of an embedded Redis. An oracle, which knows only the
// guarantees, compares each PATCH, and each missing one, with the history. A worker that is
// killed again and again must produce the same records.
//
// ORGOPS_TEST_SEED repeats a history, and ORGOPS_TEST_SIMULATION is its number of domains, 120
// at least. If it is set, each action is tried, and time passes in smaller steps.
func TestSimulation(t *testing.T) {
	redistest.NeedsLong(t, "takes some 20 seconds")
	p := plan{domains: fewest, checkEvery: 8 * time.Hour, longestStep: 4 * time.Hour}
	if text := os.Getenv("ORGOPS_TEST_SIMULATION"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < fewest {
			t.Fatalf("ORGOPS_TEST_SIMULATION: want a number of at least %d, got %q (%v)", fewest, text, err)
		}
		p = plan{domains: n, checkEvery: 6 * time.Hour, longestStep: 2 * time.Hour, all: true}
	}
	p.seed = seedOf(t)
	actions := []sweep.Action{sweep.SetPending, sweep.Unroute, sweep.Report}
	if !p.all {
		actions = actions[:1]
	}
	records := map[string]map[string]string{}
	var mu sync.Mutex
	t.Run("history", func(t *testing.T) {
		for _, action := range actions {
			for _, kills := range []bool{false, true} {
				if !p.all && !kills {
					continue
				}
				name := nameOf(action, kills)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						settled := p.simulate(t, action, kills)
						mu.Lock()
						defer mu.Unlock()
						records[name] = settled
					})
				})
			}
		}
	})
	for _, action := range actions {
		calm, killed := records[nameOf(action, false)], records[nameOf(action, true)]
		if diff := gocmp.Diff(calm, killed); diff != "" && calm != nil && killed != nil {
			t.Errorf("action %s, the records at the end (-calm +killed):\n%s", action, diff)
		}
	}
}

func nameOf(action sweep.Action, kills bool) string {
	if kills {
		return string(action) + ", killed"
	}
	return string(action) + ", calm"
}

// plan is the size of a simulation.
type plan struct {
	seed    uint64
	domains int
	// checkEvery is how often watched domains are checked between sweeps.
	checkEvery time.Duration
	// longestStep is the longest time for which due rows may wait: those of the time between
	// are executed together.
	longestStep time.Duration
	// all simulates each action, with a worker that lives and with one that is killed. The
	// records at the end must be the same.
	all bool
}

// simulate returns the records at the end.
func (p plan) simulate(t *testing.T, action sweep.Action, kills bool) map[string]string {
	s := newSimulation(t, p, action, kills)
	s.pass()
	s.judge()
	return s.settled()
}

// seedOf returns ORGOPS_TEST_SEED, or a seed of the time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is a seed
	if text := os.Getenv("ORGOPS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return seed
}

// simulation is a history with a worker, in the time of a bubble.
type simulation struct {
	plan
	t      *testing.T
	h      *history
	mini   *miniredis.Miniredis
	store  *sweep.Store
	ledger *ledger.Ledger
	dns    *simulatedDNS
	api    *simulatedAPI
	rules  sweep.Rules
	dice   *rand.Rand // of steps and kills
	kills  bool
	worker *worker
	bad    map[*place]bool

	rolling sync.Mutex // for dice
	mu      sync.Mutex
	events  map[string]events.Event // by id
	again   []time.Time             // when rows and scans are due that wait for a while
	count   counts

	slack int   // days without trouble until due actions are done
	open  spans // when the breaker was open
}

// counts are for the log.
type counts struct {
	steps, executions, killed, frozen, ticks, skipped int
	evaluated                                         map[string]bool
}

func newSimulation(t *testing.T, p plan, action sweep.Action, kills bool) *simulation {
	h := newHistory(p.seed, p.domains, simulatedDays, time.Now().UTC().Truncate(day).Add(day))
	plots(h, p.seed).lay()
	s := &simulation{
		plan: p, t: t, h: h, mini: miniredis.NewMiniRedis(), kills: kills, slack: 3, bad: map[*place]bool{},
		dice: rand.New(rand.NewPCG(p.seed, 3)), events: map[string]events.Event{}, count: counts{evaluated: map[string]bool{}},
		rules: sweep.Rules{Action: action, Grace: sweep.DefaultGrace, AbsentChecks: sweep.DefaultAbsentChecks, Protect: h.protect()},
	}
	t.Cleanup(s.mini.Close)
	rdb := s.connect(nil)
	s.ledger, s.store = ledger.New(rdb), sweep.NewStore(rdb, string(tenant))
	s.dns = &simulatedDNS{h: h, seed: p.seed + 1, now: now}
	s.api = &simulatedAPI{client: newAsking(t, nil), h: h, seed: p.seed + 2, now: now, requests: map[string]int{}}
	s.worker = s.newWorker()
	return s
}

// roll returns a random number from 0 up to 1.
func (s *simulation) roll() float64 {
	s.rolling.Lock()
	defer s.rolling.Unlock()
	return s.dice.Float64()
}

func now() time.Time { return time.Now().UTC() }

// Notify implements [events.Notifier]. It fails at times, before or after the event is
// recorded.
func (s *simulation) Notify(_ context.Context, e events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fails := s.roll()
	if fails < .02 {
		return fmt.Errorf("event %s was not recorded", e.ID)
	}
	if _, ok := s.events[e.ID]; !ok {
		s.events[e.ID] = e
	}
	if fails < .04 {
		return fmt.Errorf("event %s was recorded", e.ID)
	}
	return nil
}

// pass simulates the sixty days.
func (s *simulation) pass() {
	began := s.h.start.Add(-time.Minute)
	s.until(began) // of the first tick that a schedule finds no sweep begins
	for n := range simulatedDays {
		for _, at := range s.stops(n) {
			s.until(at)
			switch {
			case slices.Contains(s.h.confirms, at):
				s.confirm()
			case slices.ContainsFunc(s.h.lies, func(lie span) bool { return lie.to.Equal(at.Add(time.Second)) }):
				s.settle() // so that enough is checked in that time
			default:
				s.check()
			}
		}
	}
	s.until(s.h.end)
	s.t.Logf("%d DNS checks, requests %v, %d PATCHes, %d events, %+v, breaker open %v",
		s.dns.checks, s.api.requests, len(s.api.patches), len(s.events), s.count, s.open)
}

// stops returns the times of a day at which something happens.
func (s *simulation) stops(n int) (all []time.Time) {
	for at := s.h.day(n); at.Before(s.h.day(n + 1)); at = at.Add(s.checkEvery) {
		all = append(all, at.Add(time.Second))
	}
	for _, at := range s.h.confirms {
		if at.Truncate(day).Equal(s.h.day(n)) {
			all = append(all, at)
		}
	}
	for _, lie := range s.h.lies {
		if at := lie.to.Add(-time.Second); at.Truncate(day).Equal(s.h.day(n)) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// until executes all due work until end.
func (s *simulation) until(end time.Time) {
	for {
		s.settle()
		next := s.next()
		if !next.Before(end) {
			s.sleep(end.Sub(now()))
			return
		}
		s.sleep(next.Sub(now()))
	}
}

// next returns when the next step begins: once a row is due that waits for a while, or after
// some time in which the rows of a sweep are due.
func (s *simulation) next() time.Time {
	next := now().Add(s.upTo(s.longestStep))
	s.again = slices.DeleteFunc(s.again, func(at time.Time) bool { return !at.After(now()) })
	for _, at := range s.again {
		if at.Before(next) {
			next = at
		}
	}
	if s.roll() < .5 { // rows that are due soon after each other are executed together
		return next.Add(s.upTo(s.longestStep / 8))
	}
	return next.Add(s.upTo(time.Second))
}

// upTo returns a random time.
func (s *simulation) upTo(longest time.Duration) time.Duration {
	return time.Duration(s.roll() * float64(longest))
}

// later records that a row or a scan is due after a while.
func (s *simulation) later(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = append(s.again, now().Add(after))
}

// sleep advances the time, also for the keys of Redis.
func (s *simulation) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	time.Sleep(d)
	s.mini.FastForward(d)
}

// settle executes all due work, and replaces a worker that is killed.
func (s *simulation) settle() {
	s.count.steps++
	for range 1000 {
		if s.worker.settle() {
			s.watchBreaker()
			return
		}
		s.count.killed++
		s.worker.close()
		s.worker = s.newWorker()
		s.worker.outlive()
	}
	s.t.Fatalf("%v: what is due is not done", now())
}

// check submits the checks between sweeps.
func (s *simulation) check() {
	for range 20 {
		ok := false
		s.worker.do(s.scanRate(), func(ctx context.Context) { ok, _ = s.worker.followUp.Check(ctx, now()) })
		if ok {
			return
		}
		s.settle()
		s.sleep(time.Second)
	}
	s.t.Logf("%v: the checks between sweeps were not submitted", now())
}

// swept reports whether the last sweep has been evaluated.
func (s *simulation) swept() bool {
	ticks, err := s.store.Ticks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var last sweep.Summary
	s.state(sweep.SummaryState, &last)
	return ticks.Sweep.Run != "" && last.Run == ticks.Sweep.Run
}

func (s *simulation) state(name string, into any) (value []byte) {
	s.t.Helper()
	value, err := s.store.State(s.t.Context(), name)
	if err == nil && value != nil {
		err = json.Unmarshal(value, into)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// confirm closes the breaker, as an operator does.
func (s *simulation) confirm() {
	var b sweep.Breaker
	former := s.state(sweep.BreakerState, &b)
	if former == nil {
		return
	}
	b.Open, b.Confirmed = false, now()
	value, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if ok, err := s.store.SetState(s.t.Context(), sweep.BreakerState, former, value); err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	s.watchBreaker()
}

// watchBreaker records when the breaker opens and when it is closed, and which sweeps were
// evaluated.
func (s *simulation) watchBreaker() {
	var b sweep.Breaker
	s.state(sweep.BreakerState, &b)
	n := len(s.open)
	was := n > 0 && s.open[n-1].to.Equal(s.h.end)
	switch {
	case b.Open && !was:
		s.open = append(s.open, span{now(), s.h.end})
	case !b.Open && was:
		s.open[n-1].to = now()
	}
	var last sweep.Summary
	if s.state(sweep.SummaryState, &last); last.Run != "" {
		s.count.evaluated[last.Run] = true
	}
}

// String returns the counts.
func (c counts) String() string {
	return fmt.Sprintf("%d steps, %d executions, %d kills, %d frozen, %d ticks, %d skipped, %d sweeps evaluated",
		c.steps, c.executions, c.killed, c.frozen, c.ticks, c.skipped, len(c.evaluated))
}
