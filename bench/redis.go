package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// store is the Redis that is measured on.
type store struct {
	url, address string
	admin        redis.UniversalClient // for commands that are not measured
	dir          string                // of files that are removed at the end
}

// empty forgets everything, so that each measurement begins alike. A million keys
// take Redis seconds, so they are dropped in the background, and awaited.
func (s *store) empty(ctx context.Context) error {
	if err := s.admin.FlushDBAsync(ctx).Err(); err != nil {
		return fmt.Errorf("empty %s: %w", s.url, err)
	}
	for {
		if n := s.info(ctx, "memory")["lazyfree_pending_objects"]; n == "" || n == "0" {
			return ctx.Err()
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// version is the server's.
func (s *store) version(ctx context.Context) string { return s.info(ctx, "server")["redis_version"] }

// cpu is the processor time that the server has used so far; 0 where it does
// not say.
func (s *store) cpu(ctx context.Context) time.Duration {
	var total float64
	info := s.info(ctx, "cpu")
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		if seconds, err := strconv.ParseFloat(info[field], 64); err == nil {
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}

// scripts is how many scripts were executed so far, of all clients.
func (s *store) scripts(ctx context.Context) (n int64) {
	stats := s.info(ctx, "commandstats")
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} { // calls=12,usec=345,...
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats[name], "calls="), ",")
		if count, err := strconv.ParseInt(calls, 10, 64); err == nil {
			n += count
		}
	}
	return n
}

// memory is how many bytes the server holds; 0 where it does not say.
func (s *store) memory(ctx context.Context) int64 {
	bytes, err := strconv.ParseInt(s.info(ctx, "memory")["used_memory"], 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

// info are a section's fields; none where the server has no such section.
func (s *store) info(ctx context.Context, section string) map[string]string {
	fields := map[string]string{}
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return fields
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// file makes a file.
func (s *store) file(name string, write func(io.Writer) error) (path string, err error) {
	path = filepath.Join(s.dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("make the rows: %w", err)
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return "", fmt.Errorf("make the rows: %w", err)
	}
	return path, nil
}

// redisUp is how long a redis-server may take to answer.
const redisUp = 10 * time.Second

// startRedis starts a redis-server on a free port of loopback that keeps
// nothing on disk.
func startRedis(ctx context.Context) (*store, func() error, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil,
			errors.New("redis-server is not installed: install it (apt-get install redis-server, brew install redis)")
	}
	dir, err := os.MkdirTemp("", "orgops-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("folder for redis-server: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	log := filepath.Join(dir, "redis.log")
	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--logfile", log,
		"--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(dir))
	}
	stop := func() error {
		_ = server.Process.Kill() // nothing in it could be lost; it may have ended before, by the same Ctrl-C
		_ = server.Wait()         // says only that it was killed
		return os.RemoveAll(dir)
	}
	s := &store{url: "redis://127.0.0.1:" + port + "/0", address: "127.0.0.1:" + port, dir: dir}
	if s.admin, err = redisconn.Open(redisconn.Config{URL: s.url}); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	if err := s.awaitUp(ctx); err != nil {
		err = fmt.Errorf("redis-server did not come up: %w; it said last: %q", err, lastLine(log))
		return nil, nil, errors.Join(err, s.admin.Close(), stop())
	}
	return s, func() error { return errors.Join(s.admin.Close(), stop()) }, nil
}

// awaitUp returns when the server answers, or when it has taken too long.
func (s *store) awaitUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisUp)
	defer cancel()
	for {
		err := redisconn.Ready(ctx, s.admin)
		if err == nil {
			return redisconn.CheckVersion(ctx, s.admin)
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// freePort returns a port of loopback on which no process listens. It is below the ports that
// systems give to outgoing connections: one of those could take it before the server does.
func freePort(ctx context.Context) (string, error) {
	const from, below = 20_000, 32_000
	for {
		port := strconv.Itoa(from + rand.IntN(below-from))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
		case err != nil:
			return "", fmt.Errorf("find a free port: %w", err)
		default:
			return port, listener.Close()
		}
	}
}

func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // it was only read
	var last string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		last = lines.Text()
	}
	return last
}
