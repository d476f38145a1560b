package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// typed runs the command inside the test, against the test's Redis.
func typed(ctx context.Context, t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	url := redistest.URL(t)
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader(stdin), &out, &errs, []string{"ORGOPS_REDIS_URL=" + url, "ORGOPS_NO_WORKER_YET=true"})
	return status, out.String(), errs.String()
}

// handedIn is the task of a row as asynq has it.
type handedIn struct {
	ID, Queue, Type string
	State           asynq.TaskState
	Payload         any
	MaxRetry        int
	Timeout         time.Duration
	Retention       time.Duration
	Deadline        time.Time
	Group           string
}

func taskIn(t *testing.T, queue, id string) handedIn {
	t.Helper()
	rdb := redistest.New(t)
	info, err := asynq.NewInspectorFromRedisClient(rdb).GetTaskInfo(queue, redistest.TaskID(t, rdb, queue, id))
	if err != nil {
		t.Fatalf("task %s in %s: %v", id, queue, err)
	}
	got := handedIn{
		ID: redistest.RelativeTaskID(info.ID), Queue: info.Queue, Type: info.Type, State: info.State, MaxRetry: info.MaxRetry,
		Timeout: info.Timeout, Retention: info.Retention, Deadline: info.Deadline, Group: info.Group,
	}
	if err := json.Unmarshal(info.Payload, &got.Payload); err != nil {
		t.Fatalf("payload of %s: %v", id, err)
	}
	return got
}

// TestWireContract holds what a row becomes in the queue: workers of other
// versions, and other producers, live by it.
func TestWireContract(t *testing.T) {
	const template = `{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`
	for _, tc := range []struct {
		name    string
		args    []string
		stdin   string
		queue   string
		id      string // %s: the run's
		typ     string
		payload map[string]any // beyond v, tenant, run and created_at; "+1h": that after created_at
		tenant  string
	}{
		{
			name: "a domain to verify, all of it", args: []string{"domains", "verify", "--give-up", "1h"},
			stdin: "organization_id,discovery_domain_id,verification_host,verification_txt,use_for_organization_discovery\norg_1,dom_1,_c.example.com,\"a \"\"b\"\"\",FALSE\n",
			queue: "default.dns.fast", id: "%s-0-0", typ: "domain:verify",
			payload: map[string]any{
				"item": 0.0, "organization_id": "org_1", "discovery_domain_id": "dom_1", "verification_host": "_c.example.com",
				"verification_txt": `a "b"`, "use_for_organization_discovery": false, "give_up_at": "+1h",
			},
		},
		{
			name: "a domain to verify, the least of it", args: []string{"domains", "verify", "--org", "org_1", "--domain", "dom_1", "--tenant", "acme"},
			queue: "acme.dns.fast", id: "%s-0-0", typ: "domain:verify", tenant: "acme",
			payload: map[string]any{"item": 0.0, "organization_id": "org_1", "discovery_domain_id": "dom_1", "give_up_at": "+72h"},
		},
		{
			name: "a domain to update", args: []string{"domains", "update"},
			stdin: `{"organization_id":"org_0","discovery_domain_id":"dom_0","status":"pending"}` + "\n" +
				`{"organization_id":"org_1","discovery_domain_id":"dom_1","use_for_organization_discovery":true,"status":"verified"}`,
			queue: "default.api.fast", id: "%s-1-0", typ: "domain:update",
			payload: map[string]any{
				"item": 1.0, "organization_id": "org_1", "discovery_domain_id": "dom_1",
				"status": "verified", "use_for_organization_discovery": true,
			},
		},
		{
			name: "a domain to update, by flags", args: []string{"domains", "update", "--status", "pending", "--use-for-discovery", "false"},
			stdin: "organization_id,discovery_domain_id,status\norg_1,dom_1,\n",
			queue: "default.api.fast", id: "%s-0-0", typ: "domain:update",
			payload: map[string]any{
				"item": 0.0, "organization_id": "org_1", "discovery_domain_id": "dom_1",
				"status": "pending", "use_for_organization_discovery": false,
			},
		},
		{
			name: "a client to remove", args: []string{"clients", "remove"},
			stdin: "client_id,organization_id\nclient_1,org_1\n",
			// The hash is of the items: the first 8 bytes of SHA-256("0,").
			queue: "default.api.fast", id: "%s-0a5a2432405b31b9-0", typ: "clients:remove",
			payload: map[string]any{"items": []any{0.0}, "organization_id": "org_1", "clients": []any{"client_1"}},
		},
		{
			name: "a template to create", args: []string{"templates", "create"}, stdin: template + "\n",
			queue: "default.api.fast", id: "%s-0-0", typ: "template:create",
			payload: map[string]any{"item": 0.0, "template": decoded(t, template)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := typed(t.Context(), t, tc.stdin, tc.args...)
			if status != 0 {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			id := strings.TrimSpace(stdout)
			r, err := runs.New(redistest.New(t)).Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if tc.tenant == "" {
				tc.tenant = "default"
			}
			if r.Kind != tc.typ || r.Tenant != tc.tenant || !r.Sealed {
				t.Errorf("run is of kind %s, tenant %s, sealed %t", r.Kind, r.Tenant, r.Sealed)
			}
			want := handedIn{
				ID: fmt.Sprintf(tc.id, id), Queue: tc.queue, Type: tc.typ, State: asynq.TaskStatePending,
				MaxRetry: 1 << 30, Timeout: 10 * time.Minute, Retention: 15 * time.Minute,
			}
			tc.payload["v"], tc.payload["tenant"], tc.payload["run"], tc.payload["generation"] = 1.0, tc.tenant, id, float64(r.Generation)
			tc.payload["created_at"] = r.CreatedAt.Format(time.RFC3339Nano)
			if after, ok := tc.payload["give_up_at"].(string); ok {
				d, err := time.ParseDuration(after)
				if err != nil {
					t.Fatal(err)
				}
				tc.payload["give_up_at"] = r.CreatedAt.Add(d).Format(time.RFC3339Nano)
			}
			want.Payload = tc.payload
			got := taskIn(t, tc.queue, want.ID)
			if got.MaxRetry < 1_000_000 || got.MaxRetry >= 1<<31-1 {
				t.Errorf("MaxRetry %d is within reach, or beyond what asynq stores", got.MaxRetry)
			}
			got.MaxRetry = want.MaxRetry
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// clientRows are n rows of clients:remove, each organization with one.
func clientRows(n int) string {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range n {
		fmt.Fprintf(&b, "org_%d,client_1\n", i)
	}
	return b.String()
}

// at calls do before Redis carries out the nth command of that sort.
func at(t *testing.T, nth int32, is func(command string, args []string) bool, do func()) {
	t.Helper()
	var seen atomic.Int32
	redistest.Mini(t).Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if is(command, args) && seen.Add(1) == nth {
			do()
		}
		return false
	})
}

// refuse lets Redis answer every command with an error.
func refuse(t *testing.T) {
	redistest.Mini(t).Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
		c.WriteError("ERR it is out of order")
		return true
	})
}

// enqueues tells the step in which asynq puts a task into its queue.
func enqueues(command string, args []string) bool {
	return command == "LPUSH" && strings.HasSuffix(args[0], ":pending")
}

func pendingIDs(t *testing.T, queue string) []string {
	t.Helper()
	all, err := asynq.NewInspectorFromRedisClient(redistest.New(t)).ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, task := range all {
		ids = append(ids, task.ID)
	}
	slices.Sort(ids)
	return ids
}

// TestInterruptedAndGoneOnWith: a submission that is cut off says how to go
// on, and going on submits each row once.
func TestInterruptedAndGoneOnWith(t *testing.T) {
	const rows = 400
	for _, tc := range []struct {
		name   string
		broken func(t *testing.T, cancel func())
		status int
		want   string
	}{
		{"by a signal", func(_ *testing.T, cancel func()) { cancel() }, 130, "enqueue: interrupted: only a part of run job was submitted; to submit the rest, repeat the command with the same rows and --run job\n"},
		{"by Redis", func(t *testing.T, _ func()) { refuse(t) }, 1, "repeat the command with the same rows and --run job\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			at(t, 100, enqueues, func() { tc.broken(t, cancel) })
			status, stdout, stderr := typed(ctx, t, clientRows(rows), "clients", "remove", "--run", "job", "--follow")
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			if stdout != "job\n" {
				t.Errorf("stdout %q, want the run's id alone", stdout)
			}
			if !strings.Contains(stderr, tc.want) {
				t.Errorf("stderr %q, want %q", stderr, tc.want)
			}
			redistest.Mini(t).Server().SetPreHook(nil)
			before := pendingIDs(t, "default.api.fast")
			if len(before) == 0 || len(before) >= rows {
				t.Fatalf("%d tasks are there, want a part of %d", len(before), rows)
			}
			if r, err := runs.New(redistest.New(t)).Get(t.Context(), "job"); err != nil || r.Sealed {
				t.Errorf("run sealed %t, %v: want it open", r.Sealed, err)
			}

			status, stdout, stderr = typed(t.Context(), t, clientRows(rows), "clients", "remove", "--run", "job", "--json")
			if want := fmt.Sprintf(`{"run":"job","rows":%d,"tasks":%d}`+"\n", rows, rows); status != 0 || stdout != want {
				t.Errorf("exit status %d, stdout %q, want 0 and %q; stderr: %s", status, stdout, want, stderr)
			}
			after := pendingIDs(t, "default.api.fast")
			if len(after) != rows || len(slices.Compact(slices.Clone(after))) != rows {
				t.Errorf("%d tasks in the end, want %d", len(after), rows)
			}
		})
	}
}

// TestInterruptedBeforeTheFirstRow leaves nothing behind.
func TestInterruptedBeforeTheFirstRow(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(command string, args []string) bool
	}{
		{"while Redis is asked", func(command string, _ []string) bool { return command == "PING" }},
		{"while the rows are checked", func(command string, args []string) bool {
			return command == "GET" && args[0] == "orgops:schema"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			at(t, 1, tc.is, cancel)
			status, stdout, stderr := typed(ctx, t, clientRows(10), "clients", "remove")
			if status != 130 || stdout != "" || stderr != "enqueue: interrupted: nothing was submitted\n" {
				t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			redistest.Mini(t).Server().SetPreHook(nil)
			if all, err := runs.New(redistest.New(t)).List(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("runs %v, %v: want none", all, err)
			}
		})
	}
}

// blocked is a stdin at which nobody types, until the test ends.
type blocked <-chan struct{}

func (b blocked) Read([]byte) (int, error) {
	<-b
	return 0, os.ErrClosed
}

// TestInterruptedWhileTyping: reading a terminal cannot be broken off, so it is
// left behind.
func TestInterruptedWhileTyping(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	ctx, cancel := context.WithCancel(t.Context())
	at(t, 1, func(command string, args []string) bool { return command == "GET" && args[0] == "orgops:schema" }, cancel)
	url := redistest.URL(t)
	var out, errs bytes.Buffer
	status := run(ctx, []string{"clients", "remove", "-", "--redis-url", url, "--no-worker-yet"}, blocked(done), &out, &errs, nil)
	if status != 130 || out.String() != "" || errs.String() != "enqueue: interrupted: nothing was submitted\n" {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}

// TestInputThatChanges: what is submitted is what was checked, or the command
// fails.
func TestInputThatChanges(t *testing.T) {
	for _, tc := range []struct{ name, then string }{
		{"another row", "organization_id,client_id\norg_0,client_1\norg_1,client_2\n"},
		{"a row more", clientRows(3)},
		{"a row less", clientRows(1)},
		{"a bad row", "organization_id,client_id\norg_0,client_1\norg/1,client_1\n"},
		{"nothing", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.csv")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
			write(clientRows(2))
			// The ledger is asked to create the run between the two readings.
			at(t, 1, func(command string, args []string) bool { return command == "HSET" }, func() { write(tc.then) })
			status, stdout, stderr := typed(t.Context(), t, "", "clients", "remove", "--run", "job", file)
			if status == 0 || stdout != "job\n" {
				t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			redistest.Mini(t).Server().SetPreHook(nil)
			if r, err := runs.New(redistest.New(t)).Get(t.Context(), "job"); err != nil || r.Sealed {
				t.Errorf("run sealed %t, %v: want it open, since nobody asked for these rows", r.Sealed, err)
			}
		})
	}
}

// TestStoredRows: the rows are kept as they came, so that they can be handed
// back.
func TestStoredRows(t *testing.T) {
	status, _, stderr := typed(t.Context(), t, clientRows(2500), "clients", "remove", "--run", "job", "--label", "July\x1b[2J")
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	ledger := runs.New(redistest.New(t))
	r, err := ledger.Get(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	want := runs.Run{
		ID: "job", Kind: "clients:remove", Tenant: "default", Label: `July\x1b[2J`, Format: "csv",
		Columns: []string{"organization_id", "client_id"}, Sealed: true, Stored: 2500, Total: 2500, Counts: map[string]int64{},
		First: r.First, Generation: r.First, Floor: r.First, Digest: r.Digest, CreatedAt: r.CreatedAt, StoredAt: r.StoredAt, GiveUp: 72 * time.Hour,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	rows, err := ledger.Rows(t.Context(), "job", 2499, 10)
	if err != nil || len(rows) != 1 || string(rows[0]) != `["org_2499","client_1"]` {
		t.Errorf("the last row is %q, %v", rows, err)
	}
}
