package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/engine"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

const (
	// clockVar names the environment variable with the offset of a worker's clock. The worker
	// is built by buildWithClock.
	clockVar = "TEST_CLOCK_AHEAD"
	// minutesApart is the difference of the clocks in these tests.
	minutesApart = 10 * time.Minute
)

// clockSource is added to the package time of a worker whose clock can be wrong.
const clockSource = `package time

import "syscall"

var clockAhead = readClockAhead()

func readClockAhead() int64 {
	text, _ := syscall.Getenv("` + clockVar + `")
	if text == "" {
		return 0
	}
	d, err := ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return int64(d / Second)
}
`

// clockOverlay writes the files of an overlay for the compiler that adds the variable to the
// wall clock of time.Now, and returns its path. Monotonic times do not change.
func clockOverlay(t *testing.T, dir string) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(original, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const function, call = "\nfunc Now() Time {\n", "\tsec, nsec, mono := runtimeNow()\n"
	before, body, ok := strings.Cut(string(source), function)
	start, rest, found := strings.Cut(body, call)
	if !ok || !found || strings.Contains(start, "\n}\n") {
		t.Fatalf("time.Now in %s is not as this test expects: change clockOverlay for this version of Go", original)
	}
	changed, added := filepath.Join(dir, "time.go"), filepath.Join(dir, "clock.go")
	write(t, changed, before+function+start+call+"\tsec += clockAhead\n"+rest)
	write(t, added, clockSource)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(original, "time.go"): changed, filepath.Join(original, "clock_ahead.go"): added,
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	write(t, path, string(overlay))
	return path
}

// clockFleet is a fleet whose tenant is a sandbox in this process, and whose workers may have
// wrong clocks.
type clockFleet struct {
	*fleet

	box   *sandbox.Sandbox
	hooks *listener
}

// buildWithClock builds the worker with a clock that can be wrong, and returns its path. The
// first time it compiles Go's library, which takes a minute or two; the result is cached.
func buildWithClock(t *testing.T) (path string) {
	t.Helper()
	redistest.NeedsLong(t, "builds the worker with another clock")
	dir := t.TempDir()
	path = filepath.Join(dir, "worker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", clockOverlay(t, dir), "-o", path,
		"orgops/cmd/worker").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// newClockFleet returns a fleet of that worker, for a tenant whose webhook takes some time for
// each event. It does not need a real Redis: the embedded one serves several processes too.
func newClockFleet(t *testing.T, worker string, eachTakes time.Duration) *clockFleet {
	t.Helper()
	box := startBox(t, sandbox.Options{})
	f := &clockFleet{fleet: &fleet{desk: newDesk(t), dir: t.TempDir(), authURL: box.AuthURL()}, box: box,
		hooks: listen(t, true)}
	f.hooks.takes = eachTakes
	f.env = pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_WEBHOOKS": f.hooks.file, "HOOK": hookSecret})
	if err := os.Symlink(worker, filepath.Join(f.dir, "worker")); err != nil {
		t.Fatal(err)
	}
	return f
}

// workAhead starts a worker whose clock is ahead.
func (f *clockFleet) workAhead(name string, by time.Duration) *running {
	f.t.Helper()
	f.env[clockVar] = by.String()
	defer delete(f.env, clockVar)
	return f.work(name)
}

// handInFile writes the rows to the file that a comparison reads, and submits them.
func (f *clockFleet) handInFile(s submission, kind string, rows []byte) {
	f.t.Helper()
	write(f.t, filepath.Join(f.dir, s.file), string(rows))
	f.handIn(ledger.NewRun{ID: ledger.RunID(s.run)}, kind, rows)
}

// wantNoAttempt checks that no task of these workers has used up an attempt, and that not one of
// several workers has executed all.
func (f *clockFleet) wantNoAttempt(names ...string) {
	f.t.Helper()
	executed := 0
	for _, name := range names {
		lines := f.log(name)
		most, seen := attempts(lines)
		if most != 0 {
			f.t.Errorf("worker %s: of %d tasks one has used up %d attempts", name, seen, most)
		}
		if seen > 0 {
			executed++
		}
		for _, line := range lines {
			text, _ := line["msg"].(string)
			message, _ := line["message"].(string)
			if strings.Contains(text, "put back") || strings.HasPrefix(message, "Could not") {
				f.t.Errorf("worker %s: %v", name, line)
			}
		}
	}
	if executed < min(2, len(names)) {
		f.t.Errorf("of the workers %v only %d have executed tasks", names, executed)
	}
	for _, queue := range []string{engine.Queue(tasks.DefaultTenant), deliveries.Queue(tasks.DefaultTenant, "crm")} {
		n, err := f.redis.Get(f.t.Context(), "asynq:{"+queue+"}:failed").Int()
		if err != nil && !errors.Is(err, redis.Nil) || n != 0 {
			f.t.Errorf("queue %s: %d tasks have failed, %v", queue, n, err)
		}
	}
}

// TestWrongClocks has workers whose clocks are seconds apart, as they may be, and some whose clocks
// are minutes apart.
func TestWrongClocks(t *testing.T) {
	redistest.Single(t, "the processes of this test have one URL")
	t.Parallel()
	worker := buildWithClock(t)
	t.Run("seconds", func(t *testing.T) {
		t.Parallel()
		secondsApart(t, worker)
	})
	t.Run("minutes", func(t *testing.T) {
		t.Parallel()
		minutesAhead(t, worker)
	})
}

// secondsApart has three workers whose clocks are nearly as far apart as they may be, and a tenant
// and a receiver so slow that tasks of each are in progress when another one starts. No worker
// takes tasks from the others, no attempt is used up, and no request is repeated.
func secondsApart(t *testing.T, worker string) {
	const rows, apart = 100, health.ClockWrong - 2*time.Second
	f := newClockFleet(t, worker, 2*time.Second)
	f.workAhead("behind", -apart)
	f.work("right")
	f.handInFile(submissions[0], tasks.TypeVerify, f.box.SeedDomains(rows))
	await(t, "deliveries", func() bool { return f.hooks.held() > 0 })
	f.slow(6000, 0)
	f.handInFile(submissions[1], tasks.TypeUpdate, f.box.SeedUpdates(rows))
	f.handInFile(submissions[2], tasks.TypeRemove, f.box.SeedClients(rows))
	f.handInFile(submissions[3], tasks.TypeCreate, f.box.SeedTemplates(rows))
	await(t, "rows in progress", func() bool { return f.active() > rows })
	f.workAhead("ahead", apart)

	for _, s := range submissions {
		f.ended(s.run)
	}
	f.hooks.want(map[string]int{"domain.verified": rows, "run.finished": len(submissions)})
	f.compare(rows, 0, submissions...)
	f.settledOnce("behind", "right", "ahead")
	f.wantNoAttempt("behind", "right", "ahead")
}

// minutesAhead has two workers whose clocks are ten minutes wrong. They execute nothing, are not
// ready, and do not count as workers of the tenant; one whose clock is right does all.
func minutesAhead(t *testing.T, worker string) {
	const rows = 20
	f := newClockFleet(t, worker, 0)
	f.handInFile(submissions[0], tasks.TypeVerify, f.box.SeedDomains(rows))
	for name, by := range map[string]time.Duration{"behind": -minutesApart, "ahead": minutesApart} {
		f.env["ORGOPS_PROBE_ADDR"] = "127.0.0.1:0"
		f.workAhead(name, by)
		await(t, "that it is not ready", func() bool {
			status, body := f.ready(name)
			return status == http.StatusServiceUnavailable && strings.Contains(body, "Redis's clock is ")
		})
	}
	await(t, "no worker of the tenant", func() bool {
		all, err := f.ledger.Sessions(t.Context())
		return err == nil && len(all) == 2 && len(all[0].Tenants)+len(all[1].Tenants) == 0
	})
	f.work("right")
	f.ended(submissions[0].run)
	f.hooks.want(map[string]int{"domain.verified": rows, "run.finished": 1})
	f.wantNoAttempt("right")
	for _, name := range []string{"behind", "ahead"} {
		if _, seen := attempts(f.log(name)); seen != 0 {
			t.Errorf("worker %s has executed %d tasks", name, seen)
		}
	}
}
