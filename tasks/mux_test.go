package tasks_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// alter changes a member of the queued payload; nil takes it out.
func (q *queued) alter(t *testing.T, member string, value any) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(q.payload, &m); err != nil {
		t.Fatal(err)
	}
	m[member] = value
	if value == nil {
		delete(m, member)
	}
	var err error
	if q.payload, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
}

// ofUpdate is a world with one row of domain:update in its queue.
func ofUpdate(t *testing.T, change ...func(*settings)) (w *world, run string, q *queued) {
	t.Helper()
	w = newWorld(t, change...)
	w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified", Use: new(true)})
	run = w.submit(tasks.TypeUpdate, verifyRow("status", "pending", "use_for_organization_discovery", false))
	return w, run, w.queue.tasks[0]
}

func TestSettledRowsAreNotWorkedOn(t *testing.T) {
	for _, outcome := range []string{"done", "refused", "cancelled", "failed"} {
		t.Run(outcome, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			if err := w.ledger.Settle(t.Context(), run, tasks.TypeUpdate, 0, []int64{0}, outcome, "by hand"); err != nil {
				t.Fatal(err)
			}
			w.step()
			if q.state != "completed" || len(w.requests()) != 0 {
				t.Errorf("state %q after %d requests, want it completed after none", q.state, len(w.requests()))
			}
			w.wantFate(run, 0, outcome, "by hand")
		})
	}
}

// TestAttemptLimitComesFirst: a task that takes its worker with it ends too.
func TestAttemptLimitComesFirst(t *testing.T) {
	w, run, q := ofUpdate(t)
	q.retried = tasks.MaxAttempts - 1
	w.saboteur.at = 1 // its PATCH kills the worker
	w.step()
	w.wantFate(run, 0, "open")
	before := len(w.requests())
	w.step()
	w.wantFate(run, 0, "failed", "17 attempts", "its worker died")
	if q.state != "archived" || len(w.requests()) != before {
		t.Errorf("state %q, %d requests more, want it archived without another", q.state, len(w.requests())-before)
	}
}

func TestLastAttemptIsMade(t *testing.T) {
	w, run, q := ofUpdate(t)
	q.retried = tasks.MaxAttempts - 1
	w.step()
	w.wantFate(run, 0, "done")
}

// TestWaitingIsNoAttempt: neither a look that finds nothing nor a wait for the
// budget uses one up.
func TestWaitingIsNoAttempt(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = 30 * time.Hour })
	w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	run := w.submit(tasks.TypeVerify, verifyRow())
	f := status(429, "Retry-After", "30")
	f.Count = 40
	w.sandbox.AddFault(f)
	executions := 0
	for w.step() != nil {
		executions++
	}
	if executions < 60 || w.queue.tasks[0].retried != 0 {
		t.Errorf("%d executions, %d attempts counted; want more than 60, and none", executions, w.queue.tasks[0].retried)
	}
	w.wantFate(run, 0, "expired")
}

// TestTooNew: what this worker does not know is left for a newer one, for a day.
func TestTooNew(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *queued){
		"version": func(t *testing.T, q *queued) { q.alter(t, "v", tasks.Version+1); q.alter(t, "new_member", 1) },
		"type":    func(_ *testing.T, q *queued) { q.typ = "domain:frobnicate" },
	} {
		t.Run(name, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			change(t, q)
			first := w.clock.now()
			w.step()
			w.wantFate(run, 0, "open", "newer one is needed")
			if q.retried != 0 || q.state != "" {
				t.Errorf("%d attempts, state %q: want it left, not counted", q.retried, q.state)
			}
			w.drain()
			if waited := w.clock.now().Sub(first); waited < tasks.UnknownFor {
				t.Errorf("given up after %v, want %v at least", waited, tasks.UnknownFor)
			}
			if q.state != "archived" || q.retried != 0 || len(w.requests()) != 0 {
				t.Errorf("state %q, %d attempts, %d requests: want it archived, none counted, none made", q.state, q.retried, len(w.requests()))
			}
			if name == "version" {
				w.wantFate(run, 0, "invalid", "version 2")
			}
		})
	}
	t.Run("a newer worker takes it", func(t *testing.T) {
		w, run, q := ofUpdate(t)
		q.alter(t, "v", tasks.Version+1)
		w.step()
		q.alter(t, "v", tasks.Version)
		w.drain()
		w.wantFate(run, 0, "done")
	})
}

func TestUnreadableIsArchived(t *testing.T) {
	for name, payload := range map[string]string{"empty": "", "no JSON": "{", "no run": `{"v":1,"item":0}`, "no row": `{"v":1,"run":"run0"}`} {
		t.Run(name, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			q.payload = []byte(payload)
			w.step()
			if q.state != "archived" || !strings.Contains(q.lastErr.Error(), "payload") {
				t.Errorf("state %q, %v; want it archived for its payload", q.state, q.lastErr)
			}
			w.wantFate(run, 0, "open")
		})
	}
}

func TestPayloadThatCannotBeReadSettlesItsRow(t *testing.T) {
	for name, test := range map[string]struct {
		member string
		value  any
		says   string
	}{
		"unknown member": {"surprise", 1, "surprise"},
		"wrong type":     {"organization_id", 5, "organization_id"},
		"rule broken":    {"organization_id", "a/b", "organization_id"},
	} {
		t.Run(name, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			q.alter(t, test.member, test.value)
			w.drain()
			w.wantFate(run, 0, "invalid", test.says)
			if q.state != "archived" || len(w.requests()) != 0 {
				t.Errorf("state %q, %d requests: want it archived without one", q.state, len(w.requests()))
			}
		})
	}
}

func TestTaskOfAnotherTenant(t *testing.T) {
	w, run, q := ofUpdate(t)
	q.alter(t, "tenant", "other")
	w.drain()
	w.wantFate(run, 0, "invalid", `"other"`)
	if len(w.requests()) != 0 {
		t.Errorf("%d requests, want none", len(w.requests()))
	}
}

// TestRunThatIsNotThere: no row can be settled, so the task ends by itself
// instead of coming back for ever.
func TestRunThatIsNotThere(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *queued){
		"run":  func(t *testing.T, q *queued) { q.alter(t, "run", "forgotten") },
		"row":  func(t *testing.T, q *queued) { q.alter(t, "item", 1) },
		"kind": func(_ *testing.T, q *queued) { q.typ = tasks.TypeVerify },
	} {
		t.Run(name, func(t *testing.T) {
			w, _, q := ofUpdate(t)
			change(t, q)
			w.drain()
			if q.state != "archived" {
				t.Errorf("state %q, want it archived", q.state)
			}
		})
	}
}

func TestPanicIsTrouble(t *testing.T) {
	w, run, q := ofUpdate(t)
	w.config.API = panickingAPI{w.config.API}
	w.mux = tasks.NewMux(w.config)
	w.step()
	w.wantFate(run, 0, "open", "transient", "panic: boom")
	if q.retried != 1 {
		t.Errorf("%d attempts counted, want 1", q.retried)
	}
	w.drain()
	w.wantFate(run, 0, "failed", "17 attempts", "panic: boom")
	if !strings.Contains(w.log.String(), "panickingAPI") {
		t.Error("no stack in the log")
	}
	if strings.Contains(q.lastErr.Error(), "goroutine") {
		t.Error("the stack is in the error")
	}
}

type panickingAPI struct{ tasks.API }

func (panickingAPI) UpdateDiscoveryDomain(context.Context, string, string, apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	panic("boom")
}

// failingLedger fails as a Redis that is down does.
type failingLedger struct {
	tasks.Ledger
	down func(call string) bool
	err  error // nil: errDown
}

var errDown = errors.New("dial tcp: connection refused")

func (l failingLedger) failure() error { return cmp.Or(l.err, errDown) }

func (l failingLedger) Standing(ctx context.Context, run, kind string, generation int, items []int64) ([]bool, map[string][]byte, string, error) {
	if l.down("standing") {
		return nil, nil, "", l.failure()
	}
	return l.Ledger.Standing(ctx, run, kind, generation, items)
}

func (l failingLedger) Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error {
	if l.down("settle") {
		return l.failure()
	}
	return l.Ledger.Settle(ctx, run, kind, generation, items, outcome, detail)
}

func (l failingLedger) SettleRow(ctx context.Context, run, kind string, generation int, item int64, name string, mark []byte, outcome, detail string, evidence []byte) (string, error) {
	if l.down("settle") {
		return "", l.failure()
	}
	return l.Ledger.SettleRow(ctx, run, kind, generation, item, name, mark, outcome, detail, evidence)
}

func (l failingLedger) Note(ctx context.Context, run string, generation int, items []int64, reason string, next time.Time) error {
	if l.down("note") {
		return l.failure()
	}
	return l.Ledger.Note(ctx, run, generation, items, reason, next)
}

// TestLedgerIsDown: the task comes back, whatever call it was, and the row is
// settled once the ledger is there again.
func TestLedgerIsDown(t *testing.T) {
	for _, call := range []string{"standing", "settle", "note", "all"} {
		t.Run(call, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			direct := w.config.Ledger
			w.config.Ledger = failingLedger{direct, func(c string) bool { return c == call || call == "all" }, nil}
			w.mux = tasks.NewMux(w.config)
			if call == "note" {
				f := status(429)
				f.Count = 1
				w.sandbox.AddFault(f)
			}
			w.step()
			if q.state != "" || q.retried != 1 || !strings.Contains(q.lastErr.Error(), "connection refused") {
				t.Errorf("state %q, %d attempts, %v; want the task to come back, with an attempt counted", q.state, q.retried, q.lastErr)
			}
			w.reboot(func(c *tasks.Config) { c.Ledger = direct })
			w.drain()
			w.wantFate(run, 0, "done")
			w.wantEnded(run)
		})
	}
	t.Run("for longer than the attempts last", func(t *testing.T) {
		w, run, q := ofUpdate(t)
		direct := w.config.Ledger
		w.config.Ledger = failingLedger{direct, func(string) bool { return true }, nil}
		w.mux = tasks.NewMux(w.config)
		for range 2 * tasks.MaxAttempts {
			w.step()
		}
		if q.state != "" {
			t.Fatalf("state %q: the row is open, and nobody would settle it", q.state)
		}
		w.reboot(func(c *tasks.Config) { c.Ledger = direct })
		w.drain()
		w.wantFate(run, 0, "failed")
	})
}

func TestBlocked(t *testing.T) {
	for _, test := range []struct {
		name      string
		fault     sandbox.Fault
		operation string
	}{
		{"401", status(401), "*"},
		{"scope", sandbox.Fault{Status: 403, Body: `{"message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`}, apiclient.OpUpdateDiscoveryDomain},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, run, q := ofUpdate(t)
			test.fault.Count = 1
			w.sandbox.AddFault(test.fault)
			w.step()
			if !slices.Equal(w.blocks, []string{test.operation}) {
				t.Errorf("blocked %v, want %s", w.blocks, test.operation)
			}
			w.wantFate(run, 0, "open", "blocked: ")
			if q.retried != 0 || !q.at.After(w.clock.now()) {
				t.Errorf("%d attempts, due in %v; want none counted, and a wait", q.retried, q.at.Sub(w.clock.now()))
			}
			w.drain()
			w.wantFate(run, 0, "done")
		})
	}
	t.Run("by the pace", func(t *testing.T) {
		w, run, q := ofUpdate(t)
		w.config.API = refusingAPI{w.config.API, &pace.BlockedError{Operation: "x", Reason: "for all", After: 25 * time.Second}}
		w.mux = tasks.NewMux(w.config)
		w.step()
		if len(w.blocks) != 0 {
			t.Errorf("blocked %v, which the pace knows already", w.blocks)
		}
		w.wantFate(run, 0, "open", "blocked: ", "for all")
		if wait := q.at.Sub(w.clock.now()); wait != 2*time.Minute || q.retried != 0 {
			t.Errorf("due in %v with %d attempts, want 2m and none", wait, q.retried)
		}
	})
}

type refusingAPI struct {
	tasks.API
	err error
}

func (a refusingAPI) UpdateDiscoveryDomain(context.Context, string, string, apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	return apiclient.DiscoveryDomain{}, a.err
}

func TestStoppingBeforeTheWork(t *testing.T) {
	w, run, q := ofUpdate(t)
	close(w.stopping)
	w.step()
	if q.state != "" || q.retried != 0 || len(w.requests()) != 0 {
		t.Errorf("state %q, %d attempts, %d requests: want it handed back", q.state, q.retried, len(w.requests()))
	}
	w.reboot()
	w.drain()
	w.wantFate(run, 0, "done")
}

// TestContextIsOverYetTheRowIsSettled: the ledger is written even when the
// execution's time is up.
func TestContextIsOverYetTheRowIsSettled(t *testing.T) {
	w, run, q := ofUpdate(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.config.API = cancellingAPI{w.config.API, cancel}
	w.mux = tasks.NewMux(w.config)
	if err := w.mux.Deliver(ctx, asynq.NewTask(q.typ, q.payload), q.id, q.queue, 0); err != nil {
		t.Error(err)
	}
	w.wantFate(run, 0, "done")
}

type cancellingAPI struct {
	tasks.API
	cancel context.CancelFunc
}

func (a cancellingAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	defer a.cancel()
	return a.API.UpdateDiscoveryDomain(ctx, org, id, u)
}

// TestOneLineForWhatHasNoRow: what cannot be read, and what was settled before, has a line
// too, in which a stranger's text is cut.
func TestOneLineForWhatHasNoRow(t *testing.T) {
	w, run, q := ofUpdate(t)
	if err := w.mux.Deliver(t.Context(), asynq.NewTask(strings.Repeat("x", 500), []byte(`{"run":7}`)), "unread", "q", 0); err == nil {
		t.Error("a payload that cannot be read is taken")
	}
	for range 2 {
		if err := w.mux.Deliver(t.Context(), asynq.NewTask(q.typ, q.payload), q.id, q.queue, 0); err != nil {
			t.Error(err)
		}
	}
	w.wantFate(run, 0, "done")
	var got []string
	for text := range strings.Lines(w.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == "task" {
			got = append(got, fmt.Sprint(line["level"], " ", line["task_id"] == q.id, " ", line["item"], " ", line["outcome"], " ", len(text) < 500))
		}
	}
	want := []string{"WARN false <nil> invalid true", "INFO true 0 done true", "DEBUG true 0 settled_before true"}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// TestLog: one line a task, which says what is needed to find it, and no secret.
func TestLog(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{TXT: "the-token-of-the-domain"})
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Count: 2, Status: 503, Body: `{"message":"` + w.token + `"}`})
	run := w.submit(tasks.TypeVerify, verifyRow("verification_host", d.Host, "verification_txt", d.TXT))
	executions := 0
	for w.step() != nil {
		executions++
	}
	w.wantFate(run, 0, "done")

	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(w.log.String())); scan.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] != "task" {
			continue
		}
		lines++
		for _, key := range []string{"type", "tenant", "run", "item", "task_id", "outcome", "took", "attempt"} {
			if _, ok := line[key]; !ok {
				t.Errorf("%s does not say %s", scan.Text(), key)
			}
		}
		if line["run"] != run || !strings.HasPrefix(redistest.RelativeTaskID(line["task_id"].(string)), run+"-0-0") {
			t.Errorf("%s: want run %s and the task's id", scan.Text(), run)
		}
		if line["level"] == slog.LevelError.String() {
			t.Errorf("%s: nothing went wrong for good", scan.Text())
		}
	}
	if lines != executions || executions != 4 {
		t.Errorf("%d lines of %d executions, want one of each of 4", lines, executions)
	}
	for _, secret := range []string{w.token, d.TXT} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// meter remembers what it was told.
type meter struct{ told []string }

func (m *meter) Task(tenant, typ, outcome string, _ time.Duration) {
	m.told = append(m.told, tenant+" "+typ+" "+outcome)
}

func (m *meter) ClientsPerRequest(tenant string, limit int) {
	m.told = append(m.told, fmt.Sprintf("%s clients_per_request %d", tenant, limit))
}

func TestMeter(t *testing.T) {
	m := &meter{}
	w := newWorld(t, func(s *settings) { s.tasks.Meter = m })
	w.proven(sandbox.Domain{})
	w.submit(tasks.TypeVerify, verifyRow())
	w.drain()
	want := []string{"default domain:verify handed_on", "default domain:confirm done"}
	if !slices.Equal(m.told, want) {
		t.Errorf("measured %v, want %v", m.told, want)
	}
	if err := w.mux.Deliver(t.Context(), asynq.NewTask("x", nil), "id", "q", 0); err == nil {
		t.Error("an empty payload is taken")
	}
	if last := m.told[len(m.told)-1]; last != "default unknown invalid" {
		t.Errorf("measured %q", last)
	}
}

// TestProcessTask is Deliver by its front door, outside of a server.
func TestProcessTask(t *testing.T) {
	w, run, q := ofUpdate(t)
	if err := w.mux.ProcessTask(t.Context(), asynq.NewTask(q.typ, q.payload)); err != nil {
		t.Error(err)
	}
	w.wantFate(run, 0, "done")
}
