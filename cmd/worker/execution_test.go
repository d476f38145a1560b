package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// stage creates a run and stages its rows, without a commit.
func (d desk) stage(n ledger.NewRun, rows [][]byte) *ledger.Stager {
	d.t.Helper()
	if n.Tenant == "" {
		n.Tenant = tasks.DefaultTenant
	}
	core := d.ledger
	run, _, err := core.Create(d.t.Context(), n)
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := core.NewStager(d.t.Context(), run)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, row := range rows {
		if err := s.Add(d.t.Context(), row); err != nil {
			d.t.Fatal(err)
		}
	}
	return s
}

// submit submits a run.
func (d desk) submit(n ledger.NewRun, rows [][]byte) {
	d.t.Helper()
	run, err := d.stage(n, rows).Commit(d.t.Context())
	if err == nil {
		err = d.ledger.Wake(d.t.Context(), run.Tenant)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// runOfID reads a run of the ledger.
func (d desk) runOfID(id ledger.RunID) ledger.Run {
	d.t.Helper()
	r, err := d.ledger.Get(d.t.Context(), "", id)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// counts reads the exact number of settled rows of a run of the ledger.
func (d desk) counts(id ledger.RunID) ledger.Counts {
	d.t.Helper()
	return d.runOfID(id).Counts
}

// finished waits until a run of the ledger has ended and its end is processed.
func (d desk) finished(id ledger.RunID) {
	d.t.Helper()
	await(d.t, "the end of run "+string(id), func() bool { return !d.runOfID(id).FinishedAt.IsZero() })
}

// jsonRows returns rows of the sandbox's CSV as the contents of rows.
func jsonRows(t *testing.T, file []byte) (rows [][]byte) {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]any{}
		for i, name := range lines[0] {
			switch {
			case line[i] == "":
			case name == "use_for_organization_discovery":
				row[name] = line[i] == "true"
			default:
				row[name] = line[i]
			}
		}
		content, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, content)
	}
	return rows
}

// rowsOfKinds are rows by their kinds.
type rowsOfKinds map[ledger.Kind][][]byte

func rowsByKind(t *testing.T, updates, clients, templates []byte) rowsOfKinds {
	t.Helper()
	return rowsOfKinds{handlers.Update: jsonRows(t, updates), handlers.Remove: jsonRows(t, clients),
		handlers.Create: bytes.Split(bytes.TrimSpace(templates), []byte("\n"))}
}

func runOf(k ledger.Kind) ledger.RunID { return ledger.RunID(strings.ReplaceAll(string(k), ":", "-")) }

// submitAll submits a run of each kind.
func (d desk) submitAll(rows rowsOfKinds) {
	d.t.Helper()
	for kind, of := range rows {
		d.submit(ledger.NewRun{ID: runOf(kind), Kind: kind, Description: ledger.Description{Format: "csv"}}, of)
	}
}

// settledOf returns the number of settled rows of all runs.
func (d desk) settledOf(rows rowsOfKinds) (n int64) {
	d.t.Helper()
	for kind := range rows {
		n += d.counts(runOf(kind)).Settled()
	}
	return n
}

// wantDone checks that every row of the runs is done.
func (d desk) wantDone(rows rowsOfKinds) {
	d.t.Helper()
	for kind, of := range rows {
		d.finished(runOf(kind))
		if c := d.counts(runOf(kind)); c[ledger.Done]+c[engine.Unchanged] != int64(len(of)) || c.Settled() != int64(len(of)) {
			d.t.Errorf("%s: counts %v, want %d done", kind, c, len(of))
		}
	}
}

// effects checks that each row has taken effect, by the requests. again is how many requests
// of a kind may have been repeated. A template must never be created twice.
func (rows rowsOfKinds) effects(t *testing.T, log []sandbox.Request, again int) {
	t.Helper()
	updates, removals, creations := effects{}, effects{}, effects{}
	for _, r := range log {
		if !r.Handled || r.Status/100 != 2 {
			continue
		}
		switch r.Operation {
		case sandbox.OpUpdateDiscoveryDomain:
			updates.add(r.Domain)
		case sandbox.OpRemoveOrganizationClients:
			removals.add(r.Clients...)
		case sandbox.OpCreateTemplate:
			creations.add(r.Template)
		}
	}
	for _, tt := range []struct {
		kind    ledger.Kind
		member  string
		effects effects
		again   int
	}{{handlers.Update, "discovery_domain_id", updates, again}, {handlers.Remove, "client_id", removals, again},
		{handlers.Create, "name", creations, 0}} {
		for _, content := range rows[tt.kind] {
			var row map[string]any
			if err := json.Unmarshal(content, &row); err != nil {
				t.Fatal(err)
			}
			if !tt.effects.on[fmt.Sprint(row[tt.member])] {
				t.Errorf("%s: nothing was sent for %s", tt.kind, content)
			}
		}
		if len(tt.effects.on) != len(rows[tt.kind]) || tt.effects.again > tt.again {
			t.Errorf("%s: %d of %d rows, %d requests sent again, want at most %d", tt.kind, len(tt.effects.on),
				len(rows[tt.kind]), tt.effects.again, tt.again)
		}
	}
}

// effects are the effects of the requests of one kind.
type effects struct {
	on    map[string]bool // names of the records that were changed
	again int             // requests that changed a record again
}

func (e *effects) add(names ...string) {
	if e.on == nil {
		e.on = map[string]bool{}
	}
	repeated := false
	for _, name := range names {
		repeated = repeated || e.on[name]
		e.on[name] = true
	}
	if repeated {
		e.again++
	}
}

// wantEvent checks that the processes logged the end of the kind's run as one event. An event
// is repeated if the worker that notified it ended right after that.
func wantEvent(t *testing.T, kind ledger.Kind, rows int, from ...*process) {
	t.Helper()
	var events []map[string]any
	for _, p := range from {
		for _, line := range logLines(p.stderr.String()) {
			same := func(other map[string]any) bool { return other["id"] == line["id"] }
			if line["msg"] == "event" && line["run"] == string(runOf(kind)) && !slices.ContainsFunc(events, same) {
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
	if events[0]["kind"] != string(kind) || int(done+unchanged) != rows {
		t.Errorf("event %v, want %d rows of kind %s", events[0], rows, string(kind))
	}
}

// TestStoppedAndContinued has a worker execute a run of each kind, stops it in the middle, and
// has another one continue. Every change is made once, and the end of each run is an event.
func TestStoppedAndContinued(t *testing.T) {
	redistest.NeedsLong(t, "executes 750 rows")
	t.Parallel()
	const rows = 250
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	all := rowsByKind(t, box.SeedUpdates(rows), box.SeedClients(rows), box.SeedTemplates(rows))
	slow := box.AddFault(sandbox.Fault{AnswerLatency: 50 * time.Millisecond})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
		"ORGOPS_RATE": "200/s", "ORGOPS_BURST": "40"})
	first := begin(t, env)
	first.says("worker started", nil)
	if all, err := d.ledger.Sessions(t.Context()); err != nil || len(all) != 1 || all[0].Version != version ||
		!slices.Equal(all[0].Tenants, []ledger.Tenant{"default"}) || len(all[0].Kinds) != 8 { // two of them scans
		t.Errorf("sessions %+v, %v", all, err)
	}
	d.submitAll(all)
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
	d.wantDone(all)
	all.effects(t, box.Requests(), 0)
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
	second.says("task", map[string]string{"type": string(handlers.Update), "tenant": "default",
		"run": string(runOf(handlers.Update)), "outcome": "done"})
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain &&
			!strings.HasPrefix(r.CorrelationID, string(runOf(handlers.Update))+":0:") {
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
	all := jsonRows(t, box.SeedUpdates(rows))
	quick := box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, AnswerLatency: 20 * time.Second})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_SHUTDOWN_TIMEOUT": "1s"})
	first := begin(t, env)
	d.submit(ledger.NewRun{ID: "updates", Kind: handlers.Update}, all)
	patches := func() (n int) {
		for _, r := range box.Requests() {
			if r.Operation == sandbox.OpUpdateDiscoveryDomain {
				n++
			}
		}
		return n
	}
	await(t, "requests under way", func() bool { return patches() == rows })
	if status := first.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	run := d.runOfID("updates")
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
	if c := d.counts("updates"); c[ledger.Done] != rows {
		t.Errorf("counts %v", c)
	}
	if n := patches(); n != rows {
		t.Errorf("%d PATCHes for %d rows", n, rows)
	}
}
