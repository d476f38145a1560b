package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/sweep"
)

// days checks and evaluates the domain by a sweep a day, and returns the rows of the last
// evaluation.
func (w *world) days(id string, all ...dnscheck.State) (rows []sweep.ActionRow) {
	w.t.Helper()
	for _, state := range all {
		w.now = w.now.Add(day)
		w.check(id, state)
		rows = w.evaluate(w.ended())
	}
	return rows
}

func absentFor(n int) []dnscheck.State {
	return slices.Repeat([]dnscheck.State{dnscheck.Absent}, n)
}

// due stores the state of a domain that is due by the sweep of now.
func (w *world) due(id, organization string) {
	w.t.Helper()
	s := absent(organization, 7, 8)
	s.Tick, s.Absence.LastTick = w.now.Unix(), w.now.Unix()
	w.put(id, s)
}

// TestNotBeforeTheGracePeriod checks that the first sweep after the grace period acts, and
// none before.
func TestNotBeforeTheGracePeriod(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	for n := range 7 {
		if rows := w.days("ord_1", dnscheck.Absent); rows != nil {
			t.Fatalf("day %d: %+v", n, rows)
		}
	}
	want := []sweep.ActionRow{{OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Tick: w.now.Add(day).Unix()}}
	if diff := cmp.Diff(want, w.days("ord_1", dnscheck.Absent)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	summary := sweep.Summary{Tick: w.now.Unix(), Run: w.ended().Run, At: w.now, Organizations: 1000, Absent: 1, Acted: 1}
	if got := w.summary(); got != summary {
		t.Errorf("summary %+v, want %+v", got, summary)
	}
	w.wantNotified(events.DomainAtRisk)
	if !strings.Contains(w.log.String(), `level=INFO msg="sweep evaluated" tenant=acme run=sweep-`) {
		t.Errorf("log %s", w.log.String())
	}
	// A repeated evaluation returns the same rows, and one after the action none.
	if diff := cmp.Diff(want, w.evaluate(w.ended())); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	s, _ := w.get("ord_1")
	s.Absence, s.Taken = nil, &sweep.ActionRequest{Action: sweep.SetPending, At: w.now}
	w.put("ord_1", s)
	if rows := w.evaluate(w.ended()); rows != nil {
		t.Errorf("rows %+v after the action", rows)
	}
}

// TestAnswerInTheGracePeriod checks that a single answer ends the absence, and that a missing
// one postpones the action.
func TestAnswerInTheGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		last dnscheck.State
		acts int // sweeps until the action afterwards
	}{"present": {dnscheck.Present, 8}, "no answer": {dnscheck.Unknown, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, sweep.SetPending)
			if rows := w.days("ord_1", append(absentFor(7), test.last)...); rows != nil {
				t.Fatalf("rows %+v", rows)
			}
			for n := range test.acts {
				if rows := w.days("ord_1", dnscheck.Absent); (rows != nil) != (n == test.acts-1) {
					t.Errorf("rows %+v after %d more sweeps, want them after %d", rows, n+1, test.acts)
				}
			}
		})
	}
}

// TestProtected checks that a protected domain is notified as at risk, and never acted on.
func TestProtected(t *testing.T) {
	for protect, protects := range map[string]bool{
		"org_1": true, "example": true, "org_1.example": true, "ORG_1.example.": true, "rg_1.example": false, "org_11": false,
	} {
		t.Run(protect, func(t *testing.T) {
			w := newWorld(t, sweep.SetPending)
			w.rules.Protect = []string{"x.org", protect}
			if rows := w.days("ord_1", absentFor(9)...); (rows == nil) != protects {
				t.Errorf("rows %+v", rows)
			}
			if protects && w.summary().Protected != 1 {
				t.Errorf("summary %+v", w.summary())
			}
			w.wantNotified(events.DomainAtRisk)
		})
	}
}

// TestOmittedFlagIsReportedOnce checks that a domain whose record omits its flag is reported
// once, and due again once the record has the flag.
func TestOmittedFlagIsReportedOnce(t *testing.T) {
	w := newWorld(t, sweep.Unroute)
	w.now = day0.Add(7 * day)
	s := absent("org_1", 7, 8)
	s.FlagOmitted = true
	w.put("ord_1", s)
	if rows := w.evaluate(w.ended()); len(rows) != 1 || rows[0].Finish || w.rules.ActionOn(s) != sweep.Report {
		t.Fatalf("rows %+v, action %s", rows, w.rules.ActionOn(s))
	}
	s.Report("ord_1", w.now, w.rules.ActionOn(s), w.rules.Omission(s))
	w.put("ord_1", s)
	if rows := w.evaluate(w.ended()); rows != nil {
		t.Errorf("rows %+v of a domain that is reported", rows)
	}
	s.FlagOmitted = false
	w.put("ord_1", s)
	if rows := w.evaluate(w.ended()); len(rows) != 1 || w.rules.ActionOn(s) != sweep.Unroute {
		t.Errorf("rows %+v once the record has its flag", rows)
	}
	w.wantNotified(events.DomainLost)
}

// TestFinish checks that every sweep finishes a request in progress, and checks the existence
// of a domain that it did not find. Neither starts a request.
func TestFinish(t *testing.T) {
	w := newWorld(t, sweep.Unroute)
	w.now = day0.Add(7 * day)
	away, back, missed := absent("org_1", 7, 8), absent("org_2", 7, 8), taken(sweep.Unroute)
	away.InProgress, back.InProgress = &sweep.ActionRequest{Action: sweep.Unroute}, &sweep.ActionRequest{Action: sweep.Unroute, Back: true}
	w.put("ord_2", away)
	w.put("ord_1", back)
	w.put("ord_3", missed)
	tick := w.now.Unix()
	inProgress := []sweep.ActionRow{
		{OrganizationID: "org_2", DiscoveryDomainID: "ord_1", Tick: tick, Back: true, Finish: true},
		{OrganizationID: "org_1", DiscoveryDomainID: "ord_2", Tick: tick, Finish: true},
	}
	gone := sweep.ActionRow{OrganizationID: "org_1", DiscoveryDomainID: "ord_3", Tick: tick, Finish: true}
	one, some, early := w.ended(), w.ended(), w.ended()
	one.Progress.Organization, some.Progress.Missed, early.Progress.Early = "org_2", 1, "the list does not end"
	for name, test := range map[string]struct {
		sweep sweep.EndedSweep
		want  []sweep.ActionRow
	}{
		"all organizations": {w.ended(), append(slices.Clone(inProgress), gone)}, "one organization": {one, inProgress},
		"an organization could not be read": {some, inProgress}, "ended early": {early, inProgress},
	} {
		if diff := cmp.Diff(test.want, w.evaluate(test.sweep)); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatIsNotEvaluated checks that a sweep without a tick is not evaluated: it would assess
// domains that it has not checked.
func TestWhatIsNotEvaluated(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	w.due("ord_1", "org_1")
	tickless := w.ended()
	tickless.Progress.Tick = 0
	if rows, err := w.evaluator(nil).Evaluate(t.Context(), tickless); rows != nil || err == nil {
		t.Errorf("without a tick: %+v, %v", rows, err)
	}
	if got := w.summary(); got != (sweep.Summary{}) {
		t.Errorf("summary %+v", got)
	}
}

// TestEndedEarly checks that a sweep which did not reach all organizations acts on no domain.
func TestEndedEarly(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	w.due("ord_1", "org_1")
	early := w.ended()
	early.Progress.Early = "the list does not end"
	rows := w.evaluate(early)
	const why = "the sweep did not reach all organizations: the list does not end"
	if got := w.summary(); rows != nil || got.Held != 1 || got.Acted != 0 || got.Why != why {
		t.Errorf("rows %+v, summary %+v", rows, got)
	}
	if b := w.breaker(); b.Open || b.ID != early.Run || b.Why != why {
		t.Errorf("breaker %+v", b)
	}
	if !strings.Contains(w.log.String(), "level=WARN") {
		t.Errorf("log %s", w.log.String())
	}
}

// TestOneOrganization checks that a sweep of one organization acts on its domains, and leaves
// the summary of the tenant and the actions held back by the tenant's sweep unchanged.
func TestOneOrganization(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(6 * day)
	w.put("ord_2", absent("org_2", 6, 8))
	w.evaluate(w.ended())
	before := w.summary()
	w.setBreaker(sweep.Breaker{ID: before.Run, Why: "five went together"})
	w.now = w.now.Add(day)
	w.due("ord_1", "org_1")
	one := w.ended()
	one.Progress.Organization, one.Progress.Read = "org_1", 1
	rows := w.evaluate(one)
	if len(rows) != 1 || rows[0].DiscoveryDomainID != "ord_1" || rows[0].Finish {
		t.Errorf("rows %+v", rows)
	}
	if got := w.summary(); got != before {
		t.Errorf("summary %+v, want %+v", got, before)
	}
	if b := w.breaker(); b.ID != before.Run {
		t.Errorf("breaker %+v", b)
	}
}

// TestLaterSweepWasEvaluated checks that an evaluation repeated after that of a later sweep
// changes nothing, except for the event of the breaker that it has opened.
func TestLaterSweepWasEvaluated(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	w.due("ord_1", "org_1")
	former := w.ended()
	w.now = w.now.Add(day)
	w.evaluate(w.ended())
	later := w.summary()
	breaker := sweep.Breaker{ID: later.Run, Why: "five went together"}
	w.setBreaker(breaker)
	if rows := w.evaluate(former); rows != nil || w.summary() != later || w.breaker() != breaker {
		t.Errorf("rows %+v, summary %+v, breaker %+v", rows, w.summary(), w.breaker())
	}
	w.setBreaker(sweep.Breaker{ID: former.Run, Open: true, At: w.now, Why: "too many"})
	if rows := w.evaluate(former); rows != nil {
		t.Errorf("rows %+v", rows)
	}
	w.wantNotified(events.BreakerOpen)
	if !strings.Contains(w.log.String(), "a later sweep was") {
		t.Errorf("log %s", w.log.String())
	}

	// A summary of a wrong clock does not block later sweeps.
	w.setBreaker(sweep.Breaker{})
	w.now = day0.Add(400 * day)
	w.evaluate(w.ended())
	w.now = day0.Add(9 * day)
	w.due("ord_1", "org_1")
	if rows := w.evaluate(w.ended()); len(rows) != 1 || w.summary().Tick != w.now.Unix() {
		t.Errorf("rows %+v, summary %+v", rows, w.summary())
	}
}

// TestExpired checks that a domain whose state has expired is no longer watched.
func TestExpired(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.check("ord_1", dnscheck.Absent)
	if ok, err := w.store.SetDomain(t.Context(), sweep.DomainWrite{ID: "ord_2", Value: []byte(`{}`), Watched: true, Tick: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	expire(t, "ord_2")
	w.evaluate(w.ended())
	if ids, err := w.store.WatchedDomains(t.Context()); err != nil || !slices.Equal(ids, []string{"ord_1"}) {
		t.Errorf("%q are watched, %v", ids, err)
	}
}

// TestUnreadableState checks that states of a newer version, and damaged ones, are excluded
// from the evaluation and logged. The other domains are acted on.
func TestUnreadableState(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	w.due("ord_1", "org_1")
	for id, state := range map[string]string{"ord_2": `{"v":2}`, "ord_3": `{`} {
		if ok, err := w.store.SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: []byte(state), Watched: true, Tick: 1}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	rows := w.evaluate(w.ended())
	if len(rows) != 1 || rows[0].DiscoveryDomainID != "ord_1" {
		t.Errorf("rows %+v", rows)
	}
	if got := w.summary(); got.Unreadable != 2 || got.Acted != 1 || !strings.Contains(got.Why, "2 domains cannot be read") {
		t.Errorf("summary %+v", got)
	}
	for _, want := range []string{"level=ERROR", "discovery_domain_id=ord_2", "discovery_domain_id=ord_3", "use a newer one", "restore Redis from a backup"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("log %s; want %s", w.log.String(), want)
		}
	}
	w.evaluate(w.ended()) // it can be repeated
	if w.breaker().Open {
		t.Errorf("breaker %+v", w.breaker())
	}
}

// outage removes the tokens of that many organizations at once, before the present sweep.
func (w *world) outage(organizations int) {
	w.t.Helper()
	for i := range organizations {
		w.put(fmt.Sprintf("out_%d", i), newly(absent(fmt.Sprintf("out_%d", i), int(w.now.Sub(day0)/day), 1)))
	}
}

// TestEvaluateKilledAnywhere kills an evaluation at any call and repeats it. Its results must
// equal those of an undisturbed one.
func TestEvaluateKilledAnywhere(t *testing.T) {
	for name, test := range map[string]struct {
		begin    func(*world)
		rows     int
		open     bool
		summary  sweep.Summary
		notified []string
	}{
		"acts": {func(w *world) {
			w.due("ord_1", "org_1")
			w.due("ord_2", "org_2")
			w.put("ord_3", taken(sweep.Unroute))
		}, 3, false, sweep.Summary{Acted: 2}, nil},
		"holds back": {func(w *world) {
			for i := range 5 {
				s := absent(fmt.Sprintf("org_%d", i), 7, 8)
				s.Absence.Operator = "dns"
				w.put(fmt.Sprintf("ord_%d", i), s)
			}
		}, 0, false, sweep.Summary{Held: 5, Why: `5 of the 5 domains whose name servers are run by "dns" went absent together`}, nil},
		"opens the breaker": {func(w *world) {
			w.due("ord_1", "org_1")
			w.outage(20)
		}, 0, true, sweep.Summary{Newly: 20, AtRisk: 20, Held: 1, Why: "the breaker is open: the tokens of 20 of the 300 organizations that were swept are newly gone"}, []string{events.BreakerOpen}},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []sweep.ActionRow
			eachCall(t, func(t *testing.T) *world {
				w := newWorld(t, sweep.SetPending)
				w.now = day0.Add(7 * day)
				test.begin(w)
				return w
			}, func(ctx context.Context, w *world, sab *saboteur) (err error) {
				s := w.ended()
				s.Run, s.Progress.Tick, s.Progress.Read = "sweep", day0.Add(7*day).Unix(), 300
				rows, err = w.evaluator(sab).Evaluate(ctx, s)
				return err
			}, func(w *world) {
				want := test.summary
				got := w.summary()
				want.Tick, want.Run, want.Organizations, want.At = day0.Add(7*day).Unix(), "sweep", 300, got.At
				if diff := cmp.Diff(want, got); diff != "" {
					w.t.Errorf("summary (-want +got):\n%s", diff)
				}
				if b := w.breaker(); len(rows) != test.rows || b.Open != test.open || (b.ID == "sweep") != (test.summary.Held > 0) {
					w.t.Errorf("rows %+v, breaker %+v", rows, w.breaker())
				}
				w.wantNotified(test.notified...)
			})
		})
	}
}

// atEachCall disturbs the evaluation of a due domain before and after each call.
func atEachCall(t *testing.T, do func(*world), end func(w *world, rows []sweep.ActionRow, err error)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		for call, more := 0, true; more; call++ {
			t.Run(fmt.Sprintf("call %d, after %t", call, after), func(t *testing.T) {
				w := newWorld(t, sweep.SetPending)
				w.now = day0.Add(7 * day)
				w.due("ord_1", "org_1")
				sab := &saboteur{call: call, after: after, act: func() error { do(w); return nil }}
				rows, err := w.evaluator(sab).Evaluate(t.Context(), w.ended())
				if more = sab.acted != ""; more {
					t.Logf("at %s", sab.acted)
					end(w, rows, err)
				}
			})
		}
	}
}

// TestBreakerOpensMeanwhile checks that an evaluation which started before the breaker opened
// does not close it, and acts only if it had decided all domains before.
func TestBreakerOpensMeanwhile(t *testing.T) {
	open := sweep.Breaker{ID: "other", Open: true, At: day0, Why: "too many at once"}
	late := 0 // evaluations that were over by then
	atEachCall(t, func(w *world) { w.setBreaker(open) }, func(w *world, rows []sweep.ActionRow, err error) {
		if rows != nil {
			late++
		}
		if b := w.breaker(); b != open {
			w.t.Errorf("breaker %+v", b)
		}
		if err != nil && !errors.Is(err, sweep.ErrChanged) {
			w.t.Fatal(err)
		}
		if rows := w.evaluate(w.ended()); rows != nil || w.summary().Held != 1 {
			w.t.Errorf("rows %+v, summary %+v of a repetition", rows, w.summary())
		}
	})
	if late != 1 {
		t.Errorf("%d evaluations act, want only the one that had read the breaker for the last time", late)
	}
}

// TestConfirmedMeanwhile checks that the confirmation of an operator survives an evaluation.
func TestConfirmedMeanwhile(t *testing.T) {
	confirmed := sweep.Breaker{Confirmed: day0.Add(7 * day)}
	atEachCall(t, func(w *world) { w.setBreaker(confirmed) }, func(w *world, rows []sweep.ActionRow, err error) {
		if b := w.breaker(); b != confirmed {
			w.t.Errorf("breaker %+v", b)
		}
		if (err == nil) != (rows != nil) || err != nil && !errors.Is(err, sweep.ErrChanged) {
			w.t.Errorf("rows %+v, %v", rows, err)
		}
		if rows := w.evaluate(w.ended()); len(rows) != 1 {
			w.t.Errorf("rows %+v of a repetition", rows)
		}
	})
}

// TestTwoEvaluations runs one evaluation of a sweep in the middle of another, and requires one
// result.
func TestTwoEvaluations(t *testing.T) {
	var first []sweep.ActionRow
	atEachCall(t, func(w *world) { first = w.evaluate(w.ended()) }, func(w *world, rows []sweep.ActionRow, err error) {
		if errors.Is(err, sweep.ErrChanged) {
			rows, err = w.evaluator(nil).Evaluate(w.t.Context(), w.ended())
		}
		if err != nil || len(rows) != 1 || !cmp.Equal(rows, first) {
			w.t.Errorf("%+v, %v and %+v", rows, err, first)
		}
		if got := w.summary(); got.Acted != 1 {
			w.t.Errorf("summary %+v", got)
		}
	})
}

// TestClearedMeanwhile checks that an evaluation either reads a token that returns meanwhile,
// or leaves the decision to the action, which checks again.
func TestClearedMeanwhile(t *testing.T) {
	atEachCall(t, func(w *world) {
		if _, err := w.states(nil).Change(w.t.Context(), "ord_1", func(s *sweep.DomainState) {
			s.FoundBetween("ord_1", *s, w.now)
		}); err != nil {
			w.t.Fatal(err)
		}
	}, func(w *world, rows []sweep.ActionRow, err error) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range rows {
			if s, _ := w.get(r.DiscoveryDomainID); w.rules.Assess(s).Status == sweep.StatusDue {
				w.t.Errorf("the action would act on %+v", s)
			}
		}
		if rows := w.evaluate(w.ended()); rows != nil {
			w.t.Errorf("rows %+v of a repetition", rows)
		}
	})
}

// TestManyDomains checks that an evaluation reads each watched domain once, in many pages.
func TestManyDomains(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	const n = 700 // a page has 500
	for i := range n {
		w.due(fmt.Sprintf("ord_%04d", i), "org_1")
	}
	rows := w.evaluate(w.ended())
	if len(rows) != n || !slices.IsSortedFunc(rows, func(a, b sweep.ActionRow) int { return strings.Compare(a.DiscoveryDomainID, b.DiscoveryDomainID) }) {
		t.Errorf("%d rows, want %d by domain id", len(rows), n)
	}
	if got := w.summary(); got.Acted != n || !got.At.Equal(w.now.Truncate(time.Second)) {
		t.Errorf("summary %+v", got)
	}
}

// TestEvaluateInPages checks that 700 states take a few reads, and that the end of the context
// ends them.
func TestEvaluateInPages(t *testing.T) {
	w := newWorld(t, sweep.SetPending)
	w.now = day0.Add(7 * day)
	for i := range 700 {
		w.due(fmt.Sprintf("ord_%04d", i), "org_1")
	}
	counting := &reads{Store: w.store, now: w.now}
	e := w.evaluator(nil)
	e.States.Store = counting
	if _, err := e.Evaluate(t.Context(), w.ended()); err != nil || counting.n != 2 {
		t.Errorf("%d reads of states, %v; want 2", counting.n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	counting.n, counting.then = 0, cancel
	if _, err := e.Evaluate(ctx, w.ended()); !errors.Is(err, context.Canceled) || counting.n != 1 {
		t.Errorf("%d reads of states, %v; want one", counting.n, err)
	}
}

// reads is a store that counts the reads of states. Its commands ignore the end of their
// contexts.
type reads struct {
	*sweep.Store
	now  time.Time
	n    int
	then func() // called after a read, if not nil
}

func (r *reads) Clock(context.Context) (time.Time, error) { return r.now, nil }

func (r *reads) Domain(ctx context.Context, id string) ([]byte, error) {
	r.n++
	return r.Store.Domain(context.WithoutCancel(ctx), id)
}

func (r *reads) Domains(ctx context.Context, ids []string) ([][]byte, error) {
	r.n++
	values, err := r.Store.Domains(context.WithoutCancel(ctx), ids)
	if r.then != nil {
		r.then()
	}
	return values, err
}
