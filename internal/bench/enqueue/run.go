package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/redisconn"
)

// timed is what a producer says of its work.
type timed struct {
	Rows    int64   `json:"rows"`
	Seconds float64 `json:"seconds"`
}

// The producers: the first argument of the process that one has to itself.
const (
	producerOurs  = "orgops"
	producerPlain = "asynq.Client.Enqueue"
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench/enqueue", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rows := flags.Int("rows", 1_000_000, "rows of each round")
	rounds := flags.Int("rounds", 3, "rounds")
	as := flags.String("as", "", "be this producer (used by the benchmark itself)")
	url := flags.String("redis-url", "", "Redis of that producer")
	file := flags.String("file", "", "rows of that producer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	// It would tell of a Redis that does not listen yet.
	redis.SetLogger(cli.RedisLog{Logger: slog.New(slog.DiscardHandler)})
	var err error
	if *as != "" {
		err = produce(ctx, *as, *url, *file, *rows, stdout)
	} else {
		err = measure(ctx, *rows, *rounds, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench/enqueue:", err)
		return 1
	}
	return 0
}

// measure lets the producers take turns.
func measure(ctx context.Context, rows, rounds int, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "orgops-bench-")
	if err != nil {
		return fmt.Errorf("folder for the rows: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "rows.csv")
	if err := writeRows(file, rows); err != nil {
		return fmt.Errorf("make the rows: %w", err)
	}
	fmt.Fprintf(stdout, "%d rows, %d rounds\n", rows, rounds)
	for range rounds {
		for _, producer := range []string{producerPlain, producerOurs} {
			if err := round(ctx, producer, dir, file, rows, stdout); err != nil {
				return fmt.Errorf("%s: %w", producer, err)
			}
		}
	}
	return nil
}

func writeRows(name string, rows int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "organization_id,discovery_domain_id")
	for i := range rows {
		fmt.Fprintf(w, "org_%016d,ord_%016d\n", i/10, i)
	}
	return errors.Join(w.Flush(), f.Close())
}

// round measures one producer on a Redis of its own.
func round(ctx context.Context, producer, dir, file string, rows int, stdout io.Writer) (err error) {
	url, stop, err := startRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	child := exec.CommandContext(ctx, program, "-as", producer, "-redis-url", url, "-file", file, "-rows", fmt.Sprint(rows))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return err
	}
	var took timed
	if err := json.Unmarshal(out, &took); err != nil {
		return fmt.Errorf("its answer: %w", err)
	}
	fmt.Fprintf(stdout, "%-22s %8.0f rows/s  peak %5.1f MB\n", producer, float64(took.Rows)/took.Seconds, peakMB(child.ProcessState))
	return nil
}

// redisUp is how long a redis-server may take to answer.
const redisUp = 10 * time.Second

// startRedis starts a redis-server on a free port of loopback that keeps
// nothing on disk.
func startRedis(ctx context.Context, dir string) (url string, stop func() error, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("redis-server is not installed: install it (apt-get install redis-server, brew install redis)")
	}
	port, err := freePort(ctx)
	if err != nil {
		return "", nil, err
	}
	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start %s: %w", program, err)
	}
	stop = func() error {
		_ = server.Process.Kill() // nothing in it could be lost
		_ = server.Wait()         // says only that it was killed
		return nil
	}
	url = "redis://127.0.0.1:" + port + "/0"
	if err := awaitUp(ctx, url); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return url, stop, nil
}

func awaitUp(ctx context.Context, url string) (err error) {
	client, err := redisconn.Open(redisconn.Config{URL: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, redisUp)
	defer cancel()
	for {
		err := redisconn.Ready(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort is a port that nobody listened at just now.
func freePort(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}
