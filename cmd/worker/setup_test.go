package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/evidence"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// patience is how long a test waits for an event: far longer than it takes on a busy machine.
// asynq alone needs 110 s to enqueue the task of a lost lease again.
const patience = 4 * time.Minute

// await polls ok until it returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	awaitFor(t, patience, what, ok)
}

func awaitFor(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for: %s", what)
		case <-tick.C:
		}
	}
}

// process is the command running inside the test.
type process struct {
	t              *testing.T
	cancel         context.CancelFunc
	ended          chan struct{}
	status         int
	stdout, stderr logtest.Buffer
}

// begin runs the command until it ends or is stopped, at the end of the test
// at the latest.
func begin(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{t: t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.status = run(ctx, args, strings.NewReader(""), &p.stdout, &p.stderr, environ(env))
	}()
	t.Cleanup(func() {
		p.stop()
		checkMembers(t, p.stderr.String())
		if t.Failed() {
			t.Logf("stderr of %q:\n%s", args, &p.stderr)
		}
	})
	return p
}

// wait waits for the command to end without a signal.
func (p *process) wait() (status int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("the command did not end")
	}
	return p.status
}

// stop stops the process as SIGTERM does.
func (p *process) stop() (status int) {
	p.t.Helper()
	p.cancel()
	return p.wait()
}

// says waits until the log has a line with that message whose members are
// these, and returns it.
func (p *process) says(msg string, members map[string]string) map[string]any {
	p.t.Helper()
	var found map[string]any
	await(p.t, "a log line "+msg, func() bool {
		for _, line := range logLines(p.stderr.String()) {
			if line["msg"] == msg && has(line, members) {
				found = line
			}
		}
		return found != nil
	})
	return found
}

func has(line map[string]any, members map[string]string) bool {
	for name, want := range members {
		if text, _ := line[name].(string); !strings.Contains(text, want) {
			return false
		}
	}
	return true
}

// logLines returns the complete lines of a log that are JSON.
func logLines(log string) (lines []map[string]any) {
	for text := range strings.Lines(log) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// page fetches path from the listener whose address the log names.
func (p *process) page(listener, path string) (status int, body string) {
	p.t.Helper()
	url, _ := p.says("listening", map[string]string{"for": listener})["url"].(string)
	return fetch(p.t, http.MethodGet, strings.TrimSuffix(url, "/")+path, "")
}

// fetch sends a request on a connection of its own.
func fetch(t *testing.T, method, url, jsonBody string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(jsonBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// startBox starts a tenant and its DNS, at three resolvers, without a rate
// limit unless the options have one.
func startBox(t *testing.T, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	o.Resolvers, o.NegativeTTL = 3, time.Second
	box, err := sandbox.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// pointedAt returns the settings of a worker for a sandbox, at the highest rate of both.
func pointedAt(box *sandbox.Sandbox, redisURL string, with map[string]string) map[string]string {
	env := settingsOf(box.Settings())
	maps.Copy(env, map[string]string{
		"ORGOPS_REDIS_URL": redisURL, "ORGOPS_RATE": "unlimited", "ORGOPS_HTTP_ADDR": "off", "ORGOPS_PROBE_ADDR": "off",
	})
	maps.Copy(env, with)
	return env
}

func settingsOf(lines []string) map[string]string {
	env := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	return env
}

// desk submits rows for a test and reads their results.
type desk struct {
	t      *testing.T
	redis  redis.UniversalClient
	ledger *ledger.Ledger
}

func newDesk(t *testing.T) desk {
	t.Helper()
	rdb := redistest.Open(t)
	keysAreListed(t, rdb)
	return desk{t, rdb, ledger.New(rdb)}
}

// handIn submits rows as enqueue does.
// updatesMax is how many verified domains the updates of tests may set to pending: all.
const updatesMax = 1_000_000

func (d desk) handIn(r ledger.NewRun, kind string, rows []byte) {
	d.t.Helper()
	if r.Tenant == "" {
		r.Tenant = tasks.DefaultTenant
	}
	r.Max = updatesMax
	in := intake.Input{Name: string(r.ID), Kind: kind, Rows: bytes.NewReader(rows)}
	if _, err := intake.New(d.redis, d.ledger).Submit(d.t.Context(), in, r); err != nil {
		d.t.Fatal(err)
	}
}

func (d desk) run(id string) ledger.Run {
	d.t.Helper()
	r, err := d.ledger.Get(d.t.Context(), "", ledger.RunID(id))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// ended waits until the run has ended.
func (d desk) ended(id string) ledger.Run {
	d.t.Helper()
	await(d.t, "the end of run "+id, func() bool { return d.run(id).Ended() })
	return d.run(id)
}

// finished waits until the run has ended and its end is processed.
func (d desk) finished(id string) {
	d.t.Helper()
	await(d.t, "what follows the end of "+id, func() bool { return !d.run(id).FinishedAt.IsZero() })
}

// reasons returns why rows are open, by row.
func (d desk) reasons(id string) map[int64]string {
	d.t.Helper()
	why := map[int64]string{}
	run := ledgertest.Find(d.t, d.ledger, id)
	for row, err := range d.ledger.Each(d.t.Context(), run, ledger.Unsettled, 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		why[row.Item] = evidence.ReadOpen(run.Kind, row).Reason
	}
	return why
}

// openFor waits until that number of rows is open for a reason with these words.
func (d desk) openFor(id string, rows int, words ...string) {
	d.t.Helper()
	await(d.t, "rows open for "+strings.Join(words, ", "), func() bool {
		n := 0
		for _, why := range d.reasons(id) {
			found := true
			for _, word := range words {
				found = found && strings.Contains(why, word)
			}
			if found {
				n++
			}
		}
		return n == rows
	})
}

// attempts returns the largest number of attempts that a task of these log lines had used
// up, and how many of the lines are of tasks.
func attempts(lines []map[string]any) (most, seen int) {
	for _, line := range lines {
		if line["msg"] != "task" {
			continue
		}
		n, _ := line["attempt"].(float64)
		most, seen = max(most, int(n)), seen+1
	}
	return most, seen
}

// environ returns env in the form of [os.Environ].
func environ(env map[string]string) (all []string) {
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return all
}

// checkMembers reports log lines in which a member occurs twice at the top level: readers
// disagree on which of the two counts.
func checkMembers(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		d := json.NewDecoder(strings.NewReader(line))
		if token, err := d.Token(); err != nil || token != json.Delim('{') {
			continue
		}
		seen := map[json.Token]bool{}
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err != nil || d.Decode(&value) != nil {
				break
			}
			if seen[name] {
				t.Errorf("%v is there twice: %s", name, line)
			}
			seen[name] = true
		}
	}
}
