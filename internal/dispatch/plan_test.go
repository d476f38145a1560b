package dispatch_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/release"
)

// of returns a candidate of which rows may be due at a stage, which make no request.
func of(run ledger.RunID, stage release.Stage, change ...func(*dispatch.Candidate)) dispatch.Candidate {
	c := dispatch.Candidate{Run: run}
	switch stage {
	case release.StageReady:
		c.Due.Ready = true
	case release.StageCheck:
		c.Due.Check = true
	case release.StageFirst:
		c.Due.First = true
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func bulk(c *dispatch.Candidate) { c.Class = ledger.Bulk }

// servedAt sets when a candidate was last served, in seconds.
func servedAt(s int64) func(*dispatch.Candidate) {
	return func(c *dispatch.Candidate) { c.ServedAt = time.Unix(s, 0) }
}

// probedAt sets when a candidate was last probed, in seconds.
func probedAt(s int64) func(*dispatch.Candidate) {
	return func(c *dispatch.Candidate) { c.ProbedAt = time.Unix(s, 0) }
}

// costs sets the requests of a task, at each stage.
func costs(n float64) func(*dispatch.Candidate) {
	return func(c *dispatch.Candidate) { c.Kind.Cost = release.Cost{First: n, Check: n, Ready: n} }
}

// needs sets the operations of a row, at each stage.
func needs(operations ...string) func(*dispatch.Candidate) {
	return func(c *dispatch.Candidate) { c.Kind.Operations = release.Always(operations...) }
}

// granted is a grant of tasks for rows that were never released.
func granted(run ledger.RunID, tasks int) dispatch.Grant {
	return dispatch.Grant{Run: run, Stage: release.StageFirst, Tasks: tasks}
}

// waiting is why rows of a run that were never released wait.
func waiting(run ledger.RunID, why dispatch.Reason) dispatch.Wait {
	return dispatch.Wait{Run: run, Stage: release.StageFirst, Reason: why}
}

func TestPlan(t *testing.T) {
	const first = release.StageFirst
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name  string
		round dispatch.Round
		rate  float64 // of the permits of one second; 0: without a limit
		want  []dispatch.Grant
		waits []dispatch.Wait
	}{
		{name: "no place is left", round: dispatch.Round{Runs: []dispatch.Candidate{of("a", first)}},
			waits: []dispatch.Wait{waiting("a", dispatch.NoPlace)}},
		{name: "no runs", round: dispatch.Round{Tasks: 10}},
		{name: "one run", round: dispatch.Round{Tasks: 10, Runs: []dispatch.Candidate{of("a", first)}},
			want: []dispatch.Grant{granted("a", 10)}},
		{name: "equal shares",
			round: dispatch.Round{Tasks: 8, Runs: []dispatch.Candidate{of("a", first), of("b", first, servedAt(-9))}},
			want:  []dispatch.Grant{granted("a", 4), granted("b", 4)}},
		{name: "the odd one to the run that waited longest",
			round: dispatch.Round{Tasks: 7,
				Runs: []dispatch.Candidate{of("a", first, servedAt(5)), of("b", first, servedAt(1))}},
			want: []dispatch.Grant{granted("b", 4), granted("a", 3)}},
		{name: "one of nine to a bulk run", round: dispatch.Round{Tasks: 9,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, servedAt(1)), of("small", first, servedAt(5))}},
			want: []dispatch.Grant{granted("small", 8), granted("bulk", 1)}},
		{name: "the rest to bulk runs", rate: 2, round: dispatch.Round{Tasks: 9,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, servedAt(5)), of("small", first, costs(1), servedAt(5))}},
			want: []dispatch.Grant{granted("small", 2), granted("bulk", 7)}},
		{name: "a long line holds bulk runs but for their turn", round: dispatch.Round{Tasks: 18, Line: time.Second,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, costs(1), servedAt(1)),
				of("small", first, costs(1), servedAt(5))}},
			want: []dispatch.Grant{granted("small", 16), granted("bulk", 2)}},
		{name: "a long line holds bulk runs", round: dispatch.Round{Tasks: 8, Line: time.Second,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, costs(1)), of("checks", first, bulk)}},
			want:  []dispatch.Grant{granted("checks", 8)},
			waits: []dispatch.Wait{waiting("bulk", dispatch.NoPlace)}},
		{name: "a long line holds the only run", round: dispatch.Round{Tasks: 8, Line: time.Second,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, costs(1))}},
			waits: []dispatch.Wait{waiting("bulk", dispatch.LongLine)}},
		{name: "a short line holds none", round: dispatch.Round{Tasks: 8, Line: 999 * time.Millisecond,
			Runs: []dispatch.Candidate{of("bulk", first, bulk, costs(1))}},
			want: []dispatch.Grant{granted("bulk", 8)}},
		{name: "permits are shared too", rate: 8, round: dispatch.Round{Tasks: 100,
			Runs: []dispatch.Candidate{of("a", first, costs(2)), of("b", first, servedAt(-9), costs(2))}},
			want: []dispatch.Grant{granted("a", 2), granted("b", 2)}},
		{name: "no permit is left", rate: 4, round: dispatch.Round{Tasks: 100,
			Runs: []dispatch.Candidate{of("a", first, costs(4)), of("b", first, servedAt(9), costs(2))}},
			want:  []dispatch.Grant{granted("a", 1)},
			waits: []dispatch.Wait{waiting("b", dispatch.NoPermit)}},
		{name: "many", round: dispatch.Round{Tasks: 5000,
			Runs: []dispatch.Candidate{of("a", first), of("b", first, servedAt(1))}},
			want: []dispatch.Grant{granted("a", 2504), granted("b", 2496)}},
		{name: "proven rows first, then those to check again",
			round: dispatch.Round{Tasks: 3, Now: now,
				Tenant: obstacle.State{Pace: pace.State{At: now, Blocks: []pace.Block{{Operation: "update"}}}},
				Runs: []dispatch.Candidate{{Run: "a", Due: release.ByStage[bool]{First: true, Check: true, Ready: true},
					Kind: release.Kind{Operations: release.Operations{Ready: []string{"update"}}}}}},
			want: []dispatch.Grant{
				{Run: "a", Stage: release.StageReady, Tasks: 1, Probes: []dispatch.Probe{{"update", 30 * time.Second}}},
				{Run: "a", Stage: release.StageCheck, Tasks: 2},
			},
			waits: []dispatch.Wait{waiting("a", dispatch.NoPlace)}},
		{name: "the queue is paused",
			round: dispatch.Round{Tasks: 8, Tenant: obstacle.State{Queue: &obstacle.Queue{}},
				Runs: []dispatch.Candidate{of("a", first)}},
			waits: []dispatch.Wait{waiting("a", dispatch.Reason(obstacle.QueuePaused))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.round.Permits = permits(c.rate)
			got := c.round.Plan()
			if diff := cmp.Diff(c.want, got.Grants); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.waits, got.Waits); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlanWithObstacles plans for one run while its tenant is stopped, paused or blocked.
func TestPlanWithObstacles(t *testing.T) {
	now := time.Unix(1000, 0)
	paused := pace.State{At: now, PausedUntil: now.Add(time.Second)}
	limited := pace.State{At: now, Pauses: []pace.Pause{{Operation: "get", Until: now.Add(time.Second)}}}
	stopped := pace.State{At: now, Stopped: &pace.Stop{By: "alice"}}
	blocked := pace.State{At: now, Blocks: []pace.Block{{Operation: "update"}}}
	early := pace.State{At: now, Blocks: []pace.Block{{Operation: "update", NextProbe: now.Add(time.Second)}}}
	all := pace.State{At: now, Blocks: []pace.Block{{Operation: pace.All}}}
	ended := pace.State{At: now, Trials: []pace.Trial{{Operation: pace.All, Next: now}}}
	one := pace.State{At: now, Trials: []pace.Trial{{Operation: "get", Next: now}}}
	tried := pace.State{At: now, Trials: []pace.Trial{{Operation: pace.All, Next: now.Add(time.Second)}}}
	ofBlock := dispatch.Probe{Operation: "update", Every: 30 * time.Second}
	ofPause := dispatch.Probe{Operation: pace.All, Every: time.Second}
	ago := func(p dispatch.Probe, d time.Duration) map[dispatch.Probe]time.Time {
		return map[dispatch.Probe]time.Time{p: now.Add(-d)}
	}
	checks, scan := needs(), costs(1)
	get, update := needs("get"), needs("update")
	both := needs("get", "update")
	const whole, probe = 8, 1
	for _, c := range []struct {
		name   string
		state  pace.State
		probed map[dispatch.Probe]time.Time
		of     func(*dispatch.Candidate)
		tasks  int
		why    dispatch.Reason
	}{
		{"open", pace.State{At: now}, nil, update, whole, ""},
		{"paused", paused, nil, get, 0, dispatch.Reason(obstacle.TenantPaused)},
		{"paused, DNS checks", paused, nil, checks, whole, ""},
		{"paused, a scan", paused, nil, scan, 0, dispatch.Reason(obstacle.TenantPaused)},
		{"an operation is paused", limited, nil, both, 0, dispatch.Reason(obstacle.OperationPaused)},
		{"another operation is paused", limited, nil, update, whole, ""},
		{"stopped by an operator", stopped, nil, get, 0, dispatch.Reason(obstacle.TenantStopped)},
		{"stopped by an operator, DNS checks", stopped, nil, checks, whole, ""},
		{"stopped by an operator, a scan", stopped, nil, scan, whole, ""},
		{"all operations are blocked", all, nil, get, probe, ""},
		{"all operations are blocked, DNS checks", all, nil, checks, whole, ""},
		{"all operations are blocked, a scan", all, nil, scan, whole, ""},
		{"another operation is blocked", blocked, nil, get, whole, ""},
		{"a probe gets no permit yet", early, nil, both, 0, dispatch.NextProbe},
		{"the first probe", blocked, nil, both, probe, ""},
		{"a probe is under way", blocked, ago(ofBlock, 29*time.Second), update, 0, dispatch.NextProbe},
		{"the next probe", blocked, ago(ofBlock, 30*time.Second), update, probe, ""},
		{"a pause is over", ended, nil, get, probe, ""},
		{"a pause is over, a scan", ended, nil, scan, probe, ""},
		{"a pause is over, DNS checks", ended, nil, checks, whole, ""},
		{"the pause of an operation is over", one, nil, both, probe, ""},
		{"the pause of another operation is over", one, nil, update, whole, ""},
		{"a request tries", tried, nil, get, 0, dispatch.NextProbe},
		{"a row that tries was released", ended, ago(ofPause, 900*time.Millisecond), get, 0, dispatch.NextProbe},
		{"another row tries", ended, ago(ofPause, time.Second), get, probe, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			round := dispatch.Round{Now: now, Tasks: whole, Tenant: obstacle.State{Pace: c.state}, Probed: c.probed,
				Permits: permits(0), Runs: []dispatch.Candidate{of("a", release.StageFirst, c.of)}}
			plan := round.Plan()
			tasks := 0
			for _, g := range plan.Grants {
				tasks += g.Tasks
			}
			why := dispatch.Reason("")
			for _, w := range plan.Waits {
				why = w.Reason
			}
			if tasks != c.tasks || why != c.why {
				t.Errorf("%d tasks, and waits since %q; want %d, %q", tasks, why, c.tasks, c.why)
			}
		})
	}
}

// TestPlanOfProbes: a probe is of the run that was probed the longest ago; probes of two blocks are
// of two runs.
func TestPlanOfProbes(t *testing.T) {
	now := time.Unix(1000, 0)
	round := dispatch.Round{Now: now, Tasks: 8, Permits: permits(0),
		Tenant: obstacle.State{Pace: pace.State{At: now, Blocks: []pace.Block{{Operation: "get"}, {Operation: "update"}}}},
		Runs: []dispatch.Candidate{
			of("a", release.StageFirst, needs("update"), probedAt(5)),
			of("b", release.StageFirst, needs("update"), probedAt(1)),
			of("c", release.StageFirst, needs("get"), probedAt(9)),
		}}
	plan := round.Plan()
	want := []dispatch.Grant{
		{Run: "b", Stage: release.StageFirst, Tasks: 1, Probes: []dispatch.Probe{{"update", 30 * time.Second}}},
		{Run: "c", Stage: release.StageFirst, Tasks: 1, Probes: []dispatch.Probe{{"get", 30 * time.Second}}},
	}
	if diff := cmp.Diff(want, plan.Grants); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]dispatch.Wait{waiting("a", dispatch.ProbeOfAnother)}, plan.Waits); diff != "" {
		t.Error(diff)
	}
}

// permits returns the permits of one second.
func permits(rate float64) dispatch.Permits {
	if rate == 0 {
		rate = math.Inf(1)
	}
	var p dispatch.Permits
	p.Refill(time.Unix(1000, 0), rate)
	return p
}

// TestPlanStarvesNoRun plans one row at a time: the ninth goes to the bulk run.
func TestPlanStarvesNoRun(t *testing.T) {
	round := dispatch.Round{Tasks: 1, Permits: permits(0), Runs: []dispatch.Candidate{
		of("bulk", release.StageFirst, bulk), of("small", release.StageFirst, servedAt(9))}}
	served := 0
	for range 90 {
		plan := round.Plan()
		round.Turn = plan.Turn
		if plan.Grants[0].Run == "bulk" {
			served++
		}
	}
	if served != 10 {
		t.Errorf("%d of 90 rows were released for the bulk run", served)
	}
}

// FuzzPlan plans random rounds, each drawn from a seed.
//
//   - Each stage with due rows has tasks, or a reason why none.
//   - A plan has no more tasks than places, and no more permits than are left and those of one
//     task.
//   - While places are left, none waits for a place, and for a permit only if none is left.
//   - A stage that only a probe may release has one task, and each probe is of one stage.
//   - Of nine portions one goes to the run that was served the longest ago, whatever its class.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(2000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		round := randomRound(rand.New(rand.NewPCG(seed, 0)))
		plan := round.Plan()
		cost := func(run ledger.RunID, stage release.Stage) float64 {
			c := round.Runs[slices.IndexFunc(round.Runs, func(c dispatch.Candidate) bool { return c.Run == run })].Kind.Cost
			return map[release.Stage]float64{release.StageReady: c.Ready, release.StageCheck: c.Check,
				release.StageFirst: c.First}[stage]
		}
		type part struct {
			run   ledger.RunID
			stage release.Stage
		}
		found := map[part]int{} // grants and waits
		probes := map[dispatch.Probe]int{}
		tasks := 0
		left := round.Permits
		dearest := 0.0
		for _, g := range plan.Grants {
			found[part{g.Run, g.Stage}]++
			tasks += g.Tasks
			if g.Tasks < 1 || (len(g.Probes) > 0 && g.Tasks != 1) {
				t.Errorf("grant %+v", g)
			}
			dearest = max(dearest, cost(g.Run, g.Stage))
			left.Spend(g.Tasks, cost(g.Run, g.Stage))
			for _, p := range g.Probes {
				probes[p]++
			}
		}
		allButOne := left
		allButOne.Spend(-1, dearest)
		if dearest > 0 && allButOne.Tasks(1, 1e-9) == 0 {
			t.Errorf("grants %+v take more permits than are left and those of one task", plan.Grants)
		}
		if tasks > round.Tasks {
			t.Errorf("%d tasks for %d places", tasks, round.Tasks)
		}
		for p, n := range probes {
			if n != 1 {
				t.Errorf("probe %+v is of %d stages", p, n)
			}
		}
		for _, w := range plan.Waits {
			found[part{w.Run, w.Stage}]++
			noPermit := left.Tasks(1, cost(w.Run, w.Stage)) == 0
			if w.Reason == "" || (w.Reason == dispatch.NoPlace && tasks < round.Tasks) ||
				(w.Reason == dispatch.NoPermit && !noPermit) || (w.Reason == dispatch.LongLine && round.Line < time.Second) {
				t.Errorf("%d of %d tasks, and %+v", tasks, round.Tasks, w)
			}
		}
		due := 0
		for _, r := range round.Runs {
			for stage, is := range map[release.Stage]bool{release.StageReady: r.Due.Ready, release.StageCheck: r.Due.Check,
				release.StageFirst: r.Due.First} {
				if is {
					due++
				}
				if n := found[part{r.Run, stage}]; (n == 1) != is || n > 1 {
					t.Errorf("%s, stage %d: %d grants and waits, due %v", r.Run, stage, n, is)
				}
			}
		}
		if n := len(plan.Grants) + len(plan.Waits); n != due {
			t.Errorf("%d grants and waits of %d stages with due rows", n, due)
		}
		if plan.Turn/9 > round.Turn/9 && len(plan.Grants) > 0 {
			oldest := plan.Grants[0]
			servedAt := func(run ledger.RunID) time.Time {
				return round.Runs[slices.IndexFunc(round.Runs, func(c dispatch.Candidate) bool { return c.Run == run })].ServedAt
			}
			for _, g := range plan.Grants {
				if servedAt(g.Run).Before(servedAt(oldest.Run)) {
					oldest = g
				}
			}
			for _, w := range plan.Waits {
				own := slices.ContainsFunc(plan.Grants, func(g dispatch.Grant) bool { return g.Run == w.Run })
				if w.Reason == dispatch.NoPlace && !own && servedAt(w.Run).Before(servedAt(oldest.Run)) {
					t.Errorf("%s waits for a place, and was served before %s", w.Run, oldest.Run)
				}
			}
		}
	})
}

// randomRound draws a round with up to six runs.
func randomRound(r *rand.Rand) dispatch.Round {
	now := time.Unix(1000, 0)
	operations := []string{"get", "update", "remove"}
	around := func() time.Time { return now.Add(time.Duration(r.IntN(4)-2) * time.Second) }
	round := dispatch.Round{Now: now, Tasks: r.IntN(40), Turn: r.IntN(9),
		Line: time.Duration(r.IntN(2000)) * time.Millisecond, Tenant: obstacle.State{Pace: pace.State{At: now}},
		Probed: map[dispatch.Probe]time.Time{}}
	if r.IntN(20) == 0 {
		round.Tenant.Queue = &obstacle.Queue{}
	}
	if r.IntN(4) > 0 {
		round.Permits.Refill(now, float64(r.IntN(30))/2)
	} else {
		round.Permits.Refill(now, math.Inf(1))
	}
	if r.IntN(12) == 0 {
		round.Tenant.Pace.PausedUntil = around()
	}
	if r.IntN(12) == 0 {
		round.Tenant.Pace.Stopped = &pace.Stop{}
	}
	for _, operation := range append(operations, pace.All) {
		switch r.IntN(15) {
		case 0:
			round.Tenant.Pace.Pauses = append(round.Tenant.Pace.Pauses, pace.Pause{Operation: operation, Until: around()})
		case 1:
			round.Tenant.Pace.Trials = append(round.Tenant.Pace.Trials, pace.Trial{Operation: operation, Next: around()})
			round.Probed[dispatch.Probe{Operation: operation, Every: time.Second}] = around()
		case 2:
			round.Tenant.Pace.Blocks = append(round.Tenant.Pace.Blocks, pace.Block{Operation: operation, NextProbe: around()})
			ago := time.Duration(r.IntN(60)) * time.Second
			round.Probed[dispatch.Probe{Operation: operation, Every: 30 * time.Second}] = now.Add(-ago)
		}
	}
	some := func() (all []string) {
		for _, operation := range operations {
			if r.IntN(3) == 0 {
				all = append(all, operation)
			}
		}
		return all
	}
	for i := range r.IntN(7) {
		round.Runs = append(round.Runs, dispatch.Candidate{
			Run: ledger.RunID(fmt.Sprint("run-", i)), Class: ledger.Class(r.IntN(2)),
			Kind: release.Kind{Operations: release.Operations{First: some(), Check: some(), Ready: some()},
				Cost: release.Cost{First: float64(r.IntN(4)), Check: float64(r.IntN(3)), Ready: float64(r.IntN(3))}},
			Due:      release.ByStage[bool]{First: r.IntN(2) == 0, Check: r.IntN(2) == 0, Ready: r.IntN(2) == 0},
			ServedAt: now.Add(-time.Duration(r.IntN(1000)) * time.Second),
			ProbedAt: now.Add(-time.Duration(r.IntN(1000)) * time.Second),
		})
	}
	return round
}
