package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/tasks"
)

// silentLoad is what is offered, whether or not it is kept up with.
type silentLoad struct {
	Names  int `noenv:"true" default:"10000" help:"Names to look at, each once."`
	Silent int `noenv:"true" default:"100" help:"How many of them are on name servers that never answer."`
	Rate   int `noenv:"true" default:"1000" help:"Look-ups offered a second."`
}

func (l silentLoad) check() error {
	const most = 10_000 // their name servers have addresses and sockets of their own
	if l.Names < 1 || l.Rate < 1 || l.Silent < 1 || l.Silent >= l.Names || l.Silent > most {
		return cli.Usage(fmt.Errorf("names, silent and rate: want 1 or more of each, fewer silent ones than names and at most %d, got %d, %d and %d", most, l.Names, l.Silent, l.Rate))
	}
	return nil
}

// isSilent spreads the silent names evenly.
func (l silentLoad) isSilent(n int) bool {
	return n%(l.Names/l.Silent) == 0 && n/(l.Names/l.Silent) < l.Silent
}

// host is the n-th name. Without silent ones all are alike.
func (l silentLoad) host(n int, withSilent bool) string {
	if withSilent && l.isSilent(n) {
		return hostAt(n/(l.Names/l.Silent), true)
	}
	return hostAt(n, false)
}

// silent measures how long names wait for their verdicts while others are on name
// servers that say nothing, beside the same load without such. Both ways of
// looking are measured, rounds of with and without taking turns.
func silent(ctx context.Context, s *store, g grammar, out *report, stderr io.Writer) (err error) {
	w, err := openWorld(ctx, g.Silent.Silent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, mode := range []dnscheck.Mode{dnscheck.ModeAuto, dnscheck.ModeResolvers} {
		seconds := g.Silent.Names / g.Silent.Rate
		fmt.Fprintf(stderr, "measuring looks in mode %s beside silent servers; %d rounds of twice %d s\n", mode, g.Rounds, seconds)
		var results []silentResult
		for n := range g.Rounds {
			turns := []bool{true, false}
			for i := range turns {
				withSilent := turns[(n+i)%len(turns)]
				r, err := silentRound(ctx, s, w, g.Silent, mode, withSilent)
				if err != nil {
					return fmt.Errorf("round %d in mode %s: %w", n+1, mode, err)
				}
				r.Mode, r.Round = mode.String(), n+1
				if err := out.silentRound(r); err != nil {
					return err
				}
				results = append(results, r)
			}
		}
		if err := out.silentSummary(summarizeSilent(mode.String(), g.Silent, results)); err != nil {
			return err
		}
	}
	return nil
}

// silentRound offers the names to a new worker's servers and a new Checker. What is
// real: tasks as a producer makes them, asynq and its Redis, the servers with the
// places that a worker has, mux and handler, the Checker. The ledger is not there,
// and what a look hands on is dropped.
func silentRound(ctx context.Context, s *store, w *world, load silentLoad, mode dnscheck.Mode, withSilent bool) (result silentResult, err error) {
	if err := s.empty(ctx); err != nil {
		return result, err
	}
	rdb, err := s.client()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	checker, err := w.checker(mode)
	if err != nil {
		return result, err
	}
	defer checker.Close()
	seen := newSightings(checker, load, withSilent)
	stop, err := seen.start(rdb)
	if err != nil {
		return result, err
	}
	defer stop()
	if err := seen.offer(ctx, rdb); err != nil {
		return result, err
	}
	if err := seen.wait(ctx); err != nil {
		return result, err
	}
	return seen.result(), nil
}

// sightings is the DNS that the handlers have: the Checker, and the time of each
// verdict.
type sightings struct {
	tasks.DNS

	load       silentLoad
	withSilent bool
	numbers    map[string]int // of the names

	mu      sync.Mutex
	offered []time.Time
	took    []time.Duration // 0: no verdict yet
	left    int             // of names that are not silent
	done    chan struct{}
	silent  int // verdicts of silent ones
	bad     int // wrong ones: another than present, or of a silent one than unknown
}

func newSightings(d tasks.DNS, load silentLoad, withSilent bool) *sightings {
	s := &sightings{
		DNS: d, load: load, withSilent: withSilent, numbers: make(map[string]int, load.Names), done: make(chan struct{}),
		offered: make([]time.Time, load.Names), took: make([]time.Duration, load.Names), left: load.Names,
	}
	for n := range load.Names {
		s.numbers[load.host(n, withSilent)] = n
		if withSilent && load.isSilent(n) {
			s.left--
		}
	}
	return s
}

// start starts a tenant's servers as a worker has them.
func (s *sightings) start(rdb redis.UniversalClient) (stop func(), err error) {
	stopping := make(chan struct{})
	servers := tasks.NewServers(tasks.ServerConfig{
		Redis: rdb, Tenant: tenantName, Logger: slog.New(slog.DiscardHandler), ShutdownTimeout: shutdownTimeout,
		DNSConcurrency: dnsConcurrency, APIConcurrency: apiConcurrency,
		Mux: tasks.NewMux(tasks.Config{
			Tenant: tenantName, DNS: s, Ledger: openRows{}, Enqueuer: nobody{}, Logger: slog.New(slog.DiscardHandler), Stopping: stopping,
		}),
	})
	return func() {
		servers.Stop()
		close(stopping)
		servers.Shutdown()
	}, servers.Start()
}

// Look takes the time at which the verdict is there, since the name was offered.
func (s *sightings) Look(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := s.DNS.Look(ctx, host, token)
	n, known := s.numbers[host]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known || err != nil || s.took[n] > 0 {
		return v, err
	}
	s.took[n] = time.Since(s.offered[n])
	wanted := dnscheck.Present
	if isSilent(host) {
		wanted = dnscheck.Unknown
		s.silent++
	} else if s.left--; s.left == 0 {
		close(s.done)
	}
	if v.State != wanted {
		s.bad++
	}
	return v, err
}

// producers is how many hand rows in at a time: enough for the rate.
const producers = 16

// offer hands the names in, each at its time: late where a producer is late, and
// counted from when it should have been.
func (s *sightings) offer(ctx context.Context, rdb redis.UniversalClient) error {
	producer := tasks.NewProducer(asynq.NewClientFromRedisClient(rdb), nowhere{})
	due := make(chan int, s.load.Names) // room for all: nobody who is late delays the clock
	g, ctx := errgroup.WithContext(ctx)
	for range producers {
		g.Go(func() error {
			for n := range due {
				if err := s.handIn(ctx, producer, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(due)
		began := time.Now()
		for n := range s.load.Names {
			at := began.Add(time.Duration(n) * time.Second / time.Duration(s.load.Rate))
			if err := pause(ctx, time.Until(at)); err != nil {
				return err
			}
			s.mu.Lock()
			s.offered[n] = at
			s.mu.Unlock()
			due <- n
		}
		return nil
	})
	return g.Wait()
}

// handIn submits a run of one row that brings host and token.
func (s *sightings) handIn(ctx context.Context, producer *tasks.Producer, n int) error {
	kind, _ := tasks.KindOf(tasks.TypeVerify)
	source := json.RawMessage(fmt.Sprintf(
		`{"organization_id":"org_0123456789abcdef","discovery_domain_id":"ord_0123456789abcdefghijkl","verification_host":%q,"verification_txt":%q}`,
		s.load.host(n, s.withSilent), lookupToken))
	row, err := kind.Parse(source, tasks.Defaults{})
	if err != nil {
		return err
	}
	submission, err := producer.Begin(tasks.Run{ID: "silent-" + strconv.Itoa(n), Kind: kind.Name, Tenant: tenantName, CreatedAt: time.Now(), Generation: 1, Rows: 1})
	if err != nil {
		return err
	}
	if err := submission.Add(ctx, 0, source, row); err != nil {
		return err
	}
	_, err = submission.Finish(ctx)
	return err
}

// wait returns when all names that are not silent have their verdicts.
func (s *sightings) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, tooLong, errors.New("names are without a verdict"))
	defer cancel()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sightings) result() silentResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []time.Duration
	for n, took := range s.took {
		if !s.withSilent || !s.load.isSilent(n) {
			others = append(others, took)
		}
	}
	return newSilentResult(s.withSilent, others, s.silent, s.bad)
}

// openRows is a ledger in which each row is open, and nothing is kept.
type openRows struct {
	tasks.Ledger // nil: nothing else is asked of it
}

// Standing says that the rows are open.
func (openRows) Standing(_ context.Context, _, _ string, _ int, items []int64) ([]bool, map[string][]byte, string, error) {
	return slices.Repeat([]bool{false}, len(items)), nil, "", nil
}

// Note keeps nothing.
func (openRows) Note(context.Context, string, int, []int64, string, time.Time) error { return nil }

// Keep keeps nothing.
func (openRows) Keep(context.Context, string, int64, string, []byte) error { return nil }

// nobody takes what a look hands on, and drops it.
type nobody struct{}

// EnqueueContext drops the task.
func (nobody) EnqueueContext(context.Context, *asynq.Task, ...asynq.Option) (*asynq.TaskInfo, error) {
	return &asynq.TaskInfo{}, nil
}
