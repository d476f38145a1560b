package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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

func (l idleLoad) check() error {
	if l.Tenants < 1 || l.Workers < 1 || l.Seconds < 1 || l.Settle < 0 {
		return fmt.Errorf("tenants, workers, seconds: want 1 or more of each, got %d, %d and %d; settle %s", l.Tenants,
			l.Workers, l.Seconds, l.Settle)
	}
	return nil
}

// Aims of idle.
const (
	aimCommands    = 1  // a second, of a pair of tenant and worker
	aimConnections = 20 // of a worker with 30 tenants
	aimRedisShare  = 5  // percent of a core, with 100 tenants and 4 workers
	// With 1,000 tenants:
	aimMemory = 300 // MB, of a worker
	aimProbe  = 1.0 // seconds, of metrics and readiness
	aimPage   = 0.5 // seconds
)

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
	about
}

// idlePage is a page of a worker, or its metrics or readiness, and how long it takes from the
// request to the last byte, in seconds.
type idlePage struct {
	Path   string  `json:"path"`
	Aim    float64 `json:"aim"`
	First  float64 `json:"first_seconds"`
	Again  float64 `json:"again_seconds"`
	Status int     `json:"status"` // of the second request
}

// measureIdle runs workers for tenants that have no work, each a process as it is shipped.
func measureIdle(ctx context.Context, s *store, l idleLoad, out *report, stderr io.Writer) error {
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
		return out.idle(r)
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
	pages := []idlePage{{Path: "/metrics", Aim: aimProbe}, {Path: "/readyz", Aim: aimProbe}, {Path: "/", Aim: aimPage},
		{Path: "/runs", Aim: aimPage}, {Path: "/tenants", Aim: aimPage}}
	for i := range pages {
		p, at := &pages[i], w.pages
		if p.Aim == aimProbe {
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

// connections is how many clients use the database: a server of several databases has others.
func (s *store) connections(ctx context.Context) (n int, err error) {
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return 0, err
	}
	list, err := s.admin.ClientList(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("CLIENT LIST: %w", err)
	}
	for line := range strings.Lines(list) {
		if slices.Contains(strings.Fields(line), fmt.Sprintf("db=%d", options.DB)) {
			n++
		}
	}
	return n, nil
}

// commands is how many commands clients send to the database within that time, and how many
// scripts execute in it. MONITOR reports those of all databases, as
// +1700000000.123456 [0 127.0.0.1:4711] "get" "key", and with the word lua as the address those
// inside of scripts.
func (s *store) commands(ctx context.Context, d time.Duration) (sent, scripted int, err error) {
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return 0, 0, err
	}
	conn, err := monitor(ctx, options)
	if err != nil {
		return 0, 0, fmt.Errorf("MONITOR: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return 0, 0, err
	}
	database := strconv.Itoa(options.DB)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-") {
			return 0, 0, fmt.Errorf("MONITOR: %s", line)
		}
		_, line, _ = strings.Cut(line, " [")
		in, line, _ := strings.Cut(line, " ")
		from, _, ok := strings.Cut(line, `] "`)
		switch {
		case !ok || in != database:
		case from == "lua":
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

// monitor opens a connection that reports all commands. go-redis' own is experimental, and
// keeps a core busy.
func monitor(ctx context.Context, options *redis.Options) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", options.Addr)
	if err != nil {
		return nil, err
	}
	if options.TLSConfig != nil {
		conn = tls.Client(conn, options.TLSConfig)
	}
	commands := "MONITOR\r\n"
	if options.Password != "" {
		commands = fmt.Sprintf("AUTH %q %q\r\n", cmp.Or(options.Username, "default"), options.Password) + commands
	}
	if _, err := io.WriteString(conn, commands); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (r *report) idle(result idleResult) error {
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	fmt.Fprintf(r.out, `
idle: %d workers of %d tenants each, without work
  commands a second, of a tenant and worker  %8.1f  (aim: %d)
    with those inside of scripts             %8.1f
  connections of a worker                    %8.1f  (aim for 30 tenants: %d)
  share of a core, Redis                     %7.1f%%  (aim for 100 tenants, 4 workers: %d%%)
  share of a core, a worker                  %7.1f%%
`, result.Workers, result.Tenants, result.Commands, aimCommands, result.All, result.Connections, aimConnections,
		result.Redis, aimRedisShare, result.Worker)
	for _, p := range result.Pages {
		fmt.Fprintf(r.out, "  %-8s first, again: seconds       %7.3f  %7.3f  (aim for 1,000 tenants: %g), status %d\n",
			p.Path, p.First, p.Again, p.Aim, p.Status)
	}
	_, err := fmt.Fprintf(r.out, `  memory of a worker after that              %5.0f MB  (aim for 1,000 tenants: %d)
  seconds from SIGTERM to its end            %8.2f  (aim: %d, the default --shutdown-timeout)
`, result.Memory, aimMemory, result.Stop, int(shutdownTimeout.Seconds()))
	return err
}
