package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/health"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// clockVar names the environment variable with the offset of a worker's clock. The worker is
// built by buildWithClock.
const clockVar = "TEST_CLOCK_AHEAD"

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

// buildWithClock builds the worker with a clock that can be wrong, and returns its path. The
// first time it compiles Go's library, which takes a minute or two; the result is cached.
func buildWithClock(t *testing.T) (path string) {
	t.Helper()
	redistest.NeedsLong(t, "builds the worker with another clock")
	dir := t.TempDir()
	path = filepath.Join(dir, "worker")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", clockOverlay(t, dir),
		"-o", path, "orgops/cmd/worker")
	build.Env = withoutC()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// wantNoAttempt checks that no task of these workers has used up an attempt, and that more than one
// of them has executed tasks.
func (f *fleet) wantNoAttempt(names ...string) {
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
	if executed < 2 {
		f.t.Errorf("of the workers %v only %d have executed tasks", names, executed)
	}
	for _, queue := range []string{queues.OfRows(tasks.DefaultTenant), deliveries.Queue(tasks.DefaultTenant, "crm")} {
		n, err := f.redis.Get(f.t.Context(), "asynq:{"+queue+"}:failed").Int()
		if err != nil && !errors.Is(err, redis.Nil) || n != 0 {
			f.t.Errorf("queue %s: %d tasks have failed, %v", queue, n, err)
		}
	}
}

// TestClocksApart has three workers whose clocks are nearly as far apart as they may be, and a
// tenant and a receiver so slow that tasks of each are in progress when another one starts. No
// worker takes tasks from the others, no attempt is used up, and no request is repeated.
func TestClocksApart(t *testing.T) {
	redistest.Single(t, "the processes of this test have one URL")
	t.Parallel()
	const rows, apart = 100, health.ClockWrong - 2*time.Second
	f, hooks := newFleet(newDesk(t), startBox(t, sandbox.Options{}), redistest.URL(t), nil), listen(t, true)
	f.env["ORGOPS_WEBHOOKS"], f.env["HOOK"], hooks.takes = hooks.file, hookSecret, 2*time.Second
	if err := os.Symlink(buildWithClock(t), filepath.Join(f.dir, "clock")); err != nil {
		t.Fatal(err)
	}
	work := func(name string, ahead time.Duration) {
		f.env[clockVar] = ahead.String()
		f.start(name, "clock")
	}
	work("behind", -apart)
	work("right", 0)
	f.enqueue(rows, submissions[0])()
	await(t, "deliveries", func() bool { return hooks.held() > 0 })
	f.box.AddFault(sandbox.Fault{Latency: 6 * time.Second})
	f.enqueue(rows, submissions[1:]...)()
	await(t, "rows in progress", func() bool { return f.active() > rows })
	work("ahead", apart)

	f.awaitEnds()
	hooks.want(map[string]int{"domain.verified": rows, "run.finished": len(submissions)})
	f.compare(rows, 0, submissions...)
	f.settledOnce("behind", "right", "ahead")
	f.wantNoAttempt("behind", "right", "ahead")
}
