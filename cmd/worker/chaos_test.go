package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

const (
	chaosWorkers = 3
	clockTime    = "15:04:05.000"
	// chaosRate and chaosBurst are the tenant's limit. It is so low that it is exhausted most
	// of the time: a request without a permit exceeds it. The workers leave a fifth of it to
	// other clients. Delayed requests may coincide with later ones.
	chaosRate  = 30
	chaosBurst = 25
	chaosUse   = 0.8
	chaosLate  = 8
	// chaosEnds is how long the work may take once there are no more faults: a row whose
	// answer was lost waits for a minute, and after several attempts minutes more.
	chaosEnds = 10 * time.Minute
	// chaosRecovers is the longest time from a fault to the next settled row.
	chaosRecovers = 3 * time.Minute
)

// chaos is a fleet, its work and its faults.
type chaos struct {
	*fleet

	seed     uint64
	guarded  *guarded            // nil with Sentinel
	servers  []*redistest.Server // with Sentinel the master and its replica, which change places
	sentinel *redis.Client       // nil without
	producer *fleet              // with the settings of a producer
	inbound  *link               // from the producers to Redis; nil with Sentinel
	front    string              // address of the API for all workers
	starting sync.Mutex          // guards workers while they are started
	workers  []*chaosWorker
	forgets  bool // Redis may lose its last second

	mu       sync.Mutex
	ids      atomic.Int64 // of runs
	jobs     []*job
	progress time.Time         // when a row was last seen to settle
	commands map[string]int    // by command and exit status
	messages map[string]string // of commands that failed

	swept     map[string]*sweptDomain // by organization and id
	sweptOrgs []*sweptOrganization
	lists     map[string][]sandbox.Request // of the domains of an organization
	faults    []disturbance
	held      []heldBack
	stops     []span // while an operator had stopped the tenant
	lost      int
	doubled   int
	wrong     int
	repeated  int            // PATCHes and removals that were repeated after a fault
	done      map[string]int // how often something was done that only some runs have
}

type span struct{ from, to time.Time }

func (s span) overlaps(from, to time.Time) bool { return s.from.Before(to) && from.Before(s.to) }

// disturbance is a past fault.
type disturbance struct {
	kind string
	span
	recovery time.Duration // from its end until a row settled
}

// heldBack are requests that got their permits before at, and may arrive together after it.
type heldBack struct {
	at time.Time
	n  int
}

// TestChaos has three workers execute a stream of work during random faults, and compares
// ledger, request log and the tenant's state. ORGOPS_TEST_CHAOS is its duration.
// ORGOPS_TEST_SEED repeats a sequence of faults. One seed in three has a Redis that loses its
// last second, and one a Sentinel.
func TestChaos(t *testing.T) {
	text := os.Getenv("ORGOPS_TEST_CHAOS")
	if text == "" {
		t.Skip("set ORGOPS_TEST_CHAOS to a duration, such as 2m")
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	c := newChaos(t, chaosSeed(t))
	ctx, cancel := context.WithCancel(t.Context())
	var doing, watching sync.WaitGroup
	stop := func() {
		cancel()
		doing.Wait()
		watching.Wait()
	}
	defer stop() // also if the test fails
	doing.Go(func() { c.stream(ctx) })
	doing.Go(func() { c.typeCommands(ctx) })
	watching.Go(func() { c.watch(ctx) })
	await(t, "the first rows, and all workers", func() bool { // one that starts without Redis ends
		sessions, err := c.ledger.Sessions(t.Context())
		return err == nil && len(sessions) == len(c.workers) && !c.progressed().IsZero()
	})
	c.disturb(time.Now().Add(length))
	t.Log("all faults are lifted")
	stop()
	c.finish()
	c.compareAll()
	c.report()
}

func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is a seed
	if text := os.Getenv("ORGOPS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ORGOPS_TEST_SEED=%d", seed)
	return seed
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	// A name may be taken twice, and is to be taken once all the same, unless Redis may forget
	// the intent of a POST.
	box := startBox(t, sandbox.Options{Remember: 2_000_000, RepeatTemplateNames: seed%3 == 0})
	c := &chaos{seed: seed, commands: map[string]int{}, messages: map[string]string{}, swept: map[string]*sweptDomain{},
		lists: map[string][]sandbox.Request{}, done: map[string]int{}}
	env := map[string]string{"ORGOPS_RATE": fmt.Sprintf("%d/s", chaosRate), "ORGOPS_BURST": fmt.Sprint(chaosBurst),
		"ORGOPS_HTTP_ADDR": "off", "ORGOPS_PROBE_ADDR": "off"}
	maps.Copy(env, sweepSettings())
	if seed%3 == 2 {
		c.startSentinel(t, box, env)
	} else {
		c.forgets = seed%3 == 1
		c.startSingle(t, box, env)
	}
	return c
}

func (c *chaos) startSentinel(t *testing.T, box *sandbox.Sandbox, env map[string]string) {
	t.Helper()
	master, replica, sentinel := startWatched(t)
	url := watchedBy(sentinel)
	c.sentinel, c.servers = sentinel.Client(), []*redistest.Server{master, replica}
	c.fleet = newFleet(outlasting(t, url), box, url, env)
	c.producer = c.with(nil)
	for i := range chaosWorkers {
		c.startWorker(i, nil, nil)
	}
}

// startSingle starts a Redis with users, which syncs each write to its file before it answers.
func (c *chaos) startSingle(t *testing.T, box *sandbox.Sandbox, env map[string]string) {
	t.Helper()
	g := startGuarded(t, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
	client := g.client("auditor")
	redisconn.Retry(client, patience, func(error) {})
	c.guarded, c.servers = g, []*redistest.Server{g.server}
	c.fleet = newFleet(desk{t, client, ledger.New(client)}, box, "", env)
	as := func(user string, l *link) map[string]string {
		return map[string]string{"ORGOPS_REDIS_URL": "redis://" + user + "@" + l.addr + "/0",
			"ORGOPS_REDIS_PASSWORD": g.passwords[user]}
	}
	c.inbound = newLink(t, g.server.Addr)
	c.producer = c.with(as("producer", c.inbound))
	for i := range chaosWorkers {
		toRedis := newLink(t, g.server.Addr)
		c.startWorker(i, toRedis, as("worker", toRedis))
	}
}

// with returns the fleet with other settings.
func (f *fleet) with(env map[string]string) *fleet {
	other := *f
	other.env = maps.Clone(f.env)
	maps.Copy(other.env, env)
	return &other
}

// chaosWorker is a worker that is restarted whenever it ends.
type chaosWorker struct {
	*fleet

	name       string
	redis, api *link // redis is nil with Sentinel

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	err   error         // of cmd, once it has ended
	stay  chan struct{} // not nil while the worker must not be restarted; closed when it may
}

// listenForWorkers accepts the connections of all workers to the API at one address, since one
// tenant has one base URL, and forwards each by the API link of its worker.
func (c *chaos) listenForWorkers() {
	c.t.Helper()
	listener, err := new(net.ListenConfig).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.front = listener.Addr().String()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			near := conn.(*net.TCPConn)
			if w := c.workerOf(near); w != nil {
				w.api.carrying.Go(func() { w.api.carry(near) })
			} else {
				reset(near) // it was killed meanwhile
			}
		}
	})
	c.t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
}

// workerOf returns the worker that has opened a connection, by its open files; nil: it has ended.
func (c *chaos) workerOf(conn *net.TCPConn) *chaosWorker {
	socket := socketAtOtherEnd(conn)
	c.starting.Lock()
	defer c.starting.Unlock()
	for _, w := range c.workers {
		w.mu.Lock()
		cmd := w.cmd
		w.mu.Unlock()
		if cmd == nil || socket == "" {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid)
		files, _ := os.ReadDir(dir) // none if it has ended
		for _, file := range files {
			if name, _ := os.Readlink(filepath.Join(dir, file.Name())); name == socket {
				return w
			}
		}
	}
	return nil
}

// socketAtOtherEnd returns the socket of the process that has opened a connection from this
// machine, as the name of an open file; empty: it is closed.
func socketAtOtherEnd(conn *net.TCPConn) string {
	port := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // number, local and remote address, …, inode
		if len(f) > 9 && strings.HasSuffix(f[1], port(conn.RemoteAddr())) && strings.HasSuffix(f[2], port(conn.LocalAddr())) {
			return "socket:[" + f[9] + "]"
		}
	}
	return ""
}

func (c *chaos) startWorker(i int, toRedis *link, env map[string]string) {
	c.t.Helper()
	if c.front == "" {
		c.listenForWorkers()
	}
	api := newLink(c.t, strings.TrimPrefix(c.box.AuthURL(), "http://"))
	base := "http://" + c.front
	w := &chaosWorker{fleet: c.with(env), name: fmt.Sprintf("worker-%d", i), redis: toRedis, api: api}
	w.env["ORGOPS_AUDIENCE"] = w.env["ORGOPS_BASE_URL"] + "/"
	w.env["ORGOPS_BASE_URL"], w.env["ORGOPS_AUTH_URL"] = base+"/api/v2", base
	c.starting.Lock()
	c.workers = append(c.workers, w)
	c.starting.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var keeping sync.WaitGroup
	keeping.Go(func() { w.keep(ctx) })
	c.t.Cleanup(func() {
		cancel()
		keeping.Wait()
		if c.t.Failed() {
			log, _ := os.ReadFile(c.logOf(w.name)) // best effort
			// see go test -artifacts
			_ = os.WriteFile(filepath.Join(c.t.ArtifactDir(), filepath.Base(c.logOf(w.name))), log, 0o600)
		}
	})
}

// keep runs the worker until ctx ends.
func (w *chaosWorker) keep(ctx context.Context) {
	for ctx.Err() == nil {
		cmd, ended := w.command(w.name, "worker"), make(chan struct{})
		if err := cmd.Start(); err != nil {
			w.t.Error(err)
			return
		}
		w.mu.Lock()
		w.cmd, w.ended = cmd, ended
		w.mu.Unlock()
		unhook := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		unhook()
		w.mu.Lock()
		w.err = err
		stay := w.stay
		w.mu.Unlock()
		close(ended)
		if stay == nil {
			if ctx.Err() == nil {
				w.t.Errorf("%s has ended by itself: %v", w.name, err)
			}
			stay = make(chan struct{})
			time.AfterFunc(time.Second, func() { close(stay) })
		}
		select {
		case <-stay:
		case <-ctx.Done():
		}
	}
}

// signal sends a signal. If the worker is to end by it, it is started again at the call of
// the function that is returned.
func (w *chaosWorker) signal(s syscall.Signal) (again func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		stay := make(chan struct{})
		w.stay = stay
		again = func() {
			w.mu.Lock()
			w.stay = nil
			w.mu.Unlock()
			close(stay)
		}
	}
	_ = w.cmd.Process.Signal(s)
	return again
}

// stopped waits until the worker has ended after a SIGTERM.
func (w *chaosWorker) stopped() error {
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	const most = 25 * time.Second // the default of --shutdown-timeout
	select {
	case <-ended:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	case <-time.After(most + stopsWithin):
		return errors.New("it did not end in time")
	}
}

// watch records when rows settle, until faults no longer affect the work.
func (c *chaos) watch(until context.Context) {
	last := map[*job]int64{}
	for until.Err() == nil {
		for _, j := range c.openJobs() {
			r, err := c.get(j.run)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				continue
			}
			if r.Settled() > last[j] {
				c.mu.Lock()
				c.progress = time.Now()
				c.mu.Unlock()
			}
			last[j] = r.Settled()
			j.note(r)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *chaos) progressed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progress
}

// disturb injects faults, one or two at a time, and waits after each for a row that settles.
func (c *chaos) disturb(until time.Time) {
	c.t.Helper()
	draws := rand.New(rand.NewPCG(c.seed, 1))
	for time.Now().Before(until) {
		faults := []fault{c.draw(draws)}
		if second := c.draw(draws); draws.IntN(3) == 0 && second.on != faults[0].on && second.on != theTenant &&
			faults[0].on != theTenant {
			faults = append(faults, second)
		}
		hold, rest := time.Duration(0), time.Duration(500+draws.IntN(2500))*time.Millisecond
		first := len(c.faults)
		for _, f := range faults {
			c.t.Logf("%s: %s", time.Now().Format(clockTime), f)
			c.faults = append(c.faults, disturbance{kind: f.kind, span: span{from: time.Now()}})
			f.begin()
			hold = max(hold, f.hold)
		}
		time.Sleep(hold)
		for _, waits := range []bool{false, true} {
			for _, f := range slices.Backward(faults) {
				if f.waits == waits {
					f.end()
				}
			}
		}
		c.awaitRecovery(first)
		time.Sleep(rest)
	}
}

// awaitRecovery waits until a row settles, and notes how long that takes after the faults from
// first on.
func (c *chaos) awaitRecovery(first int) {
	c.t.Helper()
	end := time.Now()
	for i := range c.faults[first:] {
		c.faults[first+i].to = end
	}
	for !c.progressed().After(end) {
		if time.Since(end) > chaosRecovers {
			c.t.Fatalf("no row has settled for %v after %v", chaosRecovers, c.faults[first:])
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := c.progressed().Sub(end)
	for i := range c.faults[first:] {
		c.faults[first+i].recovery = took
	}
	c.t.Logf("%s: recovered after %v", time.Now().Format(clockTime), took.Round(time.Millisecond))
}

// report prints the seed, rows, faults, errors and recovery times.
func (c *chaos) report() {
	kinds, times := map[string]int{}, []time.Duration{}
	slowest := disturbance{}
	for _, d := range c.faults {
		kinds[d.kind]++
		times = append(times, d.recovery)
		if d.recovery > slowest.recovery {
			slowest = d
		}
	}
	slices.Sort(times)
	rows := 0
	for _, j := range c.jobs {
		rows += j.rows
	}
	world := "one Redis"
	switch {
	case c.guarded == nil:
		world = "Sentinel"
	case c.forgets:
		world = "a Redis that forgets"
	}
	for _, failed := range slices.Sorted(maps.Keys(c.messages)) {
		c.t.Logf("command failed: %s: %s", failed, c.messages[failed])
	}
	c.t.Logf("typed, by exit status: %v; done: %v", c.commands, c.done)
	c.t.Logf(
		"seed %d, %s: %d runs, %d rows, %d requests, %d faults; lost %d, doubled %d, wrong %d, repeated after a fault %d; recovery median %v, longest %v (%s)",
		c.seed, world, len(c.jobs), rows, len(c.box.Requests()), len(c.faults), c.lost, c.doubled, c.wrong, c.repeated,
		times[len(times)/2].Round(time.Millisecond), slowest.recovery.Round(time.Millisecond), slowest.kind)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c.t.Logf("%3d × %s", kinds[kind], kind)
	}
}
