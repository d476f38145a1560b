package simulation_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/capacity"
	"orgops/internal/engine/kinds"
	"orgops/internal/redistest"
)

// planTolerance is the factor by which the planned and the counted commands may differ. About
// 1.5 times the planned commands are counted, with two tenants as with three. The simulated
// workers have no ranks, so that all workers of a tenant poll for each task, and 2 % of the
// tasks are delivered twice.
const planTolerance = 2

// TestFleetPlan compares the commands that workers send to Redis while they verify rows at the
// rates of their tenants, without faults, with those that the capacity plan has for this load.
//
// Simulated workers poll only when there are tasks, so that the polls of asynq's servers are
// not compared.
func TestFleetPlan(t *testing.T) {
	redistest.NeedsLong(t, "takes some 5 seconds")
	seed := seedOf(t)
	synctest.Test(t, func(t *testing.T) { comparePlan(t, fleetSize{2, 5, 400}, seed) })
}

func comparePlan(t *testing.T, size fleetSize, seed uint64) {
	f := newFleet(t, size, seed)
	load, rows := capacity.Load{Workers: size.workers}, size.rows/size.tenants
	var submitting sync.WaitGroup
	for _, tn := range f.tenants {
		left, _ := tn.limit.Effective()
		load.Tenants = append(load.Tenants, capacity.Tenant{Name: string(tn.name), Count: 1, Rate: left.PerSecond(), Rows: int64(rows)})
		r := f.newRun(tn, "verify", kinds.Verify)
		for range rows {
			d := tn.domain("org_"+string(tn.name), f.start)
			r.add(d.id, kinds.VerifyRow{OrganizationID: d.org, DiscoveryDomainID: d.id})
		}
		submitting.Go(func() { f.submit(r) })
	}
	f.background.Go(f.poll)
	for f.settled() == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	from, before, first := now(), f.commands.Load(), f.settled()
	for f.settled() < size.rows*9/10 { // the last rows may be repetitions, which take their time
		time.Sleep(100 * time.Millisecond)
		if now().Sub(f.start) > longestFleet {
			t.Fatalf("%d of %d rows are settled", f.settled(), size.rows)
		}
	}
	took, settled := now().Sub(from).Seconds(), float64(f.settled()-first)
	counted := float64(f.commands.Load()-before) / took
	plan := capacity.Estimate(load)
	planned := plan.Commands - plan.Polls
	t.Logf("%d tenants, %d workers, %d rows: %.0f commands/s and %.1f per row, planned %.0f/s and %.1f per row",
		size.tenants, size.workers, size.rows, counted, counted*took/settled, planned, planned*took/settled)
	if counted > planned*planTolerance || planned > counted*planTolerance {
		t.Errorf("%.0f commands/s were counted and %.0f planned", counted, planned)
	}
	submitting.Wait()
	f.await()
	close(f.done)
	f.calm()
}

// settled returns how many rows are settled.
func (f *fleet) settled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, h := range f.histories {
		if len(h.settles) > 0 {
			n++
		}
	}
	return n
}
