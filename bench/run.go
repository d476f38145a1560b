package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
)

// grammar has the commands and their flags. No flag has an environment variable.
type grammar struct {
	Rows   *int `noenv:"true" help:"Rows of each round: 3,000 of verify, 1,000,000 of enqueue and 5,000 of pace."`
	Rounds int  `noenv:"true" default:"5" help:"Rounds of verify and enqueue; medians of them are printed."`

	Verify  struct{} `cmd:"" help:"Verified domains a second, compared with the calls alone."`
	Enqueue struct{} `cmd:"" help:"Rows a second into Redis, next to a plain loop that enqueues as many tasks."`
	Pace    struct {
		Behind int `noenv:"true" default:"20000" help:"Rows of the run that a small one is submitted behind."`
	} `cmd:"" help:"The part of a tenant's rate that is used, alone and next to other clients, and the requests that are refused."`
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
	return nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := cli.Program{
		Name: "bench", Description: "Measures the worker's and the producer's throughput on this machine.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: cli.NewEnvironment(nil),
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
			err = produce(ctx, g.Produce, g.rows(0), stdout)
		default:
			err = measure(ctx, g, selected.Command(), p)
		}
	}
	return p.Fail(err)
}

// measure carries out the chosen benchmarks.
func measure(ctx context.Context, g grammar, which string, p cli.Program) (err error) {
	if err := g.check(which); err != nil {
		return err
	}
	store, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	command := strings.Join(append([]string{"go run -C bench ."}, p.Args...), " ")
	if err := write(p.Stdout, aboutThis(command, store.version(ctx))); err != nil {
		return err
	}
	if which == "pace" {
		return measurePace(ctx, store, g, p.Stdout, p.Stderr)
	}
	all := which == "all"
	if all || which == "verify" {
		if err := compare(ctx, store, g, p.Stdout, p.Stderr); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	if all || which == "enqueue" {
		if err := enqueue(ctx, store, g, p.Stdout, p.Stderr); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
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

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
