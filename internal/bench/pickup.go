package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/tasks"
)

// Between one task's handler and the next one's enqueue passes a random time
// of up to several intervals of asking, so that a task comes at any moment of
// one: at once, it would come when the server has just asked, and always wait
// for the whole of it.
const (
	ourLongestGap   = 4 * checkEvery
	asynqLongestGap = 2 * time.Second // the interval is 1 s
)

// Where asynq's own interval is measured a task takes a second and a half:
// there are fewer of them, and several servers side by side, each idle all the
// same.
const (
	fewer      = 3 // times
	sideBySide = 32
)

// pickup measures how long an idle worker leaves a task lying, and for how
// long a server does that asks as often as asynq does by itself.
func pickup(ctx context.Context, s *store, n int, out *report) error {
	ours, err := pickupOf(ctx, s, 1, n, ourLongestGap, asWorker)
	if err != nil {
		return err
	}
	ours.Variant = variantOurs
	theirs, err := pickupOf(ctx, s, sideBySide, max(n/fewer/sideBySide, 1), asynqLongestGap, asAsynqAlone)
	if err != nil {
		return err
	}
	theirs.Variant = variantDefault
	return out.pickups(ours, theirs)
}

// starter starts servers for a tenant's queues and says how to stop them.
type starter func(rdb redis.UniversalClient, mux *tasks.Mux, tenant string) (stop func(), err error)

// asWorker starts a tenant's servers as a worker does.
func asWorker(rdb redis.UniversalClient, mux *tasks.Mux, tenant string) (func(), error) {
	servers := tasks.NewServers(tasks.ServerConfig{
		Redis: rdb, Tenant: tenant, Mux: mux, Logger: slog.New(slog.DiscardHandler), ShutdownTimeout: shutdownTimeout,
		DNSConcurrency: dnsConcurrency, APIConcurrency: apiConcurrency,
	})
	return servers.Shutdown, servers.Start()
}

// asAsynqAlone starts a server that leaves asynq's interval as it is.
func asAsynqAlone(rdb redis.UniversalClient, mux *tasks.Mux, tenant string) (func(), error) {
	const asAsynqHasIt = 0
	server := bareServer(rdb, dnsConcurrency, asAsynqHasIt, tasks.DNSQueue, tenant)
	return server.Shutdown, server.Start(mux)
}

// pickupOf measures each tasks, one by one, on each of as many servers.
func pickupOf(ctx context.Context, s *store, servers, each int, longestGap time.Duration, start starter) (result pickupResult, err error) {
	if err := s.empty(ctx); err != nil {
		return result, err
	}
	rdb, err := s.client()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	var (
		measuring sync.WaitGroup
		latencies = make([][]time.Duration, servers)
		failures  = make([]error, servers)
		began     = time.Now()
		cpuBefore = s.cpu(ctx)
	)
	for i := range servers {
		measuring.Go(func() {
			p := newProbe(rdb, "tenant-"+strconv.Itoa(i))
			latencies[i], failures[i] = p.measure(ctx, each, longestGap, start)
		})
	}
	measuring.Wait()
	if err := errors.Join(failures...); err != nil {
		return result, err
	}
	share := (s.cpu(ctx) - cpuBefore).Seconds() / time.Since(began).Seconds()
	return newPickupResult(slices.Concat(latencies...), share), nil
}

// probe stands where a task comes from and where it goes: it is the producer's
// enqueuer, and the ledger that the mux asks first of all about a task.
type probe struct {
	tasks.Ledger // nil: of a row that is settled nothing else is asked

	queue    *asynq.Client
	rdb      redis.UniversalClient
	tenant   string
	enqueued time.Time
	arrived  chan time.Time
}

func newProbe(rdb redis.UniversalClient, tenant string) *probe {
	return &probe{queue: asynq.NewClientFromRedisClient(rdb), rdb: rdb, tenant: tenant, arrived: make(chan time.Time, 1)}
}

// EnqueueContext enqueues, and takes the time before it.
func (p *probe) EnqueueContext(ctx context.Context, task *asynq.Task, options ...asynq.Option) (*asynq.TaskInfo, error) {
	p.enqueued = time.Now()
	return p.queue.EnqueueContext(ctx, task, options...)
}

// Standing takes the time at which the handler has the task, and says that
// there is nothing to do.
func (p *probe) Standing(_ context.Context, _, _ string, _ int, items []int64) ([]bool, map[string][]byte, string, error) {
	p.arrived <- time.Now()
	return slices.Repeat([]bool{true}, len(items)), nil, "", nil
}

// measure starts servers and returns how long each of n tasks took to its
// handler.
func (p *probe) measure(ctx context.Context, n int, longestGap time.Duration, start starter) ([]time.Duration, error) {
	mux := tasks.NewMux(tasks.Config{Tenant: p.tenant, Ledger: p, Logger: slog.New(slog.DiscardHandler)})
	stop, err := start(p.rdb, mux, p.tenant)
	if err != nil {
		return nil, err
	}
	defer stop()
	producer := tasks.NewProducer(p, nowhere{})
	latencies := make([]time.Duration, n)
	for i := range latencies {
		if err := pause(ctx, rand.N(longestGap)); err != nil {
			return nil, err
		}
		if err := p.handIn(ctx, producer, i); err != nil {
			return nil, err
		}
		if latencies[i], err = p.latency(ctx); err != nil {
			return nil, err
		}
	}
	return latencies, nil
}

// handIn submits a run of one row, which is one task.
func (p *probe) handIn(ctx context.Context, producer *tasks.Producer, i int) error {
	kind, _ := tasks.KindOf(tasks.TypeVerify)
	source := json.RawMessage(`{"organization_id":"org_0123456789abcdef","discovery_domain_id":"ord_0123456789abcdefghijkl"}`)
	row, err := kind.Parse(source, tasks.Defaults{})
	if err != nil {
		return err
	}
	submission, err := producer.Begin(tasks.Run{ID: "pickup-" + strconv.Itoa(i), Kind: kind.Name, Tenant: p.tenant, CreatedAt: time.Now(), Generation: 1, Rows: 1})
	if err != nil {
		return err
	}
	if err := submission.Add(ctx, 0, source, row); err != nil {
		return err
	}
	_, err = submission.Finish(ctx)
	return err
}

// neverLater is when a task that has not come is taken to be lost.
const neverLater = 30 * time.Second

// latency waits for the task's handler.
func (p *probe) latency(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, neverLater, fmt.Errorf("a task was not picked up within %v", neverLater))
	defer cancel()
	select {
	case at := <-p.arrived:
		return at.Sub(p.enqueued), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// nowhere stores no rows: what is measured is the task, not the ledger.
type nowhere struct{}

func (nowhere) StoreRows(context.Context, string, int64, [][]byte) error { return nil }

func (nowhere) Seal(context.Context, string, int64) error { return nil }

func (nowhere) Settle(context.Context, string, string, int, []int64, string, string) error {
	return nil
}

func (nowhere) Settled(_ context.Context, _ string, items []int64) ([]bool, error) {
	return make([]bool, len(items)), nil
}
