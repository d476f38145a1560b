package main

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// halves returns two files with the tenant's clients, with that many rows each.
func halves(box *sandbox.Sandbox, rows int) (one, other []byte) {
	lines := slices.Collect(bytes.Lines(box.SeedClients(2 * rows)))
	header := lines[0]
	return bytes.Join(append([][]byte{header}, lines[1:1+rows]...), nil),
		bytes.Join(append([][]byte{header}, lines[1+rows:]...), nil)
}

// clientsOf returns the clients of a file, as <organization>,<client>, sorted.
func clientsOf(file []byte) (clients []string) {
	for _, line := range bytes.Split(bytes.TrimSpace(file), []byte("\n"))[1:] {
		clients = append(clients, string(line))
	}
	return slices.Sorted(slices.Values(clients))
}

// removedFrom returns the clients that requests have removed, sorted, with repetitions.
func removedFrom(box *sandbox.Sandbox) (clients []string) {
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpRemoveOrganizationClients && r.Handled && r.Status/100 == 2 {
			for _, client := range r.Clients {
				clients = append(clients, r.Organization+","+client)
			}
		}
	}
	return slices.Sorted(slices.Values(clients))
}

// withdraw cancels a run and deletes it when its last request is answered.
func (d desk) withdraw(id string) ledger.Run {
	d.t.Helper()
	if err := ledgertest.Control(d.t.Context(), d.ledger, (*ledger.Ledger).Cancel, id); err != nil {
		d.t.Fatal(err)
	}
	r := d.ended(id)
	if err := ledgertest.Control(d.t.Context(), d.ledger, (*ledger.Ledger).Delete, ledger.RunID(id)); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// TestRerun submits removals of the wrong clients, cancels and deletes the run, and
// submits others under the same id. Of the wrong clients only those are removed whose
// removal was done before the cancel.
func TestRerun(t *testing.T) {
	t.Parallel()
	rows := redistest.Amount(100, 150)
	oneByOne := map[string]string{"ORGOPS_MAX_CLIENTS_PER_REQUEST": "1", "ORGOPS_RATE": "40/s", "ORGOPS_BURST": "1"}
	for _, tt := range []struct {
		name    string
		already int // removals before the cancel
	}{{"before a worker has started", 0}, {"while a worker executes it", 20}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			wrong, right := halves(box, rows)
			env := pointedAt(box, redistest.URL(t), oneByOne)
			d.handIn(ledger.NewRun{ID: "nightly"}, tasks.TypeRemove, wrong)
			if tt.already > 0 {
				begin(t, env).says("worker started", nil)
				await(t, "some removals", func() bool { return len(removedFrom(box)) >= tt.already })
			}
			first := d.withdraw("nightly")
			before := removedFrom(box)
			if n := len(before); n < tt.already || n >= rows || first.Counts["done"] != int64(n) ||
				first.Counts["cancelled"] != int64(rows-n) {
				t.Errorf("%d of %d clients were removed, the run says %v", n, rows, first.Counts)
			}
			d.handIn(ledger.NewRun{ID: "nightly"}, tasks.TypeRemove, right)
			if tt.already == 0 {
				begin(t, env)
			}
			d.well("nightly", int64(rows))
			want := slices.Sorted(slices.Values(append(clientsOf(right), before...)))
			if diff := cmp.Diff(want, removedFrom(box)); diff != "" {
				t.Errorf("removed clients (-want +got):\n%s", diff)
			}
		})
	}
}

// patched returns the number of requests that changed a discovery domain.
func patched(box *sandbox.Sandbox) int {
	n := 0
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain && r.Handled && r.Status/100 == 2 {
			n++
		}
	}
	return n
}

// queued returns the number of tasks in asynq's queue of the tenant, the archive apart.
func (d desk) queued() int {
	d.t.Helper()
	info, err := asynq.NewInspectorFromRedisClient(d.redis).GetQueueInfo(engine.Queue(tasks.DefaultTenant))
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return 0
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry
}

// fewQueued is the largest permitted length of a queue, however many rows are open.
const fewQueued = 300

// watch fails if the queue is long at any time of a period.
func (d desk) watch(during time.Duration) {
	d.t.Helper()
	for until := time.Now().Add(during); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if n := d.queued(); n > fewQueued {
			d.t.Errorf("%d tasks are in the queue, want at most %d", n, fewQueued)
			return
		}
	}
}

// TestPauseOfManyRows pauses and resumes a run of which most rows are open. No change is made
// while it is paused, and the queue is always short.
func TestPauseOfManyRows(t *testing.T) {
	t.Parallel()
	rows := redistest.Amount(ledger.SegmentRows+1000, 40_000)
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	d.handIn(ledger.NewRun{ID: "many"}, tasks.TypeUpdate, box.SeedUpdates(rows))
	begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_RATE": "20/s", "ORGOPS_BURST": "5"}))
	await(t, "some changes", func() bool { return patched(box) >= 20 })
	d.watch(time.Second)
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Pause, "many"); err != nil {
		t.Fatal(err)
	}
	d.watch(time.Second)
	await(t, "the end of the rows in progress", func() bool {
		segments, err := d.ledger.Segments(t.Context(), d.runOfID("many"))
		return err == nil && !slices.ContainsFunc(segments,
			func(s ledger.SegmentState) bool { return s.Open.Released+s.Open.Running > 0 })
	})
	before := patched(box)
	d.watch(3 * time.Second)
	if after := patched(box); after != before {
		t.Errorf("%d changes while the run is paused", after-before)
	}
	if r := d.run("many"); r.Settled() != int64(before) || r.Total() != int64(rows) {
		t.Errorf("%d of %d rows are settled after %d changes", r.Settled(), r.Total(), before)
	}
	if n := d.queued(); n != 0 {
		t.Errorf("%d tasks are in the queue while the run is paused", n)
	}
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Resume, "many"); err != nil {
		t.Fatal(err)
	}
	await(t, "further changes", func() bool { return patched(box) >= before+20 })
	d.watch(time.Second)
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Cancel, "many"); err != nil {
		t.Fatal(err)
	}
	if r := d.ended("many"); r.Counts["done"]+r.Counts["unchanged"] != int64(patched(box)) {
		t.Errorf("counts %v after %d changes", r.Counts, patched(box))
	}
}

// TestBlockedWithManyRows denies the credentials the permission to update. However many rows
// are due, a worker probes the API every 30 s, and the queue is short. Once the permission is
// granted, the rows are done, and no attempt was used up.
func TestBlockedWithManyRows(t *testing.T) {
	redistest.NeedsLong(t, "waits for a probe, half a minute")
	t.Parallel()
	const rows = 150 // fifteen times as many as may be executed while the operation is blocked
	// The worker must fetch another token: a token has the scopes at the time of its grant.
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	box.SetScopes(slices.DeleteFunc(sandbox.AllScopes(),
		func(scope string) bool { return scope == "update:organization_discovery_domains" })...)
	lines := bytes.SplitAfter(box.SeedUpdates(rows+1), []byte("\n"))
	p := begin(t, pointedAt(box, redistest.URL(t), nil))
	d.handIn(ledger.NewRun{ID: "first"}, tasks.TypeUpdate, bytes.Join(lines[:2], nil))
	p.says("operation blocked", nil)
	time.Sleep(2 * time.Second) // the dispatcher reads the tenant's state every second
	d.handIn(ledger.NewRun{ID: "many"}, tasks.TypeUpdate, bytes.Join(append([][]byte{lines[0]}, lines[2:]...), nil))
	d.watch(5 * time.Second)
	if n := len(box.Requests()); n >= 10 {
		t.Errorf("%d requests while the operation is blocked, want less than 10", n)
	}
	if _, n := attempts(logLines(p.stderr.String())); n >= 10 {
		t.Errorf("%d executions while the operation is blocked, want less than 10", n)
	}
	box.SetScopes(sandbox.AllScopes()...)
	d.well("first", 1)
	d.well("many", rows)
	if n := patched(box); n != rows+1 {
		t.Errorf("%d changes of %d rows", n, rows+1)
	}
	if most, _ := attempts(logLines(p.stderr.String())); most != 0 {
		t.Errorf("%d attempts are used up", most)
	}
}
