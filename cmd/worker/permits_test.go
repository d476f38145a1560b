package main

import (
	"fmt"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestAClockThatWasAhead checks that the permits stored in Redis while its clock was a year
// ahead delay no row once the clock is right.
func TestAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	const rows = 8
	for _, tc := range []struct {
		name  string
		ahead func(*testing.T, desk, *sandbox.Sandbox)
	}{
		{"a run by that clock", func(t *testing.T, d desk, box *sandbox.Sandbox) {
			clock := redistest.Mini(t)
			clock.SetTime(time.Now().Add(year))
			d.handIn(ledger.NewRun{ID: "ahead"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.ended("ahead")
			clock.SetTime(time.Time{}) // the machine's again
		}},
		{"as a version that stores no lengths has left it", func(t *testing.T, d desk, _ *sandbox.Sandbox) {
			at := fmt.Sprint(d.redis.Time(t.Context()).Val().Add(year).UnixMicro())
			err := d.redis.HSet(t.Context(), "orgops:v1:{tenant:default}:pace", "tat", at, "api_tat", at, "sweep_tat", at).Err()
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_RATE": "50/s", "ORGOPS_BURST": "50"})
			begin(t, env).says("worker started", nil)
			tc.ahead(t, d, box)
			d.handIn(ledger.NewRun{ID: "right"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.ended("right")
			d.well("right", rows)
		})
	}
}
