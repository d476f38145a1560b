package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// kindRows are files of rows by their kinds.
type kindRows map[string][]byte

func runOf(kind string) string { return strings.ReplaceAll(kind, ":", "-") }

// handInAll submits a run of each kind.
func (d desk) handInAll(all kindRows) {
	d.t.Helper()
	for kind, rows := range all {
		d.handIn(ledger.NewRun{ID: ledger.RunID(runOf(kind))}, kind, rows)
	}
}

// settledOf returns the number of settled rows of all runs.
func (d desk) settledOf(all kindRows) (n int64) {
	d.t.Helper()
	for kind := range all {
		n += d.run(runOf(kind)).Settled()
	}
	return n
}

// wantDone waits until the runs are finished, and checks that every row is done and has had its
// effect, by the requests. again is how many requests of a run may have been repeated; of
// templates, none.
func (d desk) wantDone(all kindRows, log func() []sandbox.Request, again int) {
	d.t.Helper()
	n := 0
	for kind := range all {
		d.finished(runOf(kind))
	}
	changes, _ := byRecord(log())
	for kind, file := range all {
		rows, repeated := cellsIn(d.t, string(file)), map[int64]bool{}
		n += len(rows)
		d.well(runOf(kind), int64(len(rows)))
		for _, cells := range rows {
			made := changes[keyOf(cells)]
			if len(made) == 0 {
				d.t.Errorf("%s: nothing was sent for %q", kind, cells)
			}
			for _, r := range made[min(1, len(made)):] {
				repeated[r.Seq] = true
			}
		}
		if most := again; len(repeated) > most || kind == tasks.TypeCreate && len(repeated) > 0 {
			d.t.Errorf("%s: %d requests were sent again, want at most %d", kind, len(repeated), most)
		}
	}
	if len(changes) != n {
		d.t.Errorf("%d records were changed by %d rows", len(changes), n)
	}
}

// wantEvent checks that the processes logged the end of the kind's run as one event. An event
// is repeated if the worker that notified it ended right after that.
func wantEvent(t *testing.T, kind string, rows int, from ...*process) {
	t.Helper()
	var events []map[string]any
	for _, p := range from {
		for _, line := range logLines(p.stderr.String()) {
			same := func(other map[string]any) bool { return other["id"] == line["id"] }
			if line["msg"] == "event" && line["run"] == runOf(kind) && !slices.ContainsFunc(events, same) {
				events = append(events, line)
			}
		}
	}
	if len(events) != 1 {
		t.Fatalf("%s: events %v, want one", kind, events)
	}
	counts, _ := events[0]["counts"].(map[string]any)
	done, _ := counts["done"].(float64)
	unchanged, _ := counts["unchanged"].(float64)
	if events[0]["kind"] != kind || int(done+unchanged) != rows {
		t.Errorf("event %v, want %d rows of kind %s", events[0], rows, kind)
	}
}

// TestStoppedAndContinued has a worker execute a run of each kind, stops it in the middle, and
// has another one continue. Every change is made once, and the end of each run is an event.
func TestStoppedAndContinued(t *testing.T) {
	redistest.NeedsLong(t, "executes 750 rows")
	t.Parallel()
	const rows = 250
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	all := kindRows{tasks.TypeUpdate: box.SeedUpdates(rows), tasks.TypeRemove: box.SeedClients(rows),
		tasks.TypeCreate: box.SeedTemplates(rows)}
	slow := box.AddFault(sandbox.Fault{AnswerLatency: 50 * time.Millisecond})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
		"ORGOPS_RATE": "200/s", "ORGOPS_BURST": "40"})
	first := begin(t, env)
	first.says("worker started", nil)
	if all, err := d.ledger.Sessions(t.Context()); err != nil || len(all) != 1 || all[0].Version != version ||
		!slices.Equal(all[0].Tenants, []ledger.Tenant{"default"}) || len(all[0].Kinds) != 10 { // three of them scans
		t.Errorf("sessions %+v, %v", all, err)
	}
	d.handInAll(all)
	await(t, "some rows", func() bool { return d.settledOf(all) > 50 })
	if status := first.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	if n := d.settledOf(all); n == 3*rows {
		t.Error("all was done before the worker was stopped: the test shows nothing")
	}
	if all, err := d.ledger.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("sessions %v, %v after the worker's end; want none", all, err)
	}
	slow()
	second := begin(t, env)
	d.wantDone(all, box.Requests, 0)
	for kind := range all {
		wantEvent(t, kind, rows, first, second)
	}
	if most, seen := attempts(append(logLines(first.stderr.String()), logLines(second.stderr.String())...)); most != 0 {
		t.Errorf("%d attempts are counted of one of %d tasks", most, seen)
	}
	// Removals are three requests, of which the first worker may have made all.
	if _, metrics := second.page("probe-addr", "/metrics"); !strings.Contains(metrics,
		`orgops_tasks_total{outcome="done",tenant="default",type="domain:update"}`) {
		t.Errorf("no updates in\n%s", metrics)
	}
	second.says("task", map[string]string{"type": tasks.TypeUpdate, "tenant": "default",
		"run": runOf(tasks.TypeUpdate), "outcome": "done"})
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain &&
			!strings.HasPrefix(r.CorrelationID, runOf(tasks.TypeUpdate)+":0:") {
			t.Errorf("correlation id %q, want that of the row", r.CorrelationID)
			break
		}
	}
}

// TestCutOff stops a worker whose requests take longer than the shutdown timeout. The
// worker returns their rows at once. Another worker reads the results of the requests and
// executes the rows.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const rows = 12
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	quick := box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, AnswerLatency: 20 * time.Second})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_SHUTDOWN_TIMEOUT": "1s"})
	first := begin(t, env)
	d.handIn(ledger.NewRun{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(rows))
	await(t, "requests under way", func() bool { return patches(box) == rows })
	if status := first.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	run := d.run("updates")
	states, err := d.ledger.Rows(t.Context(), ledger.Segment{Tenant: run.Tenant, Run: run.ID,
		Incarnation: run.Incarnation}, 0, rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range states {
		if row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 || row.Intent == nil {
			t.Errorf("row %d: %+v, want it to wait, with an intent and no attempt", row.Row, row)
		}
	}
	quick()
	begin(t, env)
	d.finished("updates")
	if c := d.run("updates").Counts; c[ledger.Done] != rows {
		t.Errorf("counts %v", c)
	}
	if n := patches(box); n != rows {
		t.Errorf("%d PATCHes for %d rows", n, rows)
	}
}
