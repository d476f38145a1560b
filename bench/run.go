package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/redisconn"
)

// grammar is what can be typed. No flag has an environment variable: who has
// set one for a worker does not want the benchmark's rows in that Redis.
type grammar struct {
	RedisURL string `name:"redis-url" noenv:"true" placeholder:"URL" help:"A Redis to use, redis:// or rediss://, its database empty: it is emptied again. Default: a redis-server of its own."`
	JSON     bool   `name:"json" noenv:"true" help:"Write one JSON object a line instead of tables."`
	Rows     *int   `noenv:"true" help:"Rows of each round: 3,000 of verify, 1,000,000 of enqueue, 10,000,000 of its dry run, 5,000 of pace, 160,000 of large."`
	Rounds   int    `noenv:"true" default:"5" help:"Rounds of verify and enqueue; medians of them are printed."`
	Profile  string `noenv:"true" placeholder:"DIR" help:"Write a CPU profile of each round of enqueue to this folder, for go tool pprof."`

	Verify  struct{} `cmd:"" help:"Verified domains a second, compared with asynq alone and the calls alone."`
	Enqueue struct {
		DryRun bool `noenv:"true" help:"Only read the rows, as enqueue --dry-run does: no Redis, one round."`
	} `cmd:"" help:"Rows a second into Redis, next to a plain loop that enqueues as many tasks."`
	Pace struct {
		Behind int `noenv:"true" default:"20000" help:"Rows of the run that a small one is submitted behind."`
	} `cmd:"" help:"The part of a tenant's rate that is used, alone and next to other clients, and the requests that are refused."`
	Idle    idleLoad    `cmd:"" help:"The cost of tenants without work, for Redis and a worker."`
	Large   largeLoad   `cmd:"" help:"How soon a large run is paused, resumed and cancelled, and the longest command of Redis."`
	Pickup  pickupLoad  `cmd:"" help:"How long a submitted row takes to its first request."`
	All     struct{}    `cmd:"" default:"1" help:"verify and enqueue (the default)."`
	Sandbox tenantFlags `cmd:"" hidden:"" help:"Serve the tenant, controlled by stdin."`
	Produce production  `cmd:"" hidden:"" help:"Be one producer of enqueue."`
}

// rows is how many are asked for, or else what the benchmark has.
func (g grammar) rows(usual int) int {
	if g.Rows != nil {
		return *g.Rows
	}
	return usual
}

func (g grammar) check(which string) error {
	switch {
	case g.rows(1) < 1:
		return cli.Usage(fmt.Errorf("rows: want 1 or more, got %d", *g.Rows))
	case which == "pace" && g.Pace.Behind < 1:
		return cli.Usage(fmt.Errorf("behind: want 1 or more, got %d", g.Pace.Behind))
	case g.Rounds < 1:
		return cli.Usage(fmt.Errorf("rounds: want 1 or more, got %d", g.Rounds))
	}
	return errors.Join(g.Idle.check(), g.Pickup.check(), g.Large.check())
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := cli.Program{
		Name: "bench", Description: "Measures the worker's and the producer's throughput on this machine.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: &shared{to: stderr}, Env: cli.NewEnvironment(nil),
	}
	var g grammar
	selected, done, err := p.Parse(&g)
	if err == nil && !done {
		// It has one log for the whole process, and would write to stderr itself.
		redis.SetLogger(cli.RedisLog{Logger: slog.New(slog.DiscardHandler)})
		switch selected.Command() {
		case sandboxCommand:
			err = serveSandbox(g.Sandbox, stdin, stdout)
		case produceCommand:
			err = produce(ctx, g.Produce, g.RedisURL, g.rows(0), stdout)
		default:
			err = measure(ctx, g, selected.Command(), p)
		}
	}
	return p.Fail(err)
}

// measure carries out the benchmarks asked for.
func measure(ctx context.Context, g grammar, which string, p cli.Program) (err error) {
	if err := g.check(which); err != nil {
		return err
	}
	if g.Enqueue.DryRun {
		return dryRun(ctx, g, newReport(p, g, "not used"), p.Stderr)
	}
	store, stop, err := openStore(ctx, g.RedisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.removeWorker(), stop()) }()
	out := newReport(p, g, store.version(ctx))
	if err := out.begin(); err != nil {
		return err
	}
	switch which {
	case "pace":
		return measurePace(ctx, store, g, out, p.Stderr)
	case "idle":
		return measureIdle(ctx, store, g.Idle, out, p.Stderr)
	case "large":
		return measureLarge(ctx, store, g.Large, g.rows(largeRows), out, p.Stderr)
	case "pickup":
		return measurePickup(ctx, store, g.Pickup, out, p.Stderr)
	}
	all := which == "all"
	if all || which == "verify" {
		if err := compare(ctx, store, g, out, p.Stderr); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	if all || which == "enqueue" {
		if err := enqueue(ctx, store, g, out, p.Stderr); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

func newReport(p cli.Program, g grammar, redisVersion string) *report {
	return &report{
		out: p.Stdout, json: g.JSON,
		about: about{Command: strings.Join(append([]string{"go run -C bench ."}, p.Args...), " "),
			Machine: machineOf(redisVersion)},
	}
}

// openStore is the Redis to use, empty, and how to be done with it.
func openStore(ctx context.Context, url string) (*store, func() error, error) {
	if url == "" {
		return startRedis(ctx)
	}
	client, err := redisconn.Open(redisconn.Config{URL: url})
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("redis-url: %w", err))
	}
	s := &store{url: url, admin: client}
	if err := s.claim(ctx); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return s, func() error {
		// Also where ctx has ended: what was written goes.
		return errors.Join(s.empty(context.WithoutCancel(ctx)), client.Close())
	}, nil
}

// claim refuses a Redis that is not the benchmark's to empty.
func (s *store) claim(ctx context.Context) error {
	if _, ok := s.admin.(*redis.Client); !ok {
		return cli.Usage(
			errors.New(
				"redis-url: want redis:// or rediss://: the benchmark empties its database, of a Cluster it would be all"))
	}
	if err := redisconn.Ready(ctx, s.admin); err != nil {
		return err
	}
	keys, err := s.admin.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys in %s: %w", redisconn.Mask(s.url), err)
	}
	if keys > 0 {
		return cli.Usage(
			fmt.Errorf(
				"redis-url: %s has %d keys; the benchmark empties its database, so name one that is empty (another number at the URL's end)", redisconn.Mask(s.url), keys))
	}
	return nil
}

// executable is this program, to be started a second time as the sandbox or as a
// producer.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, to start it once more: %w", err)
	}
	return path, nil
}

// shared is what this process and those that it starts write to.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (w *shared) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
