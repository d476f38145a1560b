package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"orgops/internal/activity"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestDrain has a worker drain a ledger with runs that are paused or another
// tenant's. It ends when its own run has ended and the event was sent.
func TestDrain(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	for id, control := range map[ledger.RunID]ledger.Control{
		"paused": {Paused: true}, "later": {NotBefore: time.Now().Add(time.Hour)},
	} {
		d.handIn(ledger.NewRun{ID: id, Control: control}, tasks.TypeUpdate, box.SeedUpdates(1))
	}
	d.handIn(ledger.NewRun{ID: "elsewhere", Tenant: "elsewhere"}, tasks.TypeVerify, box.SeedDomains(1))
	ledgertest.Create(t, d.ledger, ledger.NewRun{ID: "staged", Tenant: tasks.DefaultTenant, Kind: handlers.Update})
	swept := ledger.NewRun{ID: "sweep", Tenant: tasks.DefaultTenant}
	if _, _, err := schedule.Now(t.Context(), intake.New(d.redis, d.ledger), sweep.NewStore(d.redis, tasks.DefaultTenant),
		swept, progress.Scan{}); err != nil {
		t.Fatal(err)
	}
	if err := ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Pause, "sweep"); err != nil {
		t.Fatal(err)
	}
	d.handIn(ledger.NewRun{ID: "own"}, tasks.TypeUpdate, box.SeedUpdates(30))

	if status := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain").wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	if r := d.run("own"); r.FinishedAt.IsZero() || r.Counts[ledger.Done] != 30 {
		t.Errorf("run own is not finished: %+v", r)
	}
	for _, id := range []string{"paused", "later", "elsewhere"} {
		if r := d.run(id); r.Settled() != 0 {
			t.Errorf("run %s: %v, want it open", id, r.Counts)
		}
	}

	// The activity has the life of the worker.
	page, _, err := activity.Page(t.Context(), d.redis, activity.Query{Tenants: []string{tasks.DefaultTenant}, Limit: 100,
		Text: "worker s"})
	if err != nil || len(page) != 2 || page[0].Action != activity.WorkerStopped ||
		page[1].Action != activity.WorkerStarted || page[0].Result != page[1].Result ||
		!strings.Contains(page[0].Result, ", version ") {
		t.Errorf("activity %+v, %v; want that the worker started and stopped", page, err)
	}
}

// TestGoesOn compares the runs for which a draining worker waits.
func TestGoesOn(t *testing.T) {
	now := time.Now()
	open := ledger.Run{CommittedAt: now}
	with := func(c ledger.Control) ledger.Run { return ledger.Run{CommittedAt: now, Control: c} }
	for i, tt := range []struct {
		run  ledger.Run
		want bool
	}{
		{open, true},
		{ledger.Run{}, false},
		{ledger.Run{CommittedAt: now, Growing: true}, false},
		{ledger.Run{CommittedAt: now, Growing: true, Scan: &ledger.Scan{}}, true},
		{ledger.Run{CommittedAt: now, EndedAt: now, Control: ledger.Control{Paused: true}}, true},
		{with(ledger.Control{Paused: true}), false},
		{with(ledger.Control{NotBefore: now.Add(time.Minute)}), false},
		{with(ledger.Control{NotBefore: now.Add(-time.Minute)}), true},
		{with(ledger.Control{Paused: true, Cancelled: true}), true},
		{ledger.Run{Kind: handlers.Recheck, CommittedAt: now, Growing: true, Scan: &ledger.Scan{}}, true},
		// until its summary is stored
		{ledger.Run{Kind: handlers.Recheck, CommittedAt: now, EndedAt: now, Scan: &ledger.Scan{}}, true},
		{ledger.Run{Kind: handlers.Revoke, CommittedAt: now}, true},
		{ledger.Run{Kind: handlers.Revoke}, false},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if got := continues(tt.run, now); got != tt.want {
				t.Errorf("got %t for %+v", got, tt.run)
			}
		})
	}
}
