package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// idleLoad is how many tenants without work are served.
type idleLoad struct {
	Tenants int `noenv:"true" default:"30" help:"Tenants of each worker."`
	Workers int `noenv:"true" default:"1" help:"Workers, each of which serves all tenants."`
	Seconds int `noenv:"true" default:"20" help:"How long is measured."`
	// Settle is long enough that what workers do at their start is over, and that
	// connections which nothing uses are closed.
	Settle time.Duration `noenv:"true" default:"1m" help:"How long workers run before that."`
}

// idleResult is the cost of tenants without work.
type idleResult struct {
	Benchmark string `json:"benchmark"` // "idle"
	Tenants   int    `json:"tenants"`
	Workers   int    `json:"workers"`
	// Commands is a second for each pair of tenant and worker, as clients send them, and All
	// with those inside of scripts.
	Commands float64 `json:"commands_per_second"`
	All      float64 `json:"commands_per_second_with_scripts"`
	// Connections are those of one worker.
	Connections float64 `json:"connections"`
	// Redis and Worker are the shares of a core, in percent; Worker is that of one worker.
	Redis  float64 `json:"redis_cpu_percent"`
	Worker float64 `json:"worker_cpu_percent"`
	// Memory is the most that a worker has taken, also for its pages.
	Memory float64    `json:"worker_memory_mb"`
	Pages  []idlePage `json:"pages"` // of one worker
	// Stop is the longest time from SIGTERM to the end of a worker.
	Stop float64 `json:"stop_seconds"`
}

// idlePage is a page of a worker, or its metrics or readiness, and how long it takes from the
// request to the last byte, in seconds.
type idlePage struct {
	Path   string  `json:"path"`
	First  float64 `json:"first_seconds"`
	Again  float64 `json:"again_seconds"`
	Status int     `json:"status"` // of the second request
}

// measureIdle runs workers for tenants that have no work, each a process as it is shipped.
func measureIdle(ctx context.Context, s *store, l idleLoad, out, stderr io.Writer) error {
	return withTenant(ctx, s, stderr, func(t *tenant) (err error) {
		before, err := s.connections(ctx)
		if err != nil {
			return err
		}
		workers, err := startFleet(ctx, s, l.Workers, l.served(t))
		defer func() { err = errors.Join(err, workers.close()) }()
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%d workers of %d tenants each, measured after %s for %d s\n", l.Workers,
			l.Tenants, l.Settle, l.Seconds)
		if err := pause(ctx, l.Settle); err != nil {
			return err
		}
		r, err := l.measure(ctx, s, workers)
		if err != nil {
			return errors.Join(err, workers.said())
		}
		after, err := s.connections(ctx)
		if err != nil {
			return err
		}
		r.Connections = float64(after-before) / float64(l.Workers)
		if r.Pages, err = pagesOf(ctx, workers[0]); err != nil {
			return errors.Join(err, workers.said())
		}
		for _, w := range workers {
			began := time.Now()
			if err := w.stop(); err != nil {
				return errors.Join(err, w.said())
			}
			r.Stop = max(r.Stop, time.Since(began).Seconds())
			r.Memory = max(r.Memory, float64(w.peak)/(1<<20))
		}
		return write(out, r)
	})
}

// served returns as many members of a file of tenants, which are all the same sandbox.
func (l idleLoad) served(t *tenant) (all []served) {
	for i := range l.Tenants {
		all = append(all, served{tenant: t, name: tenantNumber(i), rate: 1000, burst: 1000})
	}
	return all
}

func tenantNumber(i int) string { return fmt.Sprintf("tenant-%d", i) }

// measure counts what the workers ask Redis for, and the processor time of both.
func (l idleLoad) measure(ctx context.Context, s *store, workers []*shipped) (idleResult, error) {
	seconds := float64(l.Seconds)
	pairs := float64(l.Tenants * l.Workers)
	r := idleResult{Benchmark: "idle", Tenants: l.Tenants, Workers: l.Workers}
	redisCPU, workerCPU := s.cpu(ctx), cpuOf(workers)
	if err := pause(ctx, time.Duration(l.Seconds)*time.Second); err != nil {
		return r, err
	}
	r.Redis = 100 * (s.cpu(ctx) - redisCPU).Seconds() / seconds
	r.Worker = 100 * (cpuOf(workers) - workerCPU).Seconds() / seconds / float64(l.Workers)
	// Apart from the rest: MONITOR costs Redis some time.
	sent, scripted, err := s.commands(ctx, time.Duration(l.Seconds)*time.Second)
	r.Commands = float64(sent) / seconds / pairs
	r.All = float64(sent+scripted) / seconds / pairs
	return r, err
}

// pagesOf reads the pages of a worker, each twice: parts of them are cached for a while.
func pagesOf(ctx context.Context, w *shipped) ([]idlePage, error) {
	pages := []idlePage{{Path: "/metrics"}, {Path: "/readyz"}, {Path: "/"}, {Path: "/runs"}, {Path: "/tenants"}}
	for i := range pages {
		p, at := &pages[i], w.pages
		if i < 2 {
			at = w.probes
		}
		for _, took := range []*float64{&p.First, &p.Again} {
			_, status, d, err := get(ctx, at+p.Path)
			if err != nil {
				return nil, err
			}
			p.Status, *took = status, d.Seconds()
		}
	}
	return pages, nil
}

// cpuOf is the processor time that the running workers have used so far.
func cpuOf(workers []*shipped) (all time.Duration) {
	for _, w := range workers {
		all += processCPU(w.process.Process.Pid)
	}
	return all
}

// connections is how many clients Redis has.
func (s *store) connections(ctx context.Context) (int, error) {
	list, err := s.admin.ClientList(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("CLIENT LIST: %w", err)
	}
	return strings.Count(list, "\n"), nil
}

// commands is how many commands clients send to Redis within that time, and how many scripts
// execute in it. MONITOR reports them as +1700000000.123456 [0 127.0.0.1:4711] "get" "key", and
// with the word lua as the address those inside of scripts. The one of go-redis is experimental,
// and keeps a core busy.
func (s *store) commands(ctx context.Context, d time.Duration) (sent, scripted int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return 0, 0, fmt.Errorf("MONITOR: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = io.WriteString(conn, "MONITOR\r\n")
	if err = errors.Join(err, conn.SetReadDeadline(time.Now().Add(d))); err != nil {
		return 0, 0, fmt.Errorf("MONITOR: %w", err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		from, _, ok := strings.Cut(lines.Text(), `] "`)
		switch {
		case !ok:
		case strings.HasSuffix(from, " lua"):
			scripted++
		default:
			sent++
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, 0, fmt.Errorf("MONITOR: %w", err)
	}
	return sent, scripted, nil
}
