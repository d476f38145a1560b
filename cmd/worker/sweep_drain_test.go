package main

import (
	"encoding/json"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/tasks"
)

// TestDrainAwaitsTheSummary starts a sweep and a draining worker. The worker exits only when the
// summary is stored, which happens after the last row has settled.
func TestDrainAwaitsTheSummary(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	box.Seed()
	store := sweep.NewStore(d.redis, tasks.DefaultTenant)
	swept := ledger.NewRun{ID: "sweep", Tenant: tasks.DefaultTenant}
	if _, _, err := schedule.Now(t.Context(), intake.New(d.redis, d.ledger), store, swept, sweep.Progress{}); err != nil {
		t.Fatal(err)
	}
	if status := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain").wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	d.well("sweep", 14) // the sample's domains that were verified before
	value, err := store.State(t.Context(), sweep.SummaryState)
	if err != nil {
		t.Fatal(err)
	}
	var judged sweep.Summary
	if err := json.Unmarshal(value, &judged); err != nil {
		t.Fatalf("judged %q: %v", value, err)
	}
	if judged.Run != "sweep" || judged.Present != 12 || judged.Absent != 1 || judged.Unknown != 1 {
		t.Errorf("judged %+v", judged)
	}
}
