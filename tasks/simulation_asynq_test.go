package tasks_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/watch"
	"orgops/tasks"
)

// TestSimulationOnAsynq sweeps 200 domains for ten days on asynq itself, begun by the
// scheduler: two of each, on one clock that goes on when all of them wait. The rules
// are those of TestSimulation, with a grace of five days.
func TestSimulationOnAsynq(t *testing.T) {
	if os.Getenv("ORGOPS_TEST_SIMULATION") == "" {
		t.Skip("takes minutes: .ci/run simulation has it")
	}
	seed := seedOf(t)
	synctest.Test(t, func(t *testing.T) {
		const domains, days = 200, 10
		h := newHistory(seed, domains, days, time.Now().UTC())
		plots(h, seed).layShort()
		s := &simulation{t: t, h: h, clock: &clock{t: h.end}, dice: rand.New(rand.NewPCG(seed, 3)), executed: map[string]int{}, slack: 1}
		rdb := inBubble(t)
		s.stage(rdb, seed, tasks.Rules{Action: tasks.ActPending, Grace: 5 * day, AbsentChecks: tasks.DefaultAbsentChecks}, time.Now)
		stop := s.serve(rdb)
		for n := range days {
			time.Sleep(time.Until(h.day(n + 1)))
			t.Logf("after day %d: %d looks", n, s.dns.looks)
		}
		stop()
		t.Logf("%d looks, requests %v, %d PATCHes", s.dns.looks, s.api.requests, len(s.api.patches))
		s.judge()
		if n := len(s.api.patches); n < 8 {
			t.Errorf("%d PATCHes, where 13 domains are lost for long enough", n)
		}
	})
}

// inBubble is a client of a Redis that has no socket, which a bubble's clock would
// wait for, and whose keys expire by that clock.
func inBubble(t *testing.T) redis.UniversalClient {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		PoolSize: 100,
	})
	t.Cleanup(func() {
		_ = rdb.Close()
		m.Close()
	})
	return rdb
}

// serve starts two workers with a scheduler each, and returns what stops them.
func (s *simulation) serve(rdb redis.UniversalClient) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	cron, err := watch.ParseCron("@daily")
	if err != nil {
		s.t.Fatal(err)
	}
	client := asynq.NewClientFromRedisClient(rdb)
	var servers []*asynq.Server
	for range 2 {
		server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
			Concurrency: 4,
			Queues:      s.queues(),
			// A poll costs real time, and ten days have many seconds.
			TaskCheckInterval: 20 * time.Second, DelayedTaskCheckInterval: 20 * time.Second,
			RetryDelayFunc: tasks.RetryDelay, IsFailure: tasks.IsFailure, LogLevel: asynq.FatalLevel,
		})
		if err := server.Start(s.worker(&saboteur{at: -1}, client)); err != nil {
			s.t.Fatal(err)
		}
		servers = append(servers, server)
		scheduler := &intake.Scheduler{
			Intake: intake.New(rdb, s.ledger), Store: s.memories, Tenant: tasks.DefaultTenant, Cron: cron,
			Logger: slog.New(slog.DiscardHandler), Every: time.Minute,
		}
		go scheduler.Run(ctx)
	}
	return func() {
		cancel()
		for _, server := range servers {
			server.Shutdown()
		}
	}
}

func (s *simulation) queues() map[string]int {
	tenant := tasks.DefaultTenant
	queues := map[string]int{tasks.SweepQueue(tenant): 1, tasks.RecheckQueue(tenant): 1}
	for _, lane := range []tasks.Lane{tasks.Normal, tasks.Fast} {
		queues[tasks.DNSQueue(tenant, lane)], queues[tasks.APIQueue(tenant, lane)] = 1, 1
	}
	return queues
}
