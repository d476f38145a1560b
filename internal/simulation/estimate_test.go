package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/tasks/handlers"
)

// estimated is a run of which the time left is estimated while a fleet executes it.
type estimated struct {
	*fleet

	tn     *fleetTenant
	budget *pace.Limiter
	worker *fleetWorker
}

// estimates are the runs of TestEstimates. The run of their kind is submitted after before, and at
// the end of during no row is held.
var estimates = []struct {
	name           string
	kind           ledger.Kind
	rows           int
	limit          pace.Limit // zero: 16 requests a second
	waits          bool       // some tokens appear later
	calm           bool       // no request fails
	before, during func(e estimated)
}{
	{name: "templates", kind: handlers.Create, rows: 1600, calm: true},
	{name: "updates, no limit", kind: handlers.Update, rows: 20_000, limit: pace.Limit{Burst: 1e9}, calm: true},
	{name: "verify", kind: handlers.Verify, rows: 900},
	{name: "verify, no limit", kind: handlers.Verify, rows: 10_000, limit: pace.Limit{Burst: 1e9}, calm: true},
	{name: "verify, tokens appear later", kind: handlers.Verify, rows: 900, waits: true},
	{name: "removals of 20 clients each", kind: handlers.Remove, rows: 30_000},
	{name: "an equal run in front", kind: handlers.Update, rows: 900, calm: true, before: func(e estimated) {
		e.add("front", handlers.Update, 600, false)
	}},
	{name: "small runs and a bigger one beside", kind: handlers.Update, rows: 700, before: func(e estimated) {
		e.add("big", handlers.Create, 1500, false)
		e.add("small-a", handlers.Update, 200, false)
		e.add("small-b", handlers.Verify, 100, false)
	}},
	{name: "single rows come", kind: handlers.Update, rows: 1600, during: func(e estimated) {
		var singles []*fleetRun
		for i := range 100 {
			r := e.newRun(e.tn, fmt.Sprintf("single-%d", i), handlers.Update)
			e.addRow(r, "org_s")
			singles = append(singles, r)
		}
		e.submitSingles(singles)
	}},
	{name: "paused for a minute", kind: handlers.Update, rows: 1600, during: func(e estimated) {
		e.hold(20, 60, func() error { return e.ledger.Pause(e.t.Context(), e.tn.name, "t000-run") },
			func() error { return e.ledger.Resume(e.t.Context(), e.tn.name, "t000-run") })
	}},
	{name: "tenant stopped for two minutes", kind: handlers.Create, rows: 1200, during: func(e estimated) {
		e.hold(20, 120, func() error {
			_, err := e.budget.Stop(e.t.Context(), "ada", "night")
			return err
		}, func() error {
			_, err := e.budget.Start(e.t.Context())
			return err
		})
	}},
	{name: "blocked for a while", kind: handlers.Create, rows: 1600, during: func(e estimated) {
		e.hold(20, 0, func() error { return e.budget.Block(e.t.Context(), schema.OpCreateTemplate, "403", "fix it") },
			func() error { return nil }) // until a test request succeeds
	}},
	{name: "paused by a 429", kind: handlers.Update, rows: 1600, during: func(e estimated) {
		e.hold(20, 60, func() error {
			e.budget.Answered(e.t.Context(), schema.OpUpdateDiscoveryDomain, http.StatusTooManyRequests,
				nil, 60*time.Second)
			return nil
		}, func() error { return nil })
	}},
	{name: "no worker for two minutes", kind: handlers.Verify, rows: 900, during: func(e estimated) {
		e.hold(20, 120, func() error {
			e.worker.leave()
			return nil
		}, func() error {
			e.all = append(e.all, e.newWorker(e.tenants))
			return nil
		})
	}},
}

// hold holds the rows after so many seconds, for so many seconds.
func (e estimated) hold(after, seconds time.Duration, begin, end func() error) {
	time.Sleep(after * time.Second)
	if err := begin(); err != nil {
		e.t.Error(err)
	}
	time.Sleep(seconds * time.Second)
	if err := end(); err != nil {
		e.t.Error(err)
	}
}

// add submits a run.
func (e estimated) add(name string, kind ledger.Kind, rows int, waits bool) *fleetRun {
	r := e.newRun(e.tn, name, kind)
	for i := range rows {
		e.addRow(r, fmt.Sprintf("org_%d", i/20))
	}
	for _, d := range e.tn.domains {
		if !waits {
			d.appears = e.start
		}
	}
	e.submit(r)
	return r
}

// TestEstimates has a fleet execute runs in virtual time, with the faults of its tenant, and
// compares the time left that is estimated at half time with the truth: the estimate is of the rows
// that wait neither for DNS nor for another attempt. None is shown while the run is held.
func TestEstimates(t *testing.T) {
	if os.Getenv("ORGOPS_TEST_ESTIMATES") == "" {
		t.Skip("a trial of some minutes: set ORGOPS_TEST_ESTIMATES=1")
	}
	for _, one := range estimates {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := estimated{fleet: newFleet(t, fleetSize{tenants: 1}, seedOf(t))}
				e.tn = e.tenants[0]
				e.tn.calm = one.calm
				if one.limit.Burst > 0 {
					e.tn.limit = one.limit
				}
				e.budget = pace.New(pace.Config{Redis: e.outside, Tenant: string(e.tn.name), Limit: e.tn.limit})
				e.worker = e.newWorker(e.tenants)
				e.all = append(e.all, e.worker)
				e.background.Go(e.poll)
				if one.before != nil {
					one.before(e)
				}
				run := e.add("run", one.kind, one.rows, one.waits)
				if one.during != nil {
					e.background.Go(func() { one.during(e) })
				}
				e.follow(run)
				close(e.done)
				e.calm()
			})
		})
	}
}

// follow estimates the run until at most a hundredth of its rows moves: a request whose answer is
// lost takes half a minute. Half time is that of the time in which the run was not held.
func (e estimated) follow(run *fleetRun) {
	type seen struct {
		at   time.Time
		left time.Duration
		held string
	}
	var all []seen
	estimator := status.NewEstimator(e.outside)
	for {
		r, err := e.ledger.Get(context.Background(), e.tn.name, run.id)
		if err != nil {
			e.t.Fatal(err)
		}
		one := estimator.Estimate(context.Background(), now(), []ledger.Run{r})[0]
		if r.Ended() || 100*(r.Total()-r.Settled()-one.DNS-one.Again) <= r.Total() {
			break
		}
		s := seen{now(), one.Left, ""}
		if len(one.Held) > 0 {
			s.held = one.Held[0].String()
			if one.Left > 0 {
				e.t.Errorf("held (%s), and %v left", s.held, one.Left)
			}
		}
		all = append(all, s)
		time.Sleep(2 * time.Second)
	}
	end := now()
	var moved []seen // while the run was not held
	for _, s := range all {
		if s.held == "" {
			moved = append(moved, s)
		}
	}
	half := moved[len(moved)/2]
	left := end.Sub(half.at)
	e.t.Logf("%v in all; at half time %v estimated, %v left: %+.0f %%", end.Sub(run.from).Round(time.Second),
		half.left.Round(time.Second), left.Round(time.Second), 100*(half.left-left).Seconds()/left.Seconds())
	if (half.left - left).Abs() > left/5 {
		e.t.Errorf("the error is more than 20 %%")
	}
	for i, s := range all {
		if i%(len(all)/12+1) == 0 {
			e.t.Logf("%8v estimated %v, left %v %s", s.at.Sub(run.from).Round(time.Second), s.left.Round(time.Second),
				end.Sub(s.at).Round(time.Second), s.held)
		}
	}
}
