package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// healed is a worker in the middle of two runs, on a Redis of its own, as a user whose rights
// can be withdrawn.
type healed struct {
	desk
	box   *sandbox.Sandbox
	admin *redis.Client
	work  *process
	rows  kindRows
}

// healRows is the number of rows of each run.
const healRows = 150

// startHealed returns when a part of the rows is settled.
func startHealed(t *testing.T) *healed {
	t.Helper()
	server := redistest.Start(t)
	h := &healed{box: startBox(t, sandbox.Options{}), admin: server.Client()}
	h.desk = desk{t, h.admin, ledger.New(h.admin)}
	h.acl("+@all")
	h.rows = kindRows{tasks.TypeUpdate: h.box.SeedUpdates(healRows), tasks.TypeRemove: h.box.SeedClients(healRows)}
	h.box.AddFault(sandbox.Fault{AnswerLatency: 100 * time.Millisecond})
	h.handInAll(h.rows)
	url := strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1)
	h.work = begin(t, pointedAt(h.box, url, map[string]string{"ORGOPS_RATE": "20/s", "ORGOPS_BURST": "5",
		"ORGOPS_PROBE_ADDR": "127.0.0.1:0"}))
	await(t, "some results", func() bool { return h.settledOf(h.rows) > healRows/5 })
	return h
}

// acl changes the rights of the worker's user.
func (h *healed) acl(rules ...string) {
	h.t.Helper()
	rules = append([]string{"on", ">secret", "~*", "&*"}, rules...)
	if err := h.admin.ACLSetUser(context.WithoutCancel(h.t.Context()), "worker", rules...).Err(); err != nil {
		h.t.Fatal(err)
	}
}

// evict deletes keys of the queue of rows, as Redis does with another policy than noeviction.
func (h *healed) evict(pattern string) {
	h.t.Helper()
	keys, err := h.admin.Keys(h.t.Context(), queueKey(pattern)).Result()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, key := range keys {
		if err := h.admin.Del(h.t.Context(), key).Err(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestHealsByItself withdraws a right of the worker's user between two writes of asynq's and
// of the ledger's scripts, or evicts keys of the queue. Every row has its result soon after
// the cause ends, with no attempt used up, and asynq's list of active tasks is empty. /readyz
// names the missing right.
func TestHealsByItself(t *testing.T) {
	redistest.NeedsLong(t, "takes minutes")
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("needs a Redis of its own: set " + redistest.EnvURL)
	}
	causes := map[string]func(*healed){}
	for _, command := range []string{"ZADD", "HSET", "HGET", "HINCRBY", "RPOPLPUSH", "EVALSHA"} {
		causes[command+" withdrawn"] = func(h *healed) { h.withdraw(command) }
	}
	for _, pattern := range []string{"*", "active", "lease", "t:*"} {
		causes[pattern+" evicted"] = func(h *healed) { h.evict(pattern) }
	}
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHealed(t)
			cause(h)
			h.heals()
		})
	}
}

// withdraw withdraws the right to a command for some seconds.
func (h *healed) withdraw(command string) {
	h.t.Helper()
	h.acl("-" + command)
	await(h.t, "/readyz to name the command", func() bool {
		status, body := h.work.page("probe-addr", "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(strings.ToUpper(body), command)
	})
	time.Sleep(withdrawnFor)
	h.acl("+@all")
}

// withdrawnFor is long enough for many scripts to be refused, and short enough for rows to be
// open afterwards.
const withdrawnFor = 4 * time.Second

// heals waits until every row is done and no task is active.
func (h *healed) heals() {
	h.t.Helper()
	start := time.Now()
	h.wantDone(h.rows, h.box.Requests, 2*healRows) // requests in progress may be sent again
	h.t.Logf("every row is done after %v", time.Since(start).Round(100*time.Millisecond))
	await(h.t, "no active task", func() bool {
		return h.admin.Exists(h.t.Context(), queueKey("active")).Val() == 0
	})
	h.t.Logf("no task is active after %v", time.Since(start).Round(100*time.Millisecond))
	if most, seen := attempts(logLines(h.work.stderr.String())); most != 0 || seen == 0 {
		h.t.Errorf("of %d tasks one has used up %d attempts", seen, most)
	}
}

// queueKey returns a key of asynq's for the queue of rows.
func queueKey(name string) string {
	return "asynq:{" + queues.OfRows(tasks.DefaultTenant) + "}:" + name
}
