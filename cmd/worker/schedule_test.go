package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/cli"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// pastTick sets the last tick of the tenant's schedule to two days ago.
func pastTick(t *testing.T, d desk) *sweep.Store {
	t.Helper()
	store := sweep.NewStore(d.redis, tasks.DefaultTenant)
	now, err := store.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := store.SetTicks(t.Context(), &sweep.Ticks{Tick: now.Add(-48 * time.Hour).Unix()}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return store
}

// TestSweepOfTheSchedule checks that a restarted worker catches up on the last tick that it
// has missed: it checks every verified domain and stores the summary of the sweep.
func TestSweepOfTheSchedule(t *testing.T) {
	t.Parallel()
	const domains = 7
	box := startBox(t, sandbox.Options{})
	for i := range domains {
		d := box.AddDomain("org_1", sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Status: string(schema.StatusVerified)})
		box.SetTXT(d.Host, d.TXT)
	}
	d := newDesk(t)
	store := pastTick(t, d)
	due := time.Now().UTC().Add(-22 * time.Hour) // all checks are overdue, and the next tick is far
	cron := fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour())
	p := begin(t, pointedAt(box, redistest.URL(t), nil), "--sweep", cron, "--protect", "acme.example", "--grace", "48h")
	var judged sweep.Summary
	await(t, "the summary of the sweep", func() bool {
		value, err := store.State(t.Context(), sweep.SummaryState)
		if err != nil {
			t.Fatal(err)
		}
		return value != nil && json.Unmarshal(value, &judged) == nil
	})
	ticks, err := store.Ticks(t.Context())
	if err != nil || ticks.Sweep.Tick != ticks.Tick || ticks.Tick != due.Truncate(time.Minute).Unix() ||
		judged.Run != ticks.Sweep.Run || judged.Tick != ticks.Tick || judged.Present != domains {
		t.Errorf("ticks %+v, judged %+v, %v", ticks, judged, err)
	}
	if r := d.run(judged.Run); !r.Ended() || r.Kind != tasks.TypeRecheck || r.Total() != domains ||
		!strings.HasPrefix(r.Label, "scheduled for ") {
		t.Errorf("run %+v", r)
	}
	s, ok, err := tenant.ReadAnnounced(t.Context(), d.redis, tasks.DefaultTenant)
	if err != nil || !ok || s.Sweep != cron || s.Grace != cli.Duration(48*time.Hour) ||
		s.AbsentChecks != 3 || len(s.Protect) != 1 {
		t.Errorf("announced %+v, %v, %v", s, ok, err)
	}
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestDrainBeginsNoSweep checks that a draining worker starts no sweep, which it would have to
// wait for, as for the next one.
func TestDrainBeginsNoSweep(t *testing.T) {
	box := startBox(t, sandbox.Options{})
	d := newDesk(t)
	store := pastTick(t, d)
	p := begin(t, pointedAt(box, redistest.URL(t), nil), "--sweep", "* * * * *", "--drain")
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	ticks, err := store.Ticks(t.Context())
	if all, failed := d.ledger.Runs(t.Context()); err != nil || failed != nil || ticks.Sweep.Run != "" || len(all) > 0 {
		t.Errorf("ticks %+v, runs %v, %v, %v", ticks, all, err, failed)
	}
}
