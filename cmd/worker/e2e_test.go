package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// recovery is how long a run may take if one of its workers was killed, or Redis has lost the end
// of an execution: its rows are due again after [ledger.ExecutionLimit]. A worker searches for a
// template whose request was lost after a minute at the earliest.
const recovery = ledger.ExecutionLimit + 2*time.Minute

// fleet is a tenant, a Redis and workers, each in a process of its own.
type fleet struct {
	desk
	dir     string
	env     map[string]string
	authURL string
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

// assemble builds the commands and starts the tenant, on the test's Redis.
func assemble(t *testing.T) *fleet {
	t.Helper()
	inProcesses(t)
	return assembleOn(newDesk(t), redistest.URL(t))
}

// assembleOn is like assemble, but uses the Redis at url and passes the additional arguments
// to the tenant.
func assembleOn(d desk, url string, tenant ...string) *fleet {
	d.t.Helper()
	f := build(d)
	f.startTenant(url, tenant...)
	return f
}

// build makes a fleet of the built commands, for a tenant that is not started yet.
func build(d desk) *fleet {
	t := d.t
	t.Helper()
	dir, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{desk: d, dir: t.TempDir()}
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
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", dir, "orgops/cmd/worker",
		"orgops/cmd/enqueue").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

// commandsDir is the directory of the built commands; nil: none were built.
var commandsDir atomic.Pointer[string]

// startTenant starts `worker sandbox` without a rate limit, and reads the
// settings that it prints.
func (f *fleet) startTenant(redisURL string, args ...string) {
	f.t.Helper()
	cmd := f.command("sandbox", "worker", append([]string{"sandbox", "--rate=0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var lines []string
	for scan := bufio.NewScanner(out); len(lines) < 6 && scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	f.env = settingsOf(lines)
	maps.Copy(f.env, map[string]string{
		"ORGOPS_REDIS_URL": redisURL, "ORGOPS_NO_WORKER_YET": "true", "ORGOPS_RATE": "unlimited",
		"ORGOPS_HTTP_ADDR": "127.0.0.1:0", "ORGOPS_PROBE_ADDR": "127.0.0.1:0",
	})
	f.authURL = f.env["ORGOPS_AUTH_URL"]
	if f.authURL == "" {
		f.t.Fatalf("the sandbox printed %q", lines)
	}
}

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
	{"updates", "updates.csv", []string{"domains", "update"}},
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
	for _, s := range submissions {
		status, body := fetch(f.t, http.MethodGet, fmt.Sprintf("%s/_sandbox/rows/%s?n=%d", f.authURL, s.file, rows), "")
		if status != http.StatusOK {
			f.t.Fatalf("rows: %d %s", status, body)
		}
		write(f.t, filepath.Join(f.dir, s.file), body)
	}
	var all sync.WaitGroup
	for _, s := range submissions {
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

// slow delays each request of the tenant by that many milliseconds before and after its
// execution, so that requests are always in progress and some of them are already executed.
func (f *fleet) slow(before, after int) {
	f.t.Helper()
	f.fault(fmt.Sprintf(`{"latency_ms":%d,"answer_latency_ms":%d}`, before, after))
}

// fault adds a fault to the tenant, see [sandbox.FaultRequest].
func (f *fleet) fault(body string) {
	f.t.Helper()
	if status, answer := fetch(f.t, http.MethodPost, f.authURL+"/_sandbox/faults", body); status != http.StatusCreated {
		f.t.Fatalf("faults: %d %s", status, answer)
	}
}

// quick removes the delays of the tenant.
func (f *fleet) quick() {
	f.t.Helper()
	if status, answer := fetch(f.t, http.MethodDelete, f.authURL+"/_sandbox/faults", ""); status/100 != 2 {
		f.t.Fatalf("faults: %d %s", status, answer)
	}
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

// killedAt lists the percentages of settled rows at which a worker is killed: early, amid
// checks and updates, and late, amid confirmations and templates.
var killedAt = []int64{30, 75}

// TestFleet has two workers execute 2,000 rows of every kind. It kills one of them in the
// middle, twice, and restarts it. It compares the ledger with the requests that the tenant
// received, row by row.
func TestFleet(t *testing.T) {
	t.Parallel()
	const rows = 2000
	f := assemble(t)
	f.slow(20, 30)
	one := f.work("one")
	other := f.work("other")
	handedIn := f.enqueueAll(rows)
	all := int64(len(submissions) * rows)
	for _, percent := range killedAt {
		await(t, fmt.Sprintf("%d %% of the rows", percent), func() bool { return f.settled() > all*percent/100 })
		one.signal(syscall.SIGKILL)
		_ = one.wait(patience) // killed
		if f.settled() == all {
			t.Error("all was done before the worker was killed: the test shows nothing")
		}
		one = f.work("one")
	}
	handedIn()
	f.awaitEnds()
	for _, r := range []*running{one, other} {
		r.signal(syscall.SIGTERM)
		if err := r.wait(patience); err != nil {
			t.Errorf("a worker without work ended with %v", err)
		}
	}
	// The killed worker's rows in progress were repeated: at most as many as it runs at a
	// time.
	f.compare(rows, apiTasks*len(killedAt))
	f.shared("one", "other")
}

// apiTasks is how many tasks that send requests a worker runs at a time if the rate is not
// limited.
const apiTasks = 100

// stopsWithin is how much longer than the shutdown timeout a worker may take to end on a busy
// machine.
const stopsWithin = 15 * time.Second

// TestSecondSignal has a worker wait for requests that take longer than the test, after SIGTERM: a
// second signal ends it at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	f := assemble(t)
	f.enqueue(10, submissions[1])()
	f.slow(600_000, 0)
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

// compare compares the ledger with the tenant and its request log. again is the number of
// requests that may have been repeated.
func (f *fleet) compare(rows, again int) {
	f.t.Helper()
	log, state := f.requests(), f.state()
	f.compareDomains(rows, again, log, state)
	f.compareUpdates(rows, again, log, state)
	f.compareClients(rows, again, log, state)
	f.compareTemplates(rows, "done", log, state)
	f.settledOnce("one", "other")
}

func (f *fleet) requests() []sandbox.Request {
	f.t.Helper()
	_, body := fetch(f.t, http.MethodGet, f.authURL+"/_sandbox/requests", "")
	var all []sandbox.Request
	for line := range strings.Lines(body) {
		var r sandbox.Request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			f.t.Fatal(err)
		}
		if r.Handled { // false if the caller's death cancelled the request
			all = append(all, r)
		}
	}
	return all
}

func (f *fleet) state() sandbox.State {
	f.t.Helper()
	_, body := fetch(f.t, http.MethodGet, f.authURL+"/_sandbox/state", "")
	var s sandbox.State
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// outcomes returns the results of a run's rows, in order. Counts, rows and results must agree.
func (f *fleet) outcomes(id string, rows int) []ledger.Result {
	f.t.Helper()
	fates := make([]ledger.Result, rows)
	for i := range fates {
		fates[i] = ledger.Result{Outcome: ledger.Done}
	}
	for row, err := range f.ledger.Each(f.t.Context(), f.run(id), ledger.WithResult, 0) {
		if err != nil {
			f.t.Fatal(err)
		}
		fates[row.Item] = row.Result
	}
	counts := ledger.Counts{}
	for _, fate := range fates {
		counts[fate.Outcome]++
	}
	r := f.run(id)
	if diff := cmp.Diff(r.Counts, counts); diff != "" || r.Total() != int64(rows) || r.Settled() != r.Total() {
		f.t.Errorf("run %s: %d rows, %d settled, want %d; (-counts +rows):\n%s", id, r.Total(), r.Settled(), rows, diff)
	}
	return fates
}

// rowsOf returns the file's rows below its header.
func (f *fleet) rowsOf(file string) [][]string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		f.t.Fatal(err)
	}
	return rows[1:]
}

// asked returns the successful requests of an operation, by domain.
func asked(log []sandbox.Request, operation string) map[string][]sandbox.Request {
	by := map[string][]sandbox.Request{}
	for _, r := range log {
		if r.Operation == operation && r.Status == http.StatusOK {
			by[r.Organization+" "+r.Domain] = append(by[r.Organization+" "+r.Domain], r)
		}
	}
	return by
}

func domainsOf(s sandbox.State) map[string]sandbox.Domain {
	by := map[string]sandbox.Domain{}
	for organization, all := range s.Domains {
		for _, d := range all {
			by[organization+" "+d.ID] = d
		}
	}
	return by
}

// compareDomains checks that each domain is verified, and was read before its PATCH.
func (f *fleet) compareDomains(rows, again int, log []sandbox.Request, state sandbox.State) {
	f.t.Helper()
	reads, patches, domains := asked(log, sandbox.OpGetDiscoveryDomain),
		asked(log, sandbox.OpUpdateDiscoveryDomain), domainsOf(state)
	fates, extra := f.outcomes("domains", rows), 0
	for i, row := range f.rowsOf("domains.csv") {
		key := row[0] + " " + row[1]
		d := domains[key]
		if fates[i].Outcome != "done" || d.Status != "verified" || d.Use == nil || !*d.Use {
			f.t.Errorf("row %d (%s) is %s (%s), the domain %s", i, key, fates[i].Outcome, fates[i].Detail, d.Status)
		}
		extra += len(patches[key]) - 1
		var last int64
		for _, p := range patches[key] {
			if p.Body != `{"status":"verified","use_for_organization_discovery":true}` {
				f.t.Errorf("row %d (%s): PATCHed with %s", i, key, p.Body)
			}
			read := slices.ContainsFunc(reads[key], func(r sandbox.Request) bool { return r.Seq > last && r.Seq < p.Seq })
			if !read {
				f.t.Errorf("row %d (%s): PATCHed by request %d without a GET since request %d", i, key, p.Seq, last)
			}
			last = p.Seq
		}
		if len(patches[key]) == 0 {
			f.t.Errorf("row %d (%s) was never PATCHed", i, key)
		}
	}
	f.few("domains", extra, again)
}

func (f *fleet) few(run string, extra, again int) {
	f.t.Helper()
	if extra < 0 || extra > again {
		f.t.Errorf("run %s: %d requests more than rows, want at most %d", run, extra, again)
	}
	f.t.Logf("run %s: %d requests were made again", run, extra)
}

// compareUpdates checks that each domain is as its row requests. A row whose worker was killed
// after the PATCH is unchanged.
func (f *fleet) compareUpdates(rows, again int, log []sandbox.Request, state sandbox.State) {
	f.t.Helper()
	patches, domains := asked(log, sandbox.OpUpdateDiscoveryDomain), domainsOf(state)
	fates, extra, unchanged := f.outcomes("updates", rows), 0, 0
	for i, row := range f.rowsOf("updates.csv") {
		key := row[0] + " " + row[1]
		status, use := "verified", "true"
		if row[2] != "" {
			status = row[2]
		}
		if row[3] != "" {
			use = row[3]
		}
		d := domains[key]
		if d.Status != status || d.Use == nil || fmt.Sprint(*d.Use) != use {
			f.t.Errorf("row %d (%s) asks for %q %q, the domain is %+v", i, key, row[2], row[3], d)
		}
		switch fates[i].Outcome {
		case "done":
		case "unchanged":
			unchanged++
		default:
			f.t.Errorf("row %d (%s) is %s: %s", i, key, fates[i].Outcome, fates[i].Detail)
		}
		if len(patches[key]) == 0 {
			f.t.Errorf("row %d (%s) was never PATCHed", i, key)
		}
		extra += len(patches[key]) - 1
	}
	f.few("updates", extra+unchanged, again)
}

// compareClients checks that each client is removed, by a DELETE that named it.
func (f *fleet) compareClients(rows, again int, log []sandbox.Request, state sandbox.State) {
	f.t.Helper()
	removed := map[string]int{}
	requests, twice := 0, 0
	for _, r := range log {
		if r.Operation != sandbox.OpRemoveOrganizationClients || r.Status != http.StatusNoContent {
			continue
		}
		requests++
		for _, client := range r.Clients {
			removed[r.Organization+" "+client]++
		}
		if removed[r.Organization+" "+r.Clients[0]] > 1 {
			twice++
		}
	}
	// Rows that a worker gave back make batches with others than before.
	if most := 2*rows/100 + again; requests > most {
		f.t.Errorf("run clients: %d requests for %d rows, want at most %d", requests, rows, most)
	}
	fates := f.outcomes("clients", rows)
	for i, row := range f.rowsOf("clients.csv") {
		if fates[i].Outcome != "done" || removed[row[0]+" "+row[1]] == 0 || slices.Contains(state.Clients[row[0]], row[1]) {
			f.t.Errorf("row %d (%s %s) is %s (%s), named by %d requests", i, row[0], row[1], fates[i].Outcome, fates[i].Detail,
				removed[row[0]+" "+row[1]])
		}
	}
	f.few("clients", twice, again)
}

// compareTemplates checks that each row has one template, which was created once, has the ID
// in the ledger, and has one of outcomes.
func (f *fleet) compareTemplates(rows int, outcomes string, log []sandbox.Request, state sandbox.State) {
	f.t.Helper()
	type named struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	there := map[string][]string{} // ids by name
	for _, record := range state.Templates {
		var n named
		if err := json.Unmarshal(record, &n); err != nil {
			f.t.Fatal(err)
		}
		there[n.Name] = append(there[n.Name], n.ID)
	}
	created := map[string]int{}
	for _, r := range log {
		if r.Operation == sandbox.OpCreateTemplate && r.Status == http.StatusCreated {
			created[r.Template]++
		}
	}
	text, err := os.ReadFile(filepath.Join(f.dir, "templates.jsonl"))
	if err != nil {
		f.t.Fatal(err)
	}
	fates, i := f.outcomes("templates", rows), 0
	for line := range strings.Lines(string(text)) {
		var n named
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			f.t.Fatal(err)
		}
		if diff := cmp.Diff([]string{fates[i].Detail}, there[n.Name]); diff != "" ||
			!strings.Contains(outcomes, string(fates[i].Outcome)) || created[n.Name] != 1 {
			f.t.Errorf("row %d (%s) is %s, created %d times (-ledger +tenant):\n%s", i, n.Name,
				fates[i].Outcome, created[n.Name], diff)
		}
		i++
	}
	if len(there) != rows {
		f.t.Errorf("%d templates are there, want %d", len(there), rows)
	}
}

// settledOnce checks that no worker logged that it settled a row which another had settled.
func (f *fleet) settledOnce(names ...string) {
	f.t.Helper()
	times := map[string]int{}
	for _, name := range names {
		if _, err := os.Stat(f.logOf(name)); err != nil {
			continue
		}
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

// shared checks that each worker executed at least a quarter of the tasks.
func (f *fleet) shared(names ...string) {
	f.t.Helper()
	did, all, again := map[string]int{}, 0, map[string]int{}
	for _, name := range names {
		for _, line := range f.log(name) {
			if line["msg"] == "task" {
				did[name]++
				all++
				if attempt, _ := line["attempt"].(float64); attempt > 0 {
					again[fmt.Sprint(line["type"])]++
				}
			}
		}
	}
	for _, name := range names {
		if did[name]*10 < all { // the second one of a tenant begins a little later
			f.t.Errorf("worker %s did %d of %d tasks, want a tenth", name, did[name], all)
		}
	}
	f.t.Logf("tasks by worker: %v; taken over from the killed one: %v", did, again)
}
