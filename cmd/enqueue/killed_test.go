package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
)

// gate is a proxy to the test's Redis that forwards a limited number of request bytes until it
// is opened. A process whose requests end at a chosen byte can be killed there, independently
// of the machine's load.
type gate struct {
	url      string
	listener net.Listener
	target   string
	carrying sync.WaitGroup
	opened   chan struct{}
	reached  chan struct{}
	over     chan struct{} // closed when the test no longer waits

	mu   sync.Mutex
	seen int64 // bytes of requests
	most int64
}

// newGate makes a gate to the test's Redis that forwards most bytes; 0: all.
func newGate(t *testing.T, most int64) *gate {
	t.Helper()
	return newGateTo(t, redistest.URL(t), most)
}

func newGateTo(t *testing.T, url string, most int64) *gate {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{
		url:      strings.Replace(url, options.Addr, listener.Addr().String(), 1),
		listener: listener, target: options.Addr, most: most,
		opened: make(chan struct{}), reached: make(chan struct{}), over: make(chan struct{}),
	}
	g.carrying.Go(g.accept)
	t.Cleanup(g.close)
	return g
}

func (g *gate) close() {
	select {
	case <-g.over:
		return
	default:
	}
	close(g.over)
	_ = g.listener.Close()
	g.carrying.Wait()
}

func (g *gate) accept() {
	for {
		near, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.carrying.Go(func() { g.carry(near) })
	}
}

func (g *gate) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	var requests sync.WaitGroup
	requests.Go(func() {
		_, _ = io.Copy(far, io.TeeReader(near, g))
		_ = far.Close() // as the death of the process does
	})
	_, _ = io.Copy(near, far)
	_ = near.Close()
	requests.Wait()
}

// Write counts the bytes of requests. The bytes beyond the limit wait; if the gate closes,
// they are never sent, since TeeReader passes nothing on after an error.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	g.seen += int64(len(p))
	shut := g.most > 0 && g.seen > g.most
	if shut && g.seen-int64(len(p)) <= g.most {
		close(g.reached)
	}
	g.mu.Unlock()
	if shut {
		select {
		case <-g.opened:
		case <-g.over:
			return 0, io.ErrClosedPipe
		}
	}
	return len(p), nil
}

func (g *gate) octets() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// producing is the command in a process of its own.
type producing struct {
	cmd         *exec.Cmd
	out, errors logtest.Buffer
}

func produce(t *testing.T, url string, args ...string) *producing {
	t.Helper()
	p := &producing{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), "enqueue", args...)}
	p.cmd.Env = append(os.Environ(), "ORGOPS_REDIS_URL="+url, "ORGOPS_NO_WORKER_YET=true", "GORACE=atexit_sleep_ms=10")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errors
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended if the test succeeded
		_ = p.cmd.Wait()
	})
	return p
}

// ends waits for the command to succeed.
func (p *producing) ends(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil || p.out.String() != "job\n" {
		t.Fatalf("%v, stdout %q, stderr: %s", err, &p.out, &p.errors)
	}
}

const (
	// killings is the number of times that a producer is killed.
	killings = 20
	// patience is how long a test waits for an event: far longer than it takes on a busy
	// machine.
	patience = 2 * time.Minute
)

// outside skips a test of processes without a real Redis, which the processes share.
func outside(t *testing.T) {
	t.Helper()
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("processes of their own need a Redis outside of them: set " + redistest.EnvURL)
	}
	redistest.Single(t, "a gate leads to one")
}

// seeded returns a reproducible random generator.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestKilledAnywhere kills the producer of a file of 100,000 rows with -9 at
// twenty random bytes of its traffic to Redis, submits the file again each
// time, and checks that every row is stored once.
func TestKilledAnywhere(t *testing.T) {
	outside(t)
	redistest.NeedsLong(t, "submits 100,000 rows twenty times")
	const rows = 100_000
	random := seeded(t)
	const sample = rows / 10
	// Few enough that the first kills interrupt the submission: a repeated pass sends
	// little for the rows that are already submitted.
	most := passOf(t, rowFile(t, sample)) * (rows / sample) / 6
	file := rowFile(t, rows)
	job := submitFile(file)
	for deaths := 0; deaths < killings; {
		said, killed := killAt(t, 1+random.Int64N(most), job)
		if !killed { // the file is submitted, and a pass only confirms it
			most = said
			continue
		}
		deaths++
	}
	last := produce(t, redistest.URL(t), job...)
	last.ends(t)
	wantRows(t, ledger.New(redistest.New(t)), rows)
}

// rowFile writes a file with that many rows, ten of each organization.
func rowFile(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range rows {
		fmt.Fprintf(&b, "org_%d,client_%d\n", i/10, i)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.csv", rows))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// submitFile returns the arguments that submit a file as run "job".
func submitFile(file string) []string { return []string{"clients", "remove", "--run", "job", file} }

// passOf returns how many bytes a producer sends to Redis for a file. The rows
// it submitted are deleted.
func passOf(t *testing.T, file string) int64 {
	t.Helper()
	g := newGate(t, 0)
	produce(t, g.url, submitFile(file)...).ends(t)
	g.close()
	redistest.Empty(t)
	return g.octets()
}

// killAt kills a producer with SIGKILL after it has sent that many bytes to Redis, unless it
// succeeds before. It returns the number of bytes sent.
func killAt(t *testing.T, octet int64, args []string) (said int64, killed bool) {
	t.Helper()
	g := newGate(t, octet)
	p := produce(t, g.url, args...)
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case <-g.reached:
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended //nolint:errcheck // it was killed
		killed = true
	case <-time.After(patience):
		t.Fatalf("it never came to byte %d, but to %d", octet, g.octets())
	case err := <-ended:
		if err != nil {
			t.Fatalf("before byte %d, after %d: %v, %s", octet, g.octets(), err, &p.errors)
		}
	}
	g.close()
	return g.octets(), killed
}

// wantRows checks that run "job" was submitted whole, each of its rows once, and that there is no
// other run.
func wantRows(t *testing.T, l *ledger.Ledger, rows int) {
	t.Helper()
	run, err := l.Get(t.Context(), "", "job")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for first := int64(0); first < int64(rows); first += 1000 {
		page, err := l.Contents(t.Context(), run, first, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page {
			seen[string(row)] = true
		}
	}
	all, err := l.Runs(t.Context())
	if err != nil || len(all) != 1 || !run.HasAllRows() || run.Total() != int64(rows) || len(seen) != rows {
		t.Errorf("%d runs, %v; all rows known %t with %d rows, %d of them different: want one run with %d", len(all), err,
			run.HasAllRows(), run.Total(), len(seen), rows)
	}
}

// TestTwoProducersAtOnce submits the same file twice concurrently under the same ID. Each
// producer stops at a random byte until the other has stopped too. The one that began first may
// end with an error, and one of them stores the rows.
func TestTwoProducersAtOnce(t *testing.T) {
	outside(t)
	const rows = 20_000
	random := seeded(t)
	file := rowFile(t, rows)
	// A pass of the same file varies by a third: the first of the concurrent requests
	// each carry a whole script that Redis does not know yet, and a producer sends
	// less about rows that the other has submitted.
	least := passOf(t, file) / 2
	var gates [2]*gate
	var producers [2]*producing
	var ended [2]chan struct{}
	var ends [2]error
	for i := range gates {
		gates[i], ended[i] = newGate(t, 1+random.Int64N(least)), make(chan struct{})
		producers[i] = produce(t, gates[i].url, submitFile(file)...)
		go func() {
			defer close(ended[i])
			ends[i] = producers[i].cmd.Wait()
		}()
	}
	for i, g := range gates {
		select {
		case <-g.reached:
		case <-ended[i]: // it was replaced before
		case <-time.After(patience):
			t.Fatalf("producer %d never came to byte %d, but to %d; it wrote %q", i, g.most, g.octets(), &producers[i].errors)
		}
	}
	for i := range gates {
		close(gates[i].opened)
	}
	replaced := 0
	for i, p := range producers {
		<-ended[i]
		err := ends[i]
		if err != nil && strings.Contains(p.errors.String(), "another submission of the run has begun since") {
			replaced++
		} else if err != nil || p.out.String() != "job\n" {
			t.Fatalf("%v, stdout %q, stderr: %s", err, &p.out, &p.errors)
		}
	}
	if replaced == len(producers) {
		t.Fatal("both producers were replaced")
	}
	wantRows(t, ledger.New(redistest.New(t)), rows)
}

// TestRedisKilledUnderAProducer kills Redis with SIGKILL while rows are submitted, at a random
// byte, and restarts it. The producer continues without help and logs that, and every row is
// submitted once.
func TestRedisKilledUnderAProducer(t *testing.T) {
	outside(t)
	const rows = 20_000
	random := seeded(t)
	file := rowFile(t, rows)
	least := passOf(t, file) / 2
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	g := newGateTo(t, server.URL(), 1+random.Int64N(least))
	p := produce(t, g.url, submitFile(file)...)
	select {
	case <-g.reached:
	case <-time.After(patience):
		t.Fatalf("it never came to byte %d, but to %d", g.most, g.octets())
	}
	server.Kill()
	close(g.opened)
	await(t, "the producer to say that Redis is away",
		func() bool { return strings.Contains(p.errors.String(), "Redis unavailable: retrying") })
	server.Restart()
	p.ends(t)
	wantRows(t, ledger.New(server.Client()), rows)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	for tick := time.Tick(10 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-end:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
