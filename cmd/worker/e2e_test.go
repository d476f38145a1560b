package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
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

	"github.com/hibiken/asynq"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// recovery is how long a run may take if one of its workers was killed, or Redis has lost the end
// of an execution: its rows are due again after [ledger.ExecutionLimit]. A worker searches for a
// template whose request was lost after a minute at the earliest.
const recovery = ledger.ExecutionLimit + 2*time.Minute

// fleet is a tenant, a Redis, and the built commands with their settings.
type fleet struct {
	desk
	box     *sandbox.Sandbox
	dir     string
	env     map[string]string
	forgets bool // Redis may lose writes: a producer may find its run missing, and end
}

// inProcesses skips the test without a real Redis, which the processes share.
func inProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("processes of their own need a Redis of their own: set " + redistest.EnvURL)
	}
	redistest.NeedsLong(t, "builds the commands, and waits for a killed worker's tasks")
}

// assemble returns a fleet with a tenant without a rate limit, on the test's Redis.
func assemble(t *testing.T) *fleet {
	t.Helper()
	inProcesses(t)
	return assembleOn(newDesk(t), redistest.URL(t))
}

// assembleOn is like assemble, with the Redis of a desk, which has that URL.
func assembleOn(d desk, url string) *fleet {
	d.t.Helper()
	return newFleet(d, startBox(d.t, sandbox.Options{}), url, nil)
}

// newFleet builds the commands, for a tenant and a Redis, with more settings.
func newFleet(d desk, box *sandbox.Sandbox, url string, with map[string]string) *fleet {
	t := d.t
	t.Helper()
	dir, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{desk: d, box: box, dir: t.TempDir(), env: pointedAt(box, url, map[string]string{
		"ORGOPS_NO_WORKER_YET": "true", "ORGOPS_HTTP_ADDR": "127.0.0.1:0", "ORGOPS_PROBE_ADDR": "127.0.0.1:0"})}
	maps.Copy(f.env, with)
	for _, name := range []string{"worker", "enqueue"} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// commands builds the commands once for all tests, and returns their directory, which
// [leakless.Run] removes.
var commands = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "orgops-commands-"); err != nil {
		return "", err
	}
	commandsDir.Store(&dir)
	build := exec.CommandContext(context.Background(), "go", "build", "-o", dir,
		"orgops/cmd/worker", "orgops/cmd/enqueue")
	build.Env = withoutC()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

// withoutC is the environment of a build of commands: the race detector needs C for these tests,
// and with C all packages would be compiled once more.
func withoutC() []string { return append(os.Environ(), "CGO_ENABLED=0") }

// commandsDir is the directory of the built commands; nil: none were built.
var commandsDir atomic.Pointer[string]

// command returns one of the built commands. Its stderr is appended to the log of that name.
func (f *fleet) command(name, program string, args ...string) *exec.Cmd {
	f.t.Helper()
	log, err := os.OpenFile(f.logOf(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = log.Close() })
	cmd := f.program(program, args...)
	cmd.Stderr = log
	return cmd
}

// program returns one of the built programs, with the fleet's settings.
func (f *fleet) program(program string, args ...string) *exec.Cmd {
	// The test's context ends before its cleanup, which needs an order.
	cmd := exec.CommandContext(context.WithoutCancel(f.t.Context()), filepath.Join(f.dir, program), args...)
	cmd.Env = environ(f.env)
	return cmd
}

func (f *fleet) logOf(name string) string { return filepath.Join(f.dir, name+".log") }

// log returns the lines that the named process has logged so far.
func (f *fleet) log(name string) []map[string]any {
	f.t.Helper()
	text, err := os.ReadFile(f.logOf(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return logLines(string(text))
}

// worker is a running worker.
type running struct {
	fleet *fleet
	cmd   *exec.Cmd
	ended chan error
}

// work starts a worker. A former one of the same name must have ended.
func (f *fleet) work(name string) *running {
	f.t.Helper()
	return f.start(name, "worker")
}

// start is like work, with a program of the fleet's directory, which may be of another
// version.
func (f *fleet) start(name, program string) *running {
	f.t.Helper()
	started := func() (n int) {
		for _, line := range f.log(name) {
			if line["msg"] == "worker started" {
				n++
			}
		}
		return n
	}
	r := &running{f, f.command(name, program), make(chan error, 1)}
	before := started()
	if err := r.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	f.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended //nolint:errcheck // it was killed
		if f.t.Failed() {
			lines := f.log(name)
			for _, line := range lines[max(0, len(lines)-20):] {
				f.t.Logf("%s: %v", name, line)
			}
		}
	})
	await(f.t, "the start of worker "+name, func() bool { return started() > before })
	return r
}

// wait waits for the worker to end. It returns nil if the status is 0.
func (r *running) wait(most time.Duration) error {
	r.fleet.t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(most):
		r.fleet.t.Fatalf("the worker did not end within %v", most)
	}
	return nil
}

func (r *running) signal(s os.Signal) {
	r.fleet.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.fleet.t.Fatal(err)
	}
}

// submission is a run as it is entered, and the file that it reads.
type submission struct {
	run, file string
	command   []string
}

var submissions = []submission{
	{"domains", "domains.csv", []string{"domains", "verify"}},
	{"updates", "updates.csv", []string{"domains", "update", "--max", strconv.Itoa(updatesMax)}},
	{"clients", "clients.csv", []string{"clients", "remove"}},
	{"templates", "templates.jsonl", []string{"templates", "create"}},
}

// enqueueAll submits rows of every kind concurrently. The returned function waits until all
// are submitted.
func (f *fleet) enqueueAll(rows int) (wait func()) {
	f.t.Helper()
	return f.enqueue(rows, submissions...)
}

// enqueue is like enqueueAll, for some submissions.
func (f *fleet) enqueue(rows int, submissions ...submission) (wait func()) {
	f.t.Helper()
	var all sync.WaitGroup
	for _, s := range submissions {
		write(f.t, filepath.Join(f.dir, s.file), string(seed(f.box, s.file, rows)))
		cmd := f.command("enqueue", "enqueue", append(slices.Clone(s.command), "--run", s.run,
			filepath.Join(f.dir, s.file))...)
		all.Go(func() {
			out, err := cmd.Output()
			if err != nil && f.forgets {
				f.t.Logf("enqueue %s: %v", s.run, err)
			} else if err != nil || string(out) != s.run+"\n" {
				f.t.Errorf("enqueue %s: %v, stdout %q; stderr in %s", s.run, err, out, f.logOf("enqueue"))
			}
		})
	}
	f.t.Cleanup(all.Wait)
	return all.Wait
}

// seed adds the objects of n rows of a file to the tenant, and returns the rows.
func seed(box *sandbox.Sandbox, file string, n int) []byte {
	return map[string]func(int) []byte{"domains.csv": box.SeedDomains, "updates.csv": box.SeedUpdates,
		"clients.csv": box.SeedClients, "templates.jsonl": box.SeedTemplates}[file](n)
}

// settled counts the settled rows of all runs. A run that does not exist yet counts as zero.
func (f *fleet) settled() (n int64) {
	f.t.Helper()
	for _, s := range submissions {
		r, err := f.ledger.Get(f.t.Context(), "", ledger.RunID(s.run))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			f.t.Fatal(err)
		}
		n += r.Settled()
	}
	return n
}

func (f *fleet) awaitEnds() {
	f.t.Helper()
	for _, s := range submissions {
		awaitFor(f.t, recovery, "the end of run "+s.run, func() bool { return f.run(s.run).Ended() })
	}
}

// stopsWithin is how much longer than the shutdown timeout a worker may take to end on a busy
// machine.
const stopsWithin = 15 * time.Second

// TestSecondSignal has a worker wait for requests that take longer than the test, after SIGTERM: a
// second signal ends it at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	f := assemble(t)
	f.enqueue(10, submissions[1])()
	f.box.AddFault(sandbox.Fault{Latency: 10 * time.Minute})
	f.env["ORGOPS_SHUTDOWN_TIMEOUT"] = "10m"
	one := f.work("one")
	await(t, "tasks in progress", func() bool { return f.active() > 0 })
	one.signal(syscall.SIGTERM)
	await(t, "the beginning of the end", func() bool {
		return slices.ContainsFunc(f.log("one"), func(line map[string]any) bool {
			return strings.HasPrefix(fmt.Sprint(line["msg"]), "worker stopping")
		})
	})
	// The worker may log that before it has given up catching signals.
	await(t, "the end by another signal", func() bool {
		_ = one.cmd.Process.Signal(syscall.SIGTERM)
		return len(one.ended) > 0
	})
	if err := one.wait(stopsWithin); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the worker ended with %v, want it to end by the second signal", err)
	}
}

// active counts the tasks that workers have taken up.
func (f *fleet) active() (n int) {
	f.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(f.redis)
	queues, err := inspector.Queues()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, queue := range queues {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			f.t.Fatal(err)
		}
		n += info.Active
	}
	return n
}

func (f *fleet) state() sandbox.State {
	f.t.Helper()
	_, body := fetch(f.t, http.MethodGet, f.box.AuthURL()+"/_sandbox/state", "")
	var s sandbox.State
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// settledOnce checks that no worker logged that it settled a row which another had settled.
func (f *fleet) settledOnce(names ...string) {
	f.t.Helper()
	times := map[string]int{}
	for _, name := range names {
		for _, line := range f.log(name) {
			if line["msg"] == "task" && (line["outcome"] == "done" || line["outcome"] == "unchanged") {
				times[fmt.Sprint(line["task_id"])]++
			}
		}
	}
	for task, n := range times {
		if n > 1 {
			f.t.Errorf("task %s was settled %d times", task, n)
		}
	}
}
