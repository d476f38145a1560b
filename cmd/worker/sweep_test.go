package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// TestSweepKilled sweeps 2,000 organizations, kills the worker amid the scan and the checks,
// and restarts it. The sweep finds each domain once, checks it once and stores its state. The
// kill costs at most the requests in progress.
func TestSweepKilled(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	const organizations, seed = 2000, 11
	server := redistest.Start(t)
	f := assembleOn(outlasting(t, server.URL()), server.URL(),
		fmt.Sprint("--organizations=", organizations), fmt.Sprint("--seed=", seed), "--absent=5", "--servfail=1")
	crowd := crowdOf(t, seed, sandbox.BulkOptions{Organizations: organizations, Absent: 0.05, Servfail: 0.01})
	f.slow(20, 30)
	one := f.work("one")
	tick := time.Now().Unix()
	if _, _, err := intake.New(f.redis, f.ledger).BeginSweep(t.Context(),
		ledger.NewRun{ID: "sweep", Tenant: tasks.DefaultTenant}, sweep.Order{Tick: tick}); err != nil {
		t.Fatal(err)
	}
	await(t, "two fifths of the rows", func() bool { return f.run("sweep").Settled() > int64(crowd.Domains)*2/5 })
	one.signal(syscall.SIGKILL)
	_ = one.wait(patience) // killed
	if r := f.run("sweep"); r.Sealed() {
		t.Errorf("all was found before the worker was killed, and %d rows settled: the test shows nothing of the walk",
			r.Settled())
	}
	f.work("one")
	awaitFor(t, recovery, "the end of the sweep", func() bool { return f.run("sweep").Ended() })
	awaitFor(t, recovery, "its summary", func() bool { return f.judged().Run == "sweep" })

	f.compareRows(crowd)
	f.compareMemories(tick, crowd)
	f.compareRequests(crowd)
}

// The limits of a worker's concurrent requests for one sweep.
const (
	walkLists  = 50  // organizations whose domains a step of the scan lists
	sweepLooks = 100 // checks
)

// crowdOf returns the bulk data of a sandbox with that seed.
func crowdOf(t *testing.T, seed uint64, o sandbox.BulkOptions) sandbox.Bulk {
	t.Helper()
	return startBox(t, sandbox.Options{Seed: seed}).SeedBulk(o)
}

// judged returns the summary of the last complete sweep.
func (f *fleet) judged() (j sweep.Summary) {
	f.t.Helper()
	value, err := sweep.NewStore(f.redis, tasks.DefaultTenant).State(f.t.Context(), sweep.SummaryState)
	if err == nil && value != nil {
		err = json.Unmarshal(value, &j)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return j
}

// compareRows checks that each of the tenant's domains has one row, which is settled.
func (f *fleet) compareRows(crowd sandbox.Bulk) {
	f.t.Helper()
	run := f.run("sweep")
	if diff := cmp.Diff(ledger.Counts{"unchanged": int64(crowd.Domains)}, run.Counts); diff != "" ||
		run.Total() != int64(crowd.Domains) {
		f.t.Errorf("%d rows (-want +got):\n%s", run.Total(), diff)
	}
	rows, err := f.ledger.Contents(f.t.Context(), ledgertest.Find(f.t, f.ledger, "sweep"), 0, int(run.Total()))
	if err != nil {
		f.t.Fatal(err)
	}
	found := map[string]int{}
	for _, source := range rows {
		var row struct {
			Organization string `json:"organization_id"`
			Domain       string `json:"discovery_domain_id"`
		}
		if err := json.Unmarshal(source, &row); err != nil {
			f.t.Fatal(err)
		}
		found[row.Organization+" "+row.Domain]++
	}
	for key := range domainsOf(f.state()) {
		if found[key] != 1 {
			f.t.Errorf("domain %s has %d rows", key, found[key])
		}
		delete(found, key)
	}
	for key := range found {
		f.t.Errorf("row of %s, which is no domain", key)
	}
}

// compareMemories checks that each domain's state holds the check of this sweep, and that the
// summary counts all domains.
func (f *fleet) compareMemories(tick int64, crowd sandbox.Bulk) {
	f.t.Helper()
	memories, states := sweep.NewStore(f.redis, tasks.DefaultTenant), map[string]int64{}
	for key, d := range domainsOf(f.state()) {
		value, err := memories.Domain(f.t.Context(), d.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		if value == nil {
			f.t.Errorf("nothing is remembered of %s", key)
			continue
		}
		m, err := sweep.ReadState(value)
		if err != nil {
			f.t.Fatal(err)
		}
		if m.Sweeps != 1 || m.Tick != tick {
			f.t.Errorf("%s: %d sweeps are remembered, the last of tick %d, want one, of %d", key, m.Sweeps, m.Tick, tick)
		}
		states[m.State]++
	}
	want := map[string]int64{
		"absent": int64(crowd.Absent), "unknown": int64(crowd.Servfail),
		"present": int64(crowd.Domains - crowd.Absent - crowd.Servfail),
	}
	if diff := cmp.Diff(want, states); diff != "" {
		f.t.Errorf("remembered (-want +got):\n%s", diff)
	}
	j := f.judged()
	got := map[string]int64{"absent": j.Absent, "unknown": j.Unknown, "present": j.Present}
	if diff := cmp.Diff(want, got); diff != "" || j.Organizations != int64(crowd.Organizations) || j.Lost != 0 {
		f.t.Errorf("judged %+v; domains (-want +got):\n%s", j, diff)
	}
}

// compareRequests checks that each organization's domains are listed once, and that each
// absent domain is read once. The kill may repeat the requests in progress: those of one step
// of the scan and of the absent domains being checked.
func (f *fleet) compareRequests(crowd sandbox.Bulk) {
	f.t.Helper()
	status, body := fetch(f.t, http.MethodGet, f.authURL+"/_sandbox/counts", "")
	var counts sandbox.Counts
	if err := json.Unmarshal([]byte(body), &counts); err != nil {
		f.t.Fatalf("counts: %d %s: %v", status, body, err)
	}
	const pages = 100 // organizations of a page
	for _, of := range []struct {
		operation   string
		once, again int64
	}{
		{sandbox.OpListOrganizations, int64(crowd.Organizations+pages-1) / pages, 1},
		{sandbox.OpListDiscoveryDomains, int64(crowd.Organizations), walkLists},
		{sandbox.OpGetDiscoveryDomain, int64(crowd.Absent), sweepLooks},
	} {
		got := counts.Requests[of.operation]
		delete(counts.Requests, of.operation)
		if extra := got.All - of.once; extra < 0 || extra > of.again {
			f.t.Errorf("%s: %d requests, want %d, and at most %d more: %+v", of.operation, got.All, of.once, of.again, got)
		}
		if targets := got.Times[1] + got.Times[2]; targets != of.once {
			f.t.Errorf("%s: %d different ones were asked for once or twice, want %d: %+v", of.operation, targets, of.once, got)
		}
		f.t.Logf("%s: %+v", of.operation, got)
	}
	delete(counts.Requests, sandbox.OpToken)
	if diff := cmp.Diff(map[string]sandbox.Tally{}, counts.Requests); diff != "" {
		f.t.Errorf("other requests (-want +got):\n%s", diff)
	}
}
