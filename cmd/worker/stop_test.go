package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestStoppedTenant stops a tenant in the middle of a run. Once the stop has returned, neither
// of two workers changes the tenant any more. After the restart each row is executed once, and
// no attempt was used up.
func TestStoppedTenant(t *testing.T) {
	redistest.NeedsLong(t, "two workers carry out many rows")
	t.Parallel()
	const rows = 200
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
		"ORGOPS_RATE": "60/s", "ORGOPS_BURST": "10"})
	fleet := []*process{begin(t, env), begin(t, env)}
	for _, p := range fleet {
		p.says("worker started", nil)
	}
	patches := func() (n int) {
		for _, r := range box.Requests() {
			if r.Method == http.MethodPatch {
				n++
			}
		}
		return n
	}
	d.handIn(ledger.NewRun{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(rows))
	await(t, "the run's beginning", func() bool { return patches() >= 30 })
	operator := pace.New(pace.Config{Redis: d.redis, Tenant: tasks.DefaultTenant})
	if _, err := operator.Stop(t.Context(), "alice", "wrong file"); err != nil {
		t.Fatal(err)
	}
	before := patches()
	if before > rows*3/4 {
		t.Fatalf("%d of %d rows were changed before the stop: too late to tell", before, rows)
	}
	for _, p := range fleet {
		if status, body := p.page("probe-addr", "/readyz"); status != http.StatusOK ||
			!strings.Contains(body, "stopped by alice") {
			t.Errorf("/readyz: %d %s; want it to say who stopped the tenant", status, body)
		}
	}
	for row, why := range d.reasons("updates") {
		expected := regexp.MustCompile(
			`^$|tenant default is stopped by alice|^paced: |^released to a worker|^in progress since `)
		if !expected.MatchString(why) {
			t.Errorf("row %d is open for %q", row, why)
		}
	}
	time.Sleep(time.Second)
	if after := patches(); after != before {
		t.Errorf("%d requests changed something after the stop", after-before)
	}

	if _, err := operator.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.well("updates", rows)
	if n := patches(); n != rows {
		t.Errorf("%d requests for %d rows", n, rows)
	}
	for _, p := range fleet {
		if most, _ := attempts(logLines(p.stderr.String())); most != 0 {
			t.Errorf("%d attempts were used up", most)
		}
	}
}
