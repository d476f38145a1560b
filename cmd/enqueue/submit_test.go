package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// typed runs the command inside the test, against the test's Redis.
func typed(ctx context.Context, t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	url := redistest.URL(t)
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader(stdin), &out, &errs,
		[]string{"ORGOPS_REDIS_URL=" + url, "ORGOPS_NO_WORKER_YET=true"})
	return status, out.String(), errs.String()
}

// TestWireContract checks the bytes of a row in the ledger, which are copied into its task
// unchanged: workers of other versions, and other producers, depend on them.
func TestWireContract(t *testing.T) {
	const template = `{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`
	for _, tc := range []struct {
		name   string
		args   []string
		stdin  string
		typ    string
		label  string
		rows   []string      // as the ledger stores them
		tenant string        // "": default
		giveUp time.Duration // 0: none
	}{
		{
			name: "a domain to verify, all of it", args: []string{"domains", "verify", "--give-up", "1h"},
			stdin: "organization_id,discovery_domain_id,verification_host,verification_txt,use_for_organization_discovery\norg_1,dom_1,_c.example.com,\"a \"\"b\"\"\",FALSE\n",
			typ:   "domain:verify", giveUp: time.Hour,
			rows: []string{
				`{"organization_id":"org_1","discovery_domain_id":"dom_1","verification_host":"_c.example.com","verification_txt":"a \"b\"","use_for_organization_discovery":false}`,
			},
		},
		{
			name: "a domain to verify, the least of it", args: []string{"domains", "verify", "--org", "org_1", "--domain",
				"dom_1", "--tenant", "acme"},
			typ: "domain:verify", tenant: "acme",
			rows: []string{`{"organization_id":"org_1","discovery_domain_id":"dom_1"}`},
		},
		{
			name: "a domain to update", args: []string{"domains", "update"},
			stdin: `{"organization_id":"org_0","discovery_domain_id":"dom_0","status":"pending"}` + "\n" +
				`{"organization_id":"org_1","discovery_domain_id":"dom_1","use_for_organization_discovery":true,"status":"verified"}`,
			typ: "domain:update",
			rows: []string{
				`{"organization_id":"org_0","discovery_domain_id":"dom_0","status":"pending"}`,
				`{"organization_id":"org_1","discovery_domain_id":"dom_1","status":"verified","use_for_organization_discovery":true}`,
			},
		},
		{
			name: "a domain to update, by flags", args: []string{"domains", "update", "--status", "pending",
				"--use-for-discovery", "false"},
			stdin: "organization_id,discovery_domain_id,status\norg_1,dom_1,\n",
			typ:   "domain:update",
			rows: []string{
				`{"organization_id":"org_1","discovery_domain_id":"dom_1","status":"pending","use_for_organization_discovery":false}`,
			},
		},
		{
			name: "a client to remove", args: []string{"clients", "remove", "--label", "July\x1b[2J"}, label: `July\x1b[2J`,
			stdin: "client_id,organization_id\nclient_1,org_1\n",
			typ:   "clients:remove",
			rows:  []string{`{"organization_id":"org_1","client_id":"client_1"}`},
		},
		{
			name: "a template to create", args: []string{"templates", "create"}, stdin: template + "\n",
			typ:  "template:create",
			rows: []string{template},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := typed(t.Context(), t, tc.stdin, tc.args...)
			if status != 0 {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			id := strings.TrimSpace(stdout)
			r, err := ledger.New(redistest.New(t)).Get(t.Context(), "", ledger.RunID(id))
			if err != nil {
				t.Fatal(err)
			}
			if tc.tenant == "" {
				tc.tenant = "default"
			}
			if string(r.Kind) != tc.typ || string(r.Tenant) != tc.tenant || !r.HasAllRows() || r.GiveUp != tc.giveUp ||
				r.Label != tc.label {
				t.Errorf("run is of kind %s, tenant %s, all rows known %t, given up after %s, labelled %q", r.Kind, r.Tenant, r.HasAllRows(),
					r.GiveUp, r.Label)
			}
			holdRows(t, r, tc.rows)
		})
	}
}

// holdRows checks the rows of a run as stored in the ledger.
func holdRows(t *testing.T, run ledger.Run, want []string) {
	t.Helper()
	rows, err := ledger.New(redistest.New(t)).Contents(t.Context(), run, 0, len(want)+1)
	if err != nil {
		t.Fatal(err)
	}
	var got, wanted []any
	for _, row := range rows {
		got = append(got, decoded(t, string(row)))
	}
	for _, row := range want {
		wanted = append(wanted, decoded(t, row))
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
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

// clientRows returns n rows of clients:remove, one for each organization.
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

// refuse makes Redis answer every command with an error.
func refuse(t *testing.T) {
	redistest.Mini(t).Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
		c.WriteError("ERR it is out of order")
		return true
	})
}

// stages reports whether a command writes to the second segment of a run.
func stages(command string, args []string) bool {
	second := func(arg string) bool {
		return strings.HasPrefix(arg, "orgops:v3:{tenant:") && strings.Contains(arg, ".1:")
	}
	return strings.HasPrefix(command, "EVAL") && slices.ContainsFunc(args, second)
}

// TestInterruptedSubmissionIsCompleted interrupts a submission. The staged rows are deleted.
// If Redis cannot delete them, the command prints how to complete the run, and none of its
// rows starts. The same command then submits each row once.
func TestInterruptedSubmissionIsCompleted(t *testing.T) {
	t.Parallel()
	rows := redistest.Amount(ledger.SegmentRows+400, 2*ledger.SegmentRows+400)
	for _, tc := range []struct {
		name   string
		broken func(t *testing.T, cancel func())
		status int
		want   string
		staged bool
	}{
		{"by a signal", func(_ *testing.T, cancel func()) { cancel() }, 130,
			"enqueue: interrupted: nothing was submitted\n", false},
		{"by Redis", func(t *testing.T, _ func()) { refuse(t) }, 1,
			"run job is not complete; to complete it, submit the same rows again under its id (--run job)\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			at(t, 1, stages, func() { tc.broken(t, cancel) })
			status, stdout, stderr := typed(ctx, t, clientRows(rows), "clients", "remove", "--run", "job", "--follow")
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			if stdout != "" {
				t.Errorf("stdout %q, want none", stdout)
			}
			if !strings.Contains(stderr, tc.want) {
				t.Errorf("stderr %q, want %q", stderr, tc.want)
			}
			redistest.Mini(t).Server().SetPreHook(nil)
			l := ledger.New(redistest.New(t))
			wantStaged(t, l, tc.staged)

			status, stdout, stderr = typed(t.Context(), t, clientRows(rows), "clients", "remove", "--run", "job", "--json")
			if want := fmt.Sprintf(`{"run":"job","rows":%d,"tasks":%d}`+"\n", rows, rows); status != 0 || stdout != want {
				t.Errorf("exit status %d, stdout %q, want 0 and %q; stderr: %s", status, stdout, want, stderr)
			}
			wantRows(t, l, rows)
		})
	}
}

// wantStaged checks that run "job" is staged and that none of its rows can start, or that the
// run does not exist.
func wantStaged(t *testing.T, l *ledger.Ledger, staged bool) {
	t.Helper()
	r, err := l.Get(t.Context(), "", "job")
	if !staged {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("run %+v, %v: want none", r, err)
		}
		return
	}
	if err != nil || r.HasAllRows() {
		t.Errorf("run all rows known %t, %v: want it open", r.HasAllRows(), err)
	}
	seg, _, err := firstSegment(t.Context(), l, "job")
	if err != nil {
		t.Fatal(err)
	}
	if released, err := l.Release(t.Context(), seg, ledger.Quota{First: 1}); err == nil && len(released.Rows) > 0 {
		t.Error("rows begin before all are in")
	}
}

// TestCancelledWhileSubmitted checks that a run which is cancelled during its submission
// accepts no rows, neither from its producer nor from the same command later.
func TestCancelledWhileSubmitted(t *testing.T) {
	const rows = ledger.SegmentRows + 1
	l := ledger.New(redistest.New(t))
	at(t, 1, stages, func() {
		if err := l.Cancel(t.Context(), "default", "job"); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		status, _, stderr := typed(t.Context(), t, clientRows(rows), "clients", "remove", "--run", "job")
		if status != 1 ||
			!strings.Contains(stderr,
				"enqueue: run job was cancelled\nsubmit its rows again as another run, if they are still wanted\n") {
			t.Errorf("exit status %d, stderr %q", status, stderr)
		}
	}
	if r, err := l.Get(t.Context(), "", "job"); err != nil || !r.Ended() || r.Total() != 0 {
		t.Errorf("run %+v, %v: want it ended without rows", r, err)
	}
	if status, stdout, stderr := typed(t.Context(), t, "", "runs", "delete", "job", "--yes"); status != 0 {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if status, _, stderr := typed(t.Context(), t, clientRows(rows), "clients", "remove", "--run", "job"); status != 0 {
		t.Errorf("exit status %d, stderr %q", status, stderr)
	}
	if r, err := l.Get(t.Context(), "", "job"); err != nil || r.Total() != rows {
		t.Errorf("run %+v, %v: want %d rows", r, err, rows)
	}
}

// TestInterruptedBeforeTheFirstRow checks that an interrupted submission without rows leaves
// no data.
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
			if all, err := ledger.New(redistest.New(t)).Runs(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("runs %v, %v: want none", all, err)
			}
		})
	}
}

// blocked is a stdin without input until the test ends.
type blocked <-chan struct{}

func (b blocked) Read([]byte) (int, error) {
	<-b
	return 0, os.ErrClosed
}

// TestInterruptedWhileTyping checks that the command ends although a read of a terminal cannot
// be cancelled.
func TestInterruptedWhileTyping(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	ctx, cancel := context.WithCancel(t.Context())
	at(t, 1, func(command string, args []string) bool { return command == "GET" && args[0] == "orgops:schema" }, cancel)
	url := redistest.URL(t)
	var out, errs bytes.Buffer
	status := run(ctx, []string{"clients", "remove", "-", "--redis-url", url, "--no-worker-yet"},
		blocked(done), &out, &errs, nil)
	if status != 130 || out.String() != "" || errs.String() != "enqueue: interrupted: nothing was submitted\n" {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}
