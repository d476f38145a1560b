package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/httpapi"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// commands is a hook of the server's client of Redis. before and after get the number of a
// command, from 1, and its name; their error is that of the command, which is sent unless it
// is before's.
type commands struct {
	mu            sync.Mutex
	n             int
	before, after func(n int, name string) error
}

// of gives a server a client with the hook.
func (c *commands) of(t testing.TB) func(*httpapi.Config) {
	return func(config *httpapi.Config) {
		rdb := redistest.New(t)
		rdb.AddHook(redistest.Around(c.do))
		config.Redis, config.Ledger = rdb, ledger.New(rdb)
		config.Intake = newIntake(rdb, config.Ledger)
	}
}

// failing has commands fail that fails says, by their numbers: as sent to a Redis that is not
// there, or after they were carried out, with their answers lost.
func failing(lost bool, fails func(n int) bool) *commands {
	fail := func(n int, _ string) error {
		if fails(n) {
			return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		}
		return nil
	}
	if lost {
		return &commands{after: fail}
	}
	return &commands{before: fail}
}

func (c *commands) do(ctx context.Context, send func() error, cmds ...redis.Cmder) error {
	c.mu.Lock()
	c.n++
	n, before, after := c.n, c.before, c.after
	c.mu.Unlock()
	name := cmds[0].Name()
	if len(cmds) > 1 {
		name = "pipeline"
	}
	if before != nil {
		if err := before(n, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // the producer's client looks at it too
		return err
	}
	err := send()
	if after != nil && err == nil {
		err = after(n, name)
	}
	return err
}

// set has before called from now on.
func (c *commands) set(before func(n int, name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// heal ends the faults, and returns how many commands there were.
func (c *commands) heal() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = nil, nil
	return c.n
}

// eachCommand sends a request with Redis failing at each of its commands: only then, or from
// then on; before the command, or after it. It is carried out, or the answer says that it may
// not be, and the same request completes it. prepare prepares Redis.
func eachCommand(t *testing.T, prepare func(w *world), c call, rows int) {
	start := func(t *testing.T, hook *commands) *world {
		w := newWorld(t, hook.of(t))
		prepare(w)
		return w
	}
	count := 0
	for range 2 { // the first one loads scripts into a real Redis
		t.Run("without", func(t *testing.T) {
			counted := &commands{}
			start(t, counted).do(c).want(t, 202, "")
			count = counted.heal()
		})
	}
	for n := 0; n < count; n += redistest.Stride(7) {
		for _, lost := range []bool{false, true} {
			for _, lasting := range []bool{false, true} {
				t.Run(fmt.Sprintf("command %d, lost %t, lasting %t", n+1, lost, lasting), func(t *testing.T) {
					t.Parallel()
					hook := failing(lost, func(at int) bool { return at == n+1 || lasting && at > n })
					w := start(t, hook)
					got := w.do(c)
					if hook.heal() <= n {
						t.Fatal("there were fewer commands")
					}
					if got.StatusCode != http.StatusAccepted {
						got.want(t, 503, "store")
						if got.Header.Get("Retry-After") != "5" {
							t.Errorf("Retry-After %q, want 5", got.Header.Get("Retry-After"))
						}
					}
					if strings.Contains(got.body, "reset") {
						t.Errorf("the answer has the error of Redis: %s", got.body)
					}
					again := w.do(c)
					again.want(t, 202, "")
					w.holdsOnce(again.run(t).Run, rows)
				})
			}
		}
	}
}

func TestRedisFails(t *testing.T) {
	c := call{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: "k", body: rows(3)}
	eachCommand(t, func(*world) {}, c, 3)
}

func TestRedisFailsAtRetry(t *testing.T) {
	c := call{method: "POST", path: "/v1/runs/parent/retry", token: billing, key: "k"}
	eachCommand(t, (*world).parent, c, 3)
}

// parent stores a run of billing's that has ended, of which three rows have failed.
func (w *world) parent() {
	w.t.Helper()
	in := intake.Input{Name: "rows", Rows: strings.NewReader(rows(4)), Kind: "domain:verify"}
	if _, err := intake.New(nil, w.ledger).Submit(w.t.Context(), in,
		ledger.NewRun{ID: "parent", Tenant: "default", Description: ledger.Description{Caller: "billing"}}); err != nil {
		w.t.Fatal(err)
	}
	w.settle("parent", "done", "", 0)
	w.settle("parent", "expired", "not there", 1, 2, 3)
}

// holdsOnce fails the test unless the run has n rows, all different: of many, the first and
// the last are read.
func (w *world) holdsOnce(id string, n int) {
	w.t.Helper()
	r := w.wholeRun(id)
	first, err := w.ledger.Contents(w.t.Context(), ledger.Run{Tenant: "default", ID: ledger.RunID(id)}, 0, 100)
	last, failed := w.ledger.Contents(w.t.Context(), ledger.Run{Tenant: "default", ID: ledger.RunID(id)},
		int64(max(n-100, 100)), 101)
	different := map[string]bool{}
	for _, row := range slices.Concat(first, last) {
		different[string(row)] = true
	}
	if err := errors.Join(err, failed); err != nil || r.Total() != int64(n) || len(different) != min(n, 200) {
		w.t.Errorf("%d rows, %d different ones read, %v; want %d rows", r.Total(), len(different), err, n)
	}
}

// TestSubmissionOfAKilledServer has a server end, with all that it had begun, while a body arrives.
func TestSubmissionOfAKilledServer(t *testing.T) {
	hook := &commands{}
	w := newWorld(t, hook.of(t))
	u := w.upload("k").send(rows(manyRows))
	id := u.stored(1)
	hook.set(failing(false, func(int) bool { return true }).before) // nothing that it does reaches Redis any more
	u.cut()
	w.stop()
	if r, err := w.ledger.Get(t.Context(), "", ledger.RunID(id)); err != nil || !r.Staged() {
		t.Fatalf("run %+v, %v; want it staged", r, err)
	}
	hook.heal()
	w.start()
	got := w.do(call{path: "/v1/runs/" + id, token: billing})
	got.want(t, 200, "")
	if r := got.run(t); r.State != "being submitted" || r.Rows != nil {
		t.Errorf("run %+v; want it being submitted", r)
	}
	if r := w.wholeRun(w.submit("k", rows(manyRows+1)).Run); string(r.ID) != id || r.Total() != manyRows+1 {
		t.Errorf("run %+v; want %s with %d rows", r, id, manyRows+1)
	}
}

// TestRedisIsFull has Redis refuse writes at its maxmemory.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	w := newWorld(t, func(c *httpapi.Config) {
		c.Redis, c.Ledger = rdb, ledger.New(rdb)
		c.Intake = newIntake(rdb, c.Ledger)
	})
	w.rdb, w.ledger = rdb, w.config.Ledger
	limit := func(bytes string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	u := w.upload("k").send(rows(manyRows))
	id := u.stored(1)
	limit("1")
	u.answer().want(t, 507, "full")
	if r, err := w.ledger.Get(t.Context(), "", ledger.RunID(id)); err == nil {
		t.Errorf("run %+v; want it deleted", r)
	}
	w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: "k", body: rows(1)}).want(t,
		507, "full")
	limit("0")
	if r := w.wholeRun(w.submit("k", rows(manyRows)).Run); r.Total() != manyRows {
		t.Errorf("run %+v; want %d rows", r, manyRows)
	}
}

// newDurableWorld starts a server on a Redis that keeps an append-only file: commits are read
// back.
func newDurableWorld(t *testing.T, hook *commands, change ...func(*httpapi.Config)) *world {
	t.Helper()
	redis := redistest.Start(t, "--appendonly", "yes")
	durable := func(c *httpapi.Config) {
		rdb := redis.Client()
		rdb.AddHook(redistest.Around(hook.do))
		c.Redis, c.Ledger = rdb, ledger.New(rdb)
		c.Intake = newIntake(rdb, c.Ledger)
	}
	w := newWorld(t, append([]func(*httpapi.Config){durable}, change...)...)
	w.rdb = redis.Client()
	w.ledger = ledger.New(w.rdb)
	return w
}

// committed returns the run that is committed, other than the parent; "": there is none.
func (w *world) committed() string {
	w.t.Helper()
	all, err := w.ledger.Runs(w.t.Context())
	if err != nil {
		w.t.Error(err)
	}
	for _, r := range all {
		if string(r.ID) != "parent" && r.HasAllRows() {
			return string(r.ID)
		}
	}
	return ""
}

// TestOthersDoNotWaitForReadingBack: a submission whose rows are committed, and are to be read
// back, keeps no other from being received.
func TestOthersDoNotWaitForReadingBack(t *testing.T) {
	t.Parallel()
	w := newDurableWorld(t, &commands{}, func(c *httpapi.Config) {
		c.Limits.Uploads = 1
		c.Intake.VerifyAfter = 5 * time.Second // the second has that long
	})
	first := w.upload("first").send(rows(1))
	_ = first.rest.Close()
	w.eventually(func() bool { return w.committed() != "" })
	second := call{method: "POST", path: "/v1/runs/domain:verify?dry_run=1", token: billing, body: rows(1)}
	w.eventually(func() bool { return w.do(second).StatusCode == http.StatusOK })
	if strings.Contains(w.log.String(), "rows submitted") {
		t.Error("the second had to wait until the first was read back")
	}
	first.answer().want(t, 202, "")
}

// TestRedisLosesTheRun has Redis lose a committed run before it is read back: 202 is not
// answered, and the same request stores it again.
func TestRedisLosesTheRun(t *testing.T) {
	for _, c := range []call{
		{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: "k", body: rows(3)},
		{method: "POST", path: "/v1/runs/parent/retry", token: billing, key: "k"},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			hook := &commands{}
			w := newDurableWorld(t, hook)
			w.parent()
			hook.set(func(_ int, name string) error {
				id := ""
				if name == "info" { // by which the intake learns whether Redis may lose a commit
					id = w.committed()
				}
				if id == "" {
					return nil
				}
				return w.loseRun(id)
			})
			w.do(c).want(t, 503, "store")
			hook.heal()
			again := w.do(c)
			again.want(t, 202, "")
			w.holdsOnce(again.run(t).Run, 3)
		})
	}
}

// loseRun takes back what Redis has stored of a run, and in its parent.
func (w *world) loseRun(id string) error {
	const prefix = "orgops:v3:{tenant:default}:"
	keys := []string{prefix + "run:" + id + ":header"}
	if parent, err := w.ledger.Get(w.t.Context(), "default", "parent"); err == nil {
		keys = append(keys, prefix+string(parent.Incarnation)+".0:claims")
		if err := w.rdb.HDel(w.t.Context(), prefix+"run:parent:header", "children").Err(); err != nil {
			return err
		}
	}
	return w.rdb.Del(w.t.Context(), keys...).Err()
}

// TestTraceparent: rows are submitted with the traceparent of the request.
func TestTraceparent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type key struct{}
	w := newWorld(t, func(c *httpapi.Config) {
		c.Trace = func(ctx context.Context, traceparent string) context.Context {
			return context.WithValue(ctx, key{}, traceparent)
		}
		c.Intake.Traceparent = func(ctx context.Context) string {
			text, _ := ctx.Value(key{}).(string)
			return text
		}
	})
	for _, test := range []struct{ name, header, want string }{
		{"there", parent, parent},
		{"none", "", ""},
		{"long", strings.Repeat("0", 129), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Traceparent": {test.header}}
			got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: test.name,
				body: rows(1), header: header})
			got.want(t, 202, "")
			w.settle(got.run(t).Run, "expired", "", 0)
			again := w.do(call{method: "POST", path: "/v1/runs/" + got.run(t).Run + "/retry", token: billing,
				key: test.name + "-again", header: header})
			again.want(t, 202, "")
			for _, id := range []string{got.run(t).Run, again.run(t).Run} {
				r, err := w.ledger.Get(t.Context(), "", ledger.RunID(id))
				if err != nil || r.Trace != test.want {
					t.Errorf("traceparent %q, %v; want %q", r.Trace, err, test.want)
				}
			}
		})
	}
}
