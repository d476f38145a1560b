package tasks_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/watch"
	"orgops/tasks"
)

// TestTenDays sweeps 200 domains daily for ten days on the real queue: the sweeps are
// begun by the scheduler, and walked, looked at, judged and acted on by a tenant's
// servers, whose clock is a bubble's. What is lost before the first sweep is acted on by
// the sweep that ends the grace of seven days, which is the eighth or the ninth, and is
// given back where its token returns; nothing else is touched.
func TestTenDays(t *testing.T) {
	if os.Getenv("ORGOPS_TEST_SIMULATION") == "" {
		t.Skip("takes a minute: .ci/run simulation has it")
	}
	seed := seedOf(t)
	// Every script that miniredis runs makes a Lua state and throws it away.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	synctest.Test(t, func(t *testing.T) {
		const domains, days = 200, 10
		midnight := time.Now().UTC().Truncate(day).Add(day)
		h := newHistory(seed, domains, days, midnight)
		plots(h, seed).layTen()
		s := &simulation{t: t, h: h, slack: 1}
		s.stage(inBubble(t), seed, tasks.Rules{Action: tasks.ActPending, Grace: tasks.DefaultGrace, AbsentChecks: tasks.DefaultAbsentChecks}, time.Now)
		s.dns.steady = true
		w := &witness{simulatedDNS: s.dns, missed: map[string]time.Time{}}
		// The first tick that a schedule comes to is where it begins, and no sweep.
		time.Sleep(time.Until(midnight) - time.Minute)
		sweeps := s.serve(w)
		began := s.passDays(days)
		sweeps.stop()
		t.Logf("%d looks, requests %v, %d PATCHes, %d notices", s.dns.looks, s.api.requests, len(s.api.patches), len(s.notices))
		if n := sweeps.ticks; n[intake.TickBegun] != days || n[intake.TickSkipped] != 0 || len(began) != days {
			t.Errorf("ticks %v, sweeps judged %v; want %d begun", n, began, days)
		}
		s.judge()
		s.holdTen(w)
	})
}

// Kinds of domains in ten days.
const (
	lostForGood  = "lost before the first sweep"
	lostAndBack  = "lost before the first sweep, and back after it was acted on"
	comesAndGoes = "comes and goes"
)

// layTen lays down ten days: the name servers of everybody fail in a night, and the API
// on an afternoon.
func (p *plotter) layTen() {
	p.h.outages = spans{{p.h.day(4).Add(hours(1)), p.h.day(4).Add(hours(5))}}
	p.h.refusals = spans{{p.h.day(3).Add(hours(12)), p.h.day(3).Add(hours(14))}}
	before := p.h.start.Add(-time.Hour)
	p.deal("protected, and lost", 0, 2, func(d *place) {
		d.publish(before, "")
		d.protect()
	})
	p.deal(lostForGood, 0, 4, func(d *place) { d.publish(before, "") })
	p.deal(lostAndBack, 0, 2, func(d *place) {
		d.publish(before, "")
		d.publish(p.moment(9.02, 9.1), d.token())
	})
	p.deal(comesAndGoes, 0, 2, func(d *place) {
		for _, n := range []float64{.5, 4, 7.5} {
			d.publish(p.moment(n, n+.3), "")
			d.publish(p.moment(n+1.5, n+2), d.token())
		}
	})
	p.deal("lost too late to be acted on", 0, 2, func(d *place) { d.publish(p.moment(2.9, 3.5), "") })
	p.deal("its token is another, and so is DNS", 0, 2, func(d *place) {
		at := p.moment(1, 8)
		d.byHandAt(at, setToken(d.token()+"-next"))
		d.publish(at.Add(10*time.Minute), d.token()+"-next")
	})
	p.deal("gone from one name server, and in the resolvers", 0, 1, func(d *place) { d.split = true })
	p.inOrder()
}

// holdTen: of what was lost before the first sweep each domain is acted on, once, by
// the sweep that finds the grace over since the first look that missed the token.
func (s *simulation) holdTen(w *witness) {
	acted := map[string]int{}
	for _, d := range s.h.domains {
		var takings []time.Time
		for _, p := range s.api.patches {
			if p.place == d && s.took(p) && !s.undid(p) {
				takings = append(takings, p.at)
			}
		}
		if d.protected || d.kind != lostForGood && d.kind != lostAndBack {
			if len(takings) > 0 {
				s.t.Errorf("%s (%s) was acted on at %v", d.id, d.kind, takings)
			}
			continue
		}
		acted[d.kind]++
		from, to := w.missed[d.host()].Add(s.rules.Grace), s.h.day(9)
		if len(takings) != 1 || !(span{from, to}).holds(takings[0]) {
			s.t.Errorf("%s (%s) was acted on at %v; want once between %v and %v", d.id, d.kind, takings, from, to)
		}
		if is := d.at(s.h.end); is.verified != (d.kind == lostAndBack) {
			s.t.Errorf("%s (%s) is %s in the end", d.id, d.kind, is)
		}
	}
	if acted[lostForGood] == 0 || acted[lostAndBack] == 0 {
		s.t.Errorf("the history has too few domains that are to be acted on: %v", acted)
	}
}

// witness notes when a token was missed first.
type witness struct {
	*simulatedDNS
	mu     sync.Mutex
	missed map[string]time.Time // by host
}

// Look implements tasks.DNS.
func (w *witness) Look(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := w.simulatedDNS.Look(ctx, host, token)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, before := w.missed[host]; err == nil && v.State == dnscheck.Absent && !before {
		w.missed[host] = w.now()
	}
	return v, err
}

// swept is a tenant's servers and its scheduler.
type swept struct {
	ticks map[string]int // what became of them
	stop  func()
}

// serve starts a worker with its scheduler, on the simulation's Redis.
func (s *simulation) serve(dns tasks.DNS) *swept {
	cron, err := watch.ParseCron("@daily")
	if err != nil {
		s.t.Fatal(err)
	}
	silent, stopping := slog.New(slog.DiscardHandler), make(chan struct{})
	servers := tasks.NewServers(tasks.ServerConfig{
		Redis: s.redis, Tenant: tasks.DefaultTenant, DNSConcurrency: 4, APIConcurrency: 4, ShutdownTimeout: time.Minute, Logger: silent,
		PollEvery: 10 * time.Minute,
		Mux: tasks.NewMux(tasks.Config{
			Tenant: tasks.DefaultTenant, API: s.api, DNS: dns, Ledger: s.ledger, Pace: deaf{}, Enqueuer: asynq.NewClientFromRedisClient(s.redis),
			Logger: silent, ClientLimit: pace.NewClientLimit(s.redis, tasks.DefaultTenant), RequestTimeout: 30 * time.Second,
			Memories: s.memories, Rules: s.rules, Notices: s, Stopping: stopping,
		}),
	})
	if err := servers.Start(); err != nil {
		s.t.Fatal(err)
	}
	w := &swept{ticks: map[string]int{}}
	scheduler := &intake.Scheduler{
		Intake: intake.New(s.redis, s.ledger), Store: s.memories, Tenant: tasks.DefaultTenant, Cron: cron, Logger: silent,
		Ticked: func(what string) { w.ticks[what]++ }, Every: 5 * time.Minute,
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var background sync.WaitGroup
	background.Go(func() { scheduler.Run(ctx) })
	w.stop = func() {
		cancel()
		background.Wait()
		servers.Stop()
		close(stopping)
		servers.Shutdown()
	}
	return w
}

// passDays sleeps until just before the end, and returns the sweeps that were judged
// by the end of each day.
func (s *simulation) passDays(days int) (judged []string) {
	for n := range days {
		time.Sleep(time.Until(s.h.day(n + 1).Add(-time.Minute)))
		ticks, err := s.memories.Ticks(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		s.sweep = ticks.Sweep.Run
		var j tasks.Judged
		s.state(tasks.StateJudged, &j)
		if j.Run == s.sweep {
			judged = append(judged, j.Run)
		}
		s.t.Logf("day %d: %s", n, j)
		s.watchBreaker()
	}
	return judged
}

// inBubble is a client of a Redis without a socket, on which a bubble's clock would not
// wait. Its keys expire every ten minutes.
func inBubble(t *testing.T) redis.UniversalClient {
	m := miniredis.NewMiniRedis()
	rdb := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		PoolSize: 20,
	})
	rdb.AddHook(noHeartbeats{})
	expired := make(chan struct{})
	go func() { // its own ClockTTL looks at every key at every command
		const every = 10 * time.Minute
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.FastForward(every)
			case <-expired:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(expired)
		_ = rdb.Close()
		m.Close()
	})
	return rdb
}

// noHeartbeats leaves out what servers write for those who watch them, each every five
// seconds: it would be most of the work of ten days, and nobody watches.
type noHeartbeats struct{}

func (noHeartbeats) DialHook(next redis.DialHook) redis.DialHook { return next }

func (noHeartbeats) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (noHeartbeats) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if heartbeat(cmd.Args()) {
			return nil
		}
		return next(ctx, cmd)
	}
}

// heartbeat says whether the command is ZADD to the set of servers or of workers, or a
// script whose first key is a server's.
func heartbeat(args []any) bool {
	key := 1
	if name, _ := args[0].(string); strings.HasPrefix(name, "eval") {
		key = 3
	}
	if len(args) <= key {
		return false
	}
	at, _ := args[key].(string)
	return strings.HasPrefix(at, "asynq:servers") || at == "asynq:workers"
}
