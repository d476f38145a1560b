package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/watch"
	"orgops/tasks"
)

// TestSimulation sweeps a tenant daily for sixty days of virtual time, in which
// domains lose their tokens and get them back, name servers, resolvers and the API
// fail or lie, and people change records by hand; and holds every PATCH, and every one
// that is missing, against what had happened: the oracle knows none of the rules but
// what is promised. A worker fleet that is killed all the time has to come to the same.
//
// ORGOPS_TEST_SEED lays down the same history again, ORGOPS_TEST_SIMULATION is how many
// domains it has, 160 at the least: .ci/run has 2,000, which takes minutes. From 500 on
// the other actions are tried too, with 500.
func TestSimulation(t *testing.T) {
	text := os.Getenv("ORGOPS_TEST_SIMULATION")
	if text == "" {
		t.Skip("takes minutes: .ci/run simulation has it")
	}
	domains, err := strconv.Atoi(text)
	if err != nil || domains < 160 {
		t.Fatalf("ORGOPS_TEST_SIMULATION: want a number from 160 on, got %q (%v)", text, err)
	}
	actions := []tasks.Action{tasks.ActPending, tasks.ActUnroute, tasks.ActReport}
	if domains < 500 {
		actions = actions[:1]
	}
	seed := seedOf(t)
	for i, action := range actions {
		if i > 0 {
			domains = 500 // enough to try another action
		}
		t.Run(string(action), func(t *testing.T) {
			var calm, killed map[string]string
			t.Run("history", func(t *testing.T) {
				t.Run("calm", func(t *testing.T) {
					t.Parallel()
					calm = simulate(t, seed, domains, action, false)
				})
				t.Run("killed", func(t *testing.T) {
					t.Parallel()
					killed = simulate(t, seed, domains, action, true)
				})
			})
			if diff := cmp.Diff(calm, killed); diff != "" && calm != nil && killed != nil {
				t.Errorf("what has become of the domains (-calm +killed):\n%s", diff)
			}
		})
	}
}

// simulate says what the records have come to.
func simulate(t *testing.T, seed uint64, domains int, action tasks.Action, kills bool) map[string]string {
	s := newSimulation(t, seed, domains, action, kills)
	s.pass()
	s.judge()
	return s.settled()
}

// seedOf is ORGOPS_TEST_SEED, or one of the time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ORGOPS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return seed
}

// simulation is a history with a worker, on a clock that goes on with the queue.
type simulation struct {
	t        *testing.T
	h        *history
	clock    *clock
	queue    *calendar
	mini     *miniredis.Miniredis
	redis    redis.UniversalClient
	now      func() time.Time
	ledger   *runs.Ledger
	memories *watch.Store
	producer *tasks.Producer
	dns      *simulatedDNS
	api      *simulatedAPI
	rules    tasks.Rules
	dice     *rand.Rand // of when the worker is killed
	kills    bool

	saboteur *saboteur
	bad      map[*place]bool
	mux      *tasks.Mux
	beside   *tasks.Mux // of another worker, which is never killed

	telling  sync.Mutex
	notices  map[string]tasks.Notice // by id
	executed map[string]int          // by type
	slack    int                     // how many days without trouble may pass until what is due is done
	killed   int
	sweep    string   // the last one's run
	skipped  []string // ticks at which the sweep before was still under way
	open     spans    // when the breaker was
}

func newSimulation(t *testing.T, seed uint64, domains int, action tasks.Action, kills bool) *simulation {
	h := newHistory(seed, domains, simulatedDays, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	plots(h, seed).lay()
	s := &simulation{
		t: t, h: h, clock: &clock{t: h.start}, dice: rand.New(rand.NewPCG(seed, 3)), kills: kills, saboteur: &saboteur{at: -1},
		executed: map[string]int{}, slack: 3, bad: map[*place]bool{},
	}
	s.mini = redistest.Mini(t)
	s.mini.ClockTTL(false) // costs a look at every key for every command
	s.queue = newCalendar(s.clock)
	rules := tasks.Rules{Action: action, Grace: tasks.DefaultGrace, AbsentChecks: tasks.DefaultAbsentChecks}
	s.stage(redistest.New(t), seed, rules, s.clock.now)
	s.producer = tasks.NewProducer(s.queue, s.ledger)
	s.mux, s.beside = s.worker(s.saboteur, s.queue), s.worker(&saboteur{at: -1}, s.queue)
	return s
}

// stage sets up what the handlers work with.
func (s *simulation) stage(rdb redis.UniversalClient, seed uint64, rules tasks.Rules, now func() time.Time) {
	s.redis, s.now = rdb, now
	s.ledger, s.memories = runs.New(rdb), watch.New(rdb, tasks.DefaultTenant)
	s.dns = &simulatedDNS{h: s.h, seed: seed + 1, now: now}
	s.api = &simulatedAPI{h: s.h, seed: seed + 2, now: now, requests: map[string]int{}}
	s.rules, s.notices = rules, map[string]tasks.Notice{}
	s.rules.Protect = s.h.protect()
}

// worker is one that the saboteur kills.
func (s *simulation) worker(by *saboteur, queue tasks.Enqueuer) *tasks.Mux {
	return tasks.NewMux(tasks.Config{
		Tenant: tasks.DefaultTenant, API: sabotagedAPI{by, s.api}, DNS: sabotagedDNS{by, s.dns}, Ledger: sabotagedLedger{by, s.ledger},
		Pace: deaf{}, Enqueuer: sabotagedQueue{by, queue}, Logger: slog.New(slog.DiscardHandler),
		ClientLimit: pace.NewClientLimit(s.redis, tasks.DefaultTenant), RequestTimeout: 30 * time.Second,
		Memories: sabotagedMemories{by, s.memories}, Rules: s.rules, Notices: sabotagedNotices{by, s},
		Stopping: make(chan struct{}), Now: s.now,
	})
}

// Tell implements tasks.Notices.
func (s *simulation) Tell(_ context.Context, n tasks.Notice) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	if _, told := s.notices[n.ID]; !told {
		s.notices[n.ID] = n
	}
	return nil
}

// pass lets the sixty days pass.
func (s *simulation) pass() {
	began := time.Now()
	for n := range simulatedDays {
		s.until(s.h.day(n))
		s.tick()
		for _, at := range s.h.confirms {
			if at.Before(s.h.day(n+1)) && !at.Before(s.h.day(n)) {
				s.until(at)
				s.confirm()
			}
		}
		s.mini.FastForward(day)
		s.queue.forget()
	}
	s.until(s.h.end)
	s.t.Logf("%v: %d looks, requests %v, %d PATCHes, executions %v, %d killed, sweeps skipped %v, breaker open %v",
		time.Since(began).Round(time.Millisecond), s.dns.looks, s.api.requests, len(s.api.patches), s.executed, s.killed, s.skipped, s.open)
}

// until runs the tasks that are due before then.
func (s *simulation) until(end time.Time) {
	for {
		at, waits := s.queue.next()
		if !waits || !at.Before(end) {
			s.set(end)
			return
		}
		// A task that was put off is taken up within five seconds.
		s.set(at.Add(time.Duration(s.dice.Int64N(int64(5 * time.Second)))))
		s.step()
	}
}

func (s *simulation) set(now time.Time) {
	if wait := now.Sub(s.now()); wait > 0 {
		s.clock.advance(wait)
		s.mini.SetTime(now)
	}
}

// step runs the task that is due next and does with it what asynq would do.
func (s *simulation) step() {
	n := s.queue.take()
	s.executed[n.typ]++
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.plan(n, cancel)
	err, died := s.deliver(ctx, s.mux, n)
	switch {
	case died:
		s.killed++
		n.at, n.retried = s.now().Add(leaseLost), n.retried+1
	case ctx.Err() != nil:
		n.ended(ctx.Err(), s.now())
	case err == nil && s.kills && s.dice.Float64() < .002: // and the queue is not told
		n.at, n.retried = s.now().Add(leaseLost), n.retried+1
	default:
		n.ended(err, s.now())
	}
	if n.state == "archived" && n.typ != tasks.TypeRecheck {
		s.t.Logf("%v: %s is archived: %v", s.now(), n.id, err)
	}
	if wait := s.now().Add(10 * time.Minute); n.typ == tasks.TypeJudge && n.state == "" && n.at.Before(wait) {
		n.at = wait // it asks every few seconds whether the sweep has ended, which would be most of the work
	}
	if n.typ != tasks.TypeRelook {
		var about struct {
			ID string `json:"discovery_domain_id"`
		}
		_ = json.Unmarshal(n.payload, &about)
		if p := s.h.byID[about.ID]; p != nil {
			text := "ok"
			if err != nil {
				text = err.Error()
			}
			p.meet(s.now(), "%s %s: died %v, %s (%s)", n.typ, n.id, died, text, n.state)
		}
	}
	s.queue.give(n, s.now())
	if n.typ == tasks.TypeJudge {
		s.watchBreaker()
	}
}

// plan says what happens to the execution.
func (s *simulation) plan(n *entry, cancel context.CancelFunc) {
	s.saboteur.mu.Lock()
	defer s.saboteur.mu.Unlock()
	s.saboteur.calls, s.saboteur.done, s.saboteur.dead, s.saboteur.stop = nil, false, false, cancel
	s.saboteur.on, s.saboteur.act, s.saboteur.spare, s.saboteur.cancel = nil, nil, false, false
	if !s.kills {
		return
	}
	rate := .002
	switch n.typ {
	case tasks.TypeSweep, tasks.TypeAct, tasks.TypeConfirm, tasks.TypeVerify:
		rate = .02 // they are few, and each place is to be met
	}
	s.saboteur.on = func(string, bool) bool { return s.dice.Float64() < rate }
	switch s.dice.IntN(8) {
	case 0:
		s.saboteur.cancel = true
	case 1, 2:
		s.saboteur.spare = true
		s.saboteur.act = func() { _, _ = s.deliver(s.t.Context(), s.beside, n) }
	}
}

// deliver runs a task once; died: its worker was killed on the way.
func (s *simulation) deliver(ctx context.Context, mux *tasks.Mux, n *entry) (err error, died bool) { //nolint:revive // the error says less
	defer func() {
		if p := recover(); p != nil {
			if p != killed {
				panic(p)
			}
			died = true
		}
	}()
	err = mux.Deliver(ctx, asynq.NewTask(n.typ, n.payload), n.id, n.queue, n.retried)
	return err, mux == s.mux && s.saboteur.dead
}

// tick begins the day's sweep, unless the last one is still under way.
func (s *simulation) tick() {
	ctx, now := s.t.Context(), s.now()
	if !s.over() {
		s.skipped = append(s.skipped, now.Format(time.DateOnly))
		return
	}
	order := tasks.SweepOrder{Tick: now.Unix(), SpreadUntil: now.Add(day * 8 / 10).Unix()}
	told, err := tasks.NewSwept(order)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sweep = fmt.Sprintf("sweep-default-%d", order.Tick)
	r, _, err := s.ledger.Create(ctx, runs.Run{
		ID: s.sweep, Kind: tasks.TypeRecheck, Tenant: tasks.DefaultTenant, CreatedAt: now, Walk: &runs.Walk{Told: told},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	err = s.producer.Walk(ctx, tasks.Run{ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CreatedAt, Generation: r.Generation}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
}

// over says whether the last sweep has come to its end: it was judged, or its
// judgement is lost, so that the next one's has to do.
func (s *simulation) over() bool {
	if s.sweep == "" || s.judged() {
		return true
	}
	r, err := s.ledger.Get(s.t.Context(), s.sweep)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Ended() && s.now().Sub(r.EndedAt) > time.Hour
}

func (s *simulation) judged() bool {
	var j tasks.Judged
	s.state(tasks.StateJudged, &j)
	return j.Run == s.sweep
}

func (s *simulation) state(name string, into any) (value []byte) {
	s.t.Helper()
	value, err := s.memories.State(s.t.Context(), name)
	if err == nil && value != nil {
		err = json.Unmarshal(value, into)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// confirm is the operator's word that what is gone is gone.
func (s *simulation) confirm() {
	var b tasks.Breaker
	former := s.state(tasks.StateBreaker, &b)
	if former == nil {
		return
	}
	b.Open, b.Confirmed = false, s.now()
	value, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if ok, err := s.memories.SetState(s.t.Context(), tasks.StateBreaker, former, value); err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	s.watchBreaker()
}

// watchBreaker notes when the breaker opens and when it is closed.
func (s *simulation) watchBreaker() {
	var b tasks.Breaker
	s.state(tasks.StateBreaker, &b)
	n := len(s.open)
	was := n > 0 && s.open[n-1].to.Equal(s.h.end)
	switch {
	case b.Open && !was:
		s.open = append(s.open, span{s.now(), s.h.end})
	case !b.Open && was:
		s.open[n-1].to = s.now()
	}
}

type sabotagedNotices struct {
	s       *saboteur
	notices tasks.Notices
}

func (n sabotagedNotices) Tell(ctx context.Context, one tasks.Notice) error {
	return n.s.call("notices.tell", func() error { return n.notices.Tell(ctx, one) })
}
