package simulation_test

import (
	"cmp"
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
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

const tenant = ledger.Tenant("default")

// fewest is the smallest number of domains that has some of each kind.
const fewest = 120

// TestSimulation sweeps a tenant daily for sixty days of virtual time. Domains lose their
// tokens and get them back, name servers, resolvers and the API fail, and other clients change
// records. Sweeps are scheduled, scanned, dispatched and executed by the parts of a worker, with
// the scripts of an embedded Redis, and lost domains are revoked by a command each day, and twice
// by a person who allows any number and each operator. An oracle, which knows only the guarantees,
// compares each PATCH, and each missing one, with the history: no domain is ever revoked whose
// record was published at all its servers from before its disproof until its PATCH. A worker that
// is killed again and again must produce the same records.
//
// ORGOPS_TEST_SEED repeats a history, and ORGOPS_TEST_SIMULATION is its number of domains, 120
// at least. If it is set, each setting is tried, and time passes in smaller steps.
func TestSimulation(t *testing.T) {
	redistest.NeedsLong(t, "takes some 20 seconds")
	p := plan{domains: fewest, longestStep: 4 * time.Hour}
	if text := os.Getenv("ORGOPS_TEST_SIMULATION"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < fewest {
			t.Fatalf("ORGOPS_TEST_SIMULATION: want a number of at least %d, got %q (%v)", fewest, text, err)
		}
		p = plan{domains: n, longestStep: 2 * time.Hour, all: true}
	}
	p.seed = seedOf(t)
	settings := []sweep.Setting{sweep.SetPending, sweep.Unroute}
	if !p.all {
		settings = settings[:1]
	}
	records := map[string]map[string]string{}
	var mu sync.Mutex
	t.Run("history", func(t *testing.T) {
		for _, set := range settings {
			for _, kills := range []bool{false, true} {
				if !p.all && !kills {
					continue
				}
				name := nameOf(set, kills)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						settled := p.simulate(t, set, kills)
						mu.Lock()
						defer mu.Unlock()
						records[name] = settled
					})
				})
			}
		}
	})
	for _, set := range settings {
		calm, killed := records[nameOf(set, false)], records[nameOf(set, true)]
		if diff := gocmp.Diff(calm, killed); diff != "" && calm != nil && killed != nil {
			t.Errorf("setting %s, the records at the end (-calm +killed):\n%s", set, diff)
		}
	}
}

func nameOf(set sweep.Setting, kills bool) string {
	if kills {
		return string(set) + ", killed"
	}
	return string(set) + ", calm"
}

// plan is the size of a simulation.
type plan struct {
	seed    uint64
	domains int
	// longestStep is the longest time for which due rows may wait: those of the time between
	// are executed together.
	longestStep time.Duration
	// all simulates each setting, with a worker that lives and with one that is killed. The
	// records at the end must be the same.
	all bool
}

// simulate returns the records at the end.
func (p plan) simulate(t *testing.T, set sweep.Setting, kills bool) map[string]string {
	s := newSimulation(t, p, set, kills)
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
	set    sweep.Setting
	dice   *rand.Rand // of steps and kills
	kills  bool
	worker *worker
	bad    map[*place]bool

	rolling sync.Mutex // for dice
	mu      sync.Mutex
	events  map[string]events.Event // by id
	again   []time.Time             // when rows and scans are due that wait for a while
	count   counts

	slack int // days without trouble until what is due is done
}

// counts are for the log.
type counts struct {
	steps, executions, killed, frozen, ticks, skipped, submitted, refused int
}

func newSimulation(t *testing.T, p plan, set sweep.Setting, kills bool) *simulation {
	h := newHistory(p.seed, p.domains, simulatedDays, time.Now().UTC().Truncate(day).Add(day))
	plots(h, p.seed).lay()
	s := &simulation{
		plan: p, t: t, h: h, mini: miniredis.NewMiniRedis(), kills: kills, set: set, slack: 3, bad: map[*place]bool{},
		dice: rand.New(rand.NewPCG(p.seed, 3)), events: map[string]events.Event{},
		rules: sweep.Rules{Grace: sweep.DefaultGrace, AbsentChecks: sweep.DefaultAbsentChecks, Protect: h.protect()},
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
				s.revoke(100_000, "closed", "emptied")
			case slices.ContainsFunc(s.h.lies, func(lie span) bool { return lie.to.Equal(at.Add(time.Second)) }):
				s.settle() // so that enough is checked in that time
			default:
				s.revoke(0)
			}
		}
	}
	s.until(s.h.end)
	s.t.Logf("%d DNS checks, requests %v, %d PATCHes, %d events, %v",
		s.dns.checks, s.api.requests, len(s.api.patches), len(s.events), s.count)
}

// stops returns the times of a day at which something happens.
func (s *simulation) stops(n int) (all []time.Time) {
	all = append(all, s.h.day(n).Add(22*time.Hour))
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
			return
		}
		s.count.killed++
		s.worker.close()
		s.worker = s.newWorker()
		s.worker.outlive()
	}
	s.t.Fatalf("%v: what is due is not done", now())
}

// revoke submits a run that revokes the lost domains, as the command does: at most that many in
// seven days, 0: the default.
func (s *simulation) revoke(most int64, operators ...string) {
	ctx := s.t.Context()
	states := sweep.States{Tenant: string(tenant), Store: s.store}
	selection := sweep.Selection{Rules: s.rules, Operators: operators, At: now()}
	var err error
	if selection.Summary, _, err = states.Summary(ctx); err != nil {
		s.t.Fatal(err)
	}
	if selection.Counts, err = s.store.Counts(ctx, selection.Summary.Tick); err != nil {
		s.t.Fatal(err)
	}
	for d, err := range states.Watched(ctx) {
		if err != nil {
			s.t.Fatal(err)
		}
		selection.Add(d.ID, d.DomainState)
	}
	most = cmp.Or(most, selection.Summary.Max())
	used, err := s.store.Revocations(ctx, now())
	if err != nil {
		s.t.Fatal(err)
	}
	var rows [][]byte
	candidates, _ := selection.Select()
	for _, c := range candidates {
		if c.Unfit != "" {
			break
		}
		row, err := json.Marshal(sweep.RevokeRow{OrganizationID: c.OrganizationID,
			DiscoveryDomainID: c.ID, Set: s.set, Max: most})
		if err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	switch {
	case int64(len(rows)) > most-used:
		s.count.refused++
		return
	case len(rows) == 0:
		return
	}
	s.count.submitted += len(rows)
	run := ledger.NewRun{ID: ledger.RunID(fmt.Sprintf("revoke-%d", now().Unix())), Tenant: tenant, Kind: handlers.Revoke}
	if _, err := (intake.Intake{Ledger: ledger.New(s.connect(nil))}).SubmitChosen(ctx, run, rows); err != nil {
		s.t.Fatal(err)
	}
}

// swept reports whether the last sweep has a summary.
func (s *simulation) swept() bool {
	ticks, err := s.store.Ticks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	states := sweep.States{Tenant: string(tenant), Store: s.store}
	last, _, err := states.Summary(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return ticks.Sweep.Run != "" && last.Run == ticks.Sweep.Run
}

// String returns the counts.
func (c counts) String() string {
	return fmt.Sprintf(
		"%d steps, %d executions, %d kills, %d frozen, %d ticks, %d skipped, %d revocations submitted, %d submissions refused",
		c.steps, c.executions, c.killed, c.frozen, c.ticks, c.skipped, c.submitted, c.refused)
}
