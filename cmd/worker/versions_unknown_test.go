package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// unknown is a row with a member that only a newer version knows.
type unknown struct {
	run     ledger.RunID
	kind    ledger.Kind
	content string // of the row
	version int    // of the task
	member  string // of the task, with a comma; empty: none
	stage   string // as the ledger stores it
	what    string // the note says that a worker does not know it
}

// TestOlderWorkerUnknown delivers rows that the older worker does not know, as the dispatcher
// of a newer version does. It gives them back unchanged. The present worker then executes the
// rows that it knows, and the newer version the others.
func TestOlderWorkerUnknown(t *testing.T) {
	f := assembleVersions(t)
	t.Parallel()
	clients, more := f.clientRows(4)
	clients = append(clients, more...)
	n := newer{fleet: f, core: f.ledger, session: ledger.NewSessionID()}
	n.lead()
	older := f.start("older", "older")

	row := func(i int, member string) string {
		organization, client, _ := strings.Cut(clients[i], ",")
		return fmt.Sprintf(`{"organization_id":%q,"client_id":%q%s}`, organization, client, member)
	}
	segments := map[ledger.RunID]ledger.Segment{}
	for _, u := range []unknown{
		{"version", handlers.Remove, row(0, ""), engine.Protocol + 1, "", "c", "version "},
		{"member", handlers.Remove, row(1, ""), engine.Protocol, `"newer":true,`, "c", "a member "},
		{"stage", handlers.Remove, row(2, ""), engine.Protocol, "", "n", `stage "n"`},
		{"row", handlers.Remove, row(3, `,"newer":true`), engine.Protocol, "", "c", "a member "},
		{"kind", "clients:newer", row(3, ""), engine.Protocol, "", "c", `kind "clients:newer"`},
	} {
		t.Run(string(u.run), func(t *testing.T) { segments[u.run] = n.at(t).wantGivenBack(u) })
	}
	f.awaitNoTask(engine.Queue(tasks.DefaultTenant))
	f.archivedNothing()
	older.stop()
	if t.Failed() { // the steps below wait for rows that may be settled
		return
	}

	n.restage(segments["stage"], "n", "c")
	n.follow()
	present := f.start("present", "worker")
	f.endedDone("version", "member", "stage")
	present.stop()
	n.lead()
	for _, run := range []ledger.RunID{"row", "kind"} {
		n.execute(segments[run], ledger.Result{Outcome: ledger.Done})
	}
	f.endedDone("row", "kind")
	f.wantRemoved(clients[:3])
	f.awaitNoTask(engine.Queue(tasks.DefaultTenant))
	f.archivedNothing()
}

// stop stops a worker as a deployment does.
func (r *running) stop() {
	r.fleet.t.Helper()
	r.signal(syscall.SIGTERM)
	if err := r.wait(patience); err != nil {
		r.fleet.t.Errorf("the worker ended with %v", err)
	}
}

func (f *fleet) endedDone(runs ...string) {
	f.t.Helper()
	for _, id := range runs {
		if r := f.ended(id); r.Counts["done"] != 1 {
			f.t.Errorf("run %s: counts %v, want its row done", id, r.Counts)
		}
	}
}

// newer acts as dispatcher and worker of a newer version.
type newer struct {
	*fleet

	core    *ledger.Ledger
	session ledger.SessionID
}

// at returns n for a subtest.
func (n newer) at(t *testing.T) newer {
	f := *n.fleet
	f.t = t
	n.fleet = &f
	return n
}

// lease is the key of the tenant's lease, as internal/dispatch names it.
const lease = "orgops:v3:{tenant:" + tasks.DefaultTenant + "}:dispatcher"

// lead takes the lease while the newer version dispatches, so that no other worker does.
func (n newer) lead() {
	n.t.Helper()
	if err := n.redis.Set(n.t.Context(), lease, fmt.Sprintf("%d:%s", engine.Protocol+1, n.session),
		time.Hour).Err(); err != nil {
		n.t.Fatal(err)
	}
}

// follow gives up the dispatcher's lease.
func (n newer) follow() {
	n.t.Helper()
	if err := n.redis.Del(n.t.Context(), lease).Err(); err != nil {
		n.t.Fatal(err)
	}
}

// wantGivenBack submits and delivers a row. It checks that the worker gives it back unchanged
// but for a note, and sent no request for it.
func (n newer) wantGivenBack(u unknown) ledger.Segment {
	n.t.Helper()
	run, _, err := n.core.SubmitRow(n.t.Context(), ledger.NewRun{
		ID: u.run, Tenant: tasks.DefaultTenant, Kind: u.kind, Description: ledger.Description{Format: "jsonl"},
	}, []byte(u.content))
	if err != nil {
		n.t.Fatal(err)
	}
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	n.execute(seg, ledger.Waiting{Stage: ledger.StageCheck, CountAttempt: true, Memo: []byte("transient\x00503\x00")})
	n.restage(seg, "c", u.stage)
	before := n.row(seg)
	n.deliver(run, seg, u)
	var after ledger.RowState
	await(n.t, "the row to be given back", func() bool {
		after = n.row(seg)
		return after.Phase == ledger.PhaseSettled || after.Phase == ledger.PhaseWaiting && after.Checkpoint.Note != ""
	})
	if note := after.Checkpoint.Note; !strings.Contains(note, "does not know "+u.what) ||
		!strings.Contains(note, "a newer worker is needed") {
		n.t.Errorf("note %q, want that %s is not known", note, u.what)
	}
	after.Checkpoint.Note = ""
	before.Due, after.Due = time.Time{}, time.Time{}
	if diff := cmp.Diff(before, after); diff != "" {
		n.t.Errorf("row (-before +after):\n%s", diff)
	}
	if removed := n.removed(); len(removed) > 0 {
		n.t.Errorf("removed %q", removed)
	}
	return seg
}

func (n newer) row(seg ledger.Segment) ledger.RowState {
	n.t.Helper()
	rows, err := n.core.Rows(n.t.Context(), seg, 0, 1)
	if err != nil || len(rows) != 1 {
		n.t.Fatalf("rows %v, %v", rows, err)
	}
	return rows[0]
}

// release waits until the row is due, and releases it.
func (n newer) release(seg ledger.Segment) (r ledger.Release) {
	n.t.Helper()
	await(n.t, "a due row", func() (due bool) {
		var err error
		if r, err = n.core.Release(n.t.Context(), seg, ledger.Quota{First: 1, Check: 1, Ready: 1}); err != nil {
			n.t.Fatal(err)
		}
		return len(r.Rows) == 1
	})
	return r
}

// execute executes the row as a worker of the newer version does.
func (n newer) execute(seg ledger.Segment, e ledger.Ending) {
	n.t.Helper()
	x := ledger.Execution{Token: n.release(seg).Token, Nonce: ledger.NewNonce(), Session: n.session}
	_, err := n.core.Begin(n.t.Context(), seg, x, 0)
	if err == nil {
		_, err = n.core.End(n.t.Context(), seg, x.Nonce, ledger.Ends(e, 0)...)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// restage replaces the letter of the row's stage, which the ledger stores with the row after
// one attempt. The ledger's own functions write no unknown stage.
func (n newer) restage(seg ledger.Segment, from, to string) {
	n.t.Helper()
	key := fmt.Sprintf("orgops:v3:{tenant:%s}:%s.%d:values", seg.Tenant, seg.Incarnation, seg.Number)
	value, err := n.redis.HGet(n.t.Context(), key, "0").Result()
	if err == nil && !strings.Contains(value, ":"+from+"1,") {
		err = fmt.Errorf("stored %q, want stage %s", value, from)
	}
	if err == nil {
		err = n.redis.HSet(n.t.Context(), key, "0", strings.Replace(value, ":"+from+"1,", ":"+to+"1,", 1)).Err()
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// deliver releases the row and enqueues its task.
func (n newer) deliver(run ledger.Run, seg ledger.Segment, u unknown) {
	n.t.Helper()
	r := n.release(seg)
	task := engine.NewTask(run, seg, r.Token, r.Rows...)
	task.Version = u.version
	payload, err := task.Marshal()
	if err == nil {
		payload = []byte(strings.Replace(string(payload), "{", "{"+u.member, 1))
		_, err = asynq.NewClientFromRedisClient(n.redis).EnqueueContext(n.t.Context(),
			asynq.NewTask(string(run.Kind), payload),
			asynq.Queue(engine.Queue(run.Tenant)), asynq.TaskID(task.ID()), asynq.Timeout(engine.TaskTimeout))
	}
	if err != nil {
		n.t.Fatal(err)
	}
}
