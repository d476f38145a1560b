package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// sweep submits all domains of the organization as a sweep of now, and its judging.
func (w *world) sweepRows() (run string) {
	w.t.Helper()
	run = fmt.Sprintf("run%d", len(w.runs))
	w.runs = append(w.runs, run)
	told, err := json.Marshal(tasks.Walked{Read: 1, Ended: true})
	if err != nil {
		w.t.Fatal(err)
	}
	r, _, err := w.ledger.Create(w.t.Context(), runs.Run{ID: run, Kind: tasks.TypeRecheck, Tenant: "default", CreatedAt: w.clock.now(), Walk: &runs.Walk{Told: told}})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := tasks.NewProducer(w.queue, w.ledger).Begin(tasks.Run{ID: run, Kind: tasks.TypeRecheck, Tenant: "default", CreatedAt: r.CreatedAt, Generation: r.Generation})
	if err != nil {
		w.t.Fatal(err)
	}
	kind, _ := tasks.KindOf(tasks.TypeRecheck)
	for i, d := range w.sandbox.Domains(org) {
		source := w.recheckRow(d)
		row, err := kind.Parse([]byte(source), tasks.Defaults{})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := s.Add(w.t.Context(), int64(i), []byte(source), row); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := s.Finish(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	payload, err := json.Marshal(tasks.JudgePayload{Envelope: tasks.Envelope{V: 1, Tenant: "default", Run: run, CreatedAt: r.CreatedAt}, Tick: w.clock.now().Unix()})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.queue.EnqueueContext(w.t.Context(), asynq.NewTask(tasks.TypeJudge, payload), asynq.TaskID(run+"-judge-0"), asynq.Queue(tasks.SweepQueue("default"))); err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) recheckRow(d sandbox.Domain) string {
	members := []any{
		"organization_id", org, "discovery_domain_id", d.ID, "domain", d.Domain, "verification_host", d.Host, "verification_txt", d.TXT,
		"status", d.Status, "tick", w.clock.now().Unix(),
	}
	if w.prove {
		members = append(members, "prove", true)
	}
	if d.Use != nil {
		members = append(members, "use_for_organization_discovery", *d.Use)
	}
	return row(members...)
}

// memory is what is remembered of a domain.
func (w *world) memory(id string) (m tasks.Memory) {
	w.t.Helper()
	value, err := w.memories.Memory(w.t.Context(), id)
	if err == nil && value != nil {
		m, err = tasks.ReadMemory(value)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// withoutRelooks leaves out the looks between two sweeps.
type withoutRelooks struct{ tasks.Enqueuer }

func (q withoutRelooks) EnqueueContext(ctx context.Context, t *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if t.Type() == tasks.TypeRelook {
		return nil, asynq.ErrTaskIDConflict
	}
	return q.Enqueuer.EnqueueContext(ctx, t, opts...)
}

func actingBy(action tasks.Action) func(*settings) {
	return func(s *settings) {
		s.tasks.Rules = tasks.Rules{Action: action}
		s.tasks.Enqueuer = withoutRelooks{s.tasks.Enqueuer}
		s.sandbox.FlagDefault = sandbox.FlagTrue
	}
}

// days sweeps once a day.
func (w *world) days(n int) {
	w.t.Helper()
	for range n {
		w.sweepRows()
		w.drain()
		w.clock.advance(24 * time.Hour)
	}
}

// age lets so many sweeps have found the token gone in the time before now.
func (w *world) age(d time.Duration, sweeps int) {
	w.t.Helper()
	w.alter(func(m *tasks.Memory) {
		m.Absence.Since, m.Absence.Checks = m.Absence.Since.Add(-d), m.Absence.Checks+sweeps
		m.Absence.Tick -= int64(d.Seconds())
	})
}

// verified is a verified domain whose token is not there.
func (w *world) verified(use *bool) sandbox.Domain {
	return w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified", Use: use})
}

func (w *world) wantTold(types ...string) {
	w.t.Helper()
	if got := w.notices.types(); got != strings.Join(types, " ") {
		w.t.Errorf("told %q, want %q", got, strings.Join(types, " "))
	}
}

// wantVerdict checks that the history's last event is that, with the answers by which the
// record was changed, and that an audit line tells of it.
func (w *world) wantVerdict(what, state, audited string) {
	w.t.Helper()
	past := w.memory(dom).Past
	last := past[len(past)-1]
	v, err := tasks.ReadEvidence(last.Verdict)
	if err != nil || last.What != what || v.State != state || len(v.Said) != 3 || v.Said[0].State != state || v.Compared.DiscoveryDomainID != dom {
		w.t.Errorf("the history ends with %q, by the verdict %+v, %v; want %q, by one that is %s", last.What, v, err, what, state)
	}
	if n := strings.Count(w.log.String(), `"msg":"audit","event":"`+audited+`","tenant":"default"`); n < 1 || n > 2 {
		w.t.Errorf("%d audit lines %q, want one, or another one of a second execution", n, audited)
	}
}

// sweepScenarios are the last sweep of a grace, and that of a token's return.
func sweepScenarios() []scenario {
	lost := func(action tasks.Action, status string, use bool) scenario {
		return scenario{
			name: "lost_" + string(action), change: actingBy(action), safe: func(*world) {},
			begin: func(w *world) {
				w.verified(new(true))
				w.days(1)
				w.age(7*24*time.Hour, 6)
				w.sweepRows()
				w.saboteur.calls, w.steps = nil, 0
			},
			end: func(w *world) {
				d := w.domain(org, dom)
				if d.Status != status || d.Use == nil || *d.Use != use {
					w.t.Errorf("the domain is %s, use %v, want %s, %t", d.Status, d.Use, status, use)
				}
				w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)
				if m := w.memory(dom); (m.Taken == nil) != (action == tasks.ActReport) || m.Acting != nil {
					w.t.Errorf("remembered %+v", m)
				}
				if action != tasks.ActReport {
					w.wantVerdict("acted on: "+string(action), "absent", map[tasks.Action]string{tasks.ActUnroute: "domain unrouted", tasks.ActPending: "domain set to pending"}[action])
				}
			},
		}
	}
	back := func(action tasks.Action) scenario {
		s := lost(action, "verified", true)
		s.name = "back_" + string(action)
		before := s.begin
		s.begin = func(w *world) {
			before(w)
			w.drain()
			d := w.domain(org, dom)
			w.sandbox.SetTXT(d.Host, d.TXT)
			w.clock.advance(24 * time.Hour)
			w.sweepRows()
			w.saboteur.calls, w.steps = nil, 0
		}
		s.end = func(w *world) {
			d := w.domain(org, dom)
			if d.Status != "verified" || d.Use == nil || !*d.Use {
				w.t.Errorf("the domain is %s, use %v, want it as it was", d.Status, *d.Use)
			}
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
			if m := w.memory(dom); m.Taken != nil || m.Acting != nil || m.Absence != nil {
				w.t.Errorf("remembered %+v", m)
			}
			if action != tasks.ActReport {
				w.wantVerdict("restored", "present", map[tasks.Action]string{tasks.ActUnroute: "domain routed again", tasks.ActPending: "domain verified"}[action])
			}
		}
		return s
	}
	return append([]scenario{
		lost(tasks.ActReport, "verified", true), lost(tasks.ActUnroute, "verified", false), lost(tasks.ActPending, "pending", true),
		back(tasks.ActReport), back(tasks.ActUnroute), back(tasks.ActPending),
	}, omittedScenarios()...)
}

func TestSweepKilledAnywhere(t *testing.T) {
	for _, s := range sweepScenarios() {
		t.Run(s.name, func(t *testing.T) { stepInto(t, s, false) })
	}
}

func TestSweepCancelledAnywhere(t *testing.T) {
	for _, s := range sweepScenarios() {
		t.Run(s.name, func(t *testing.T) { stepInto(t, s, true) })
	}
}

func TestSweepInTrouble(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"throttled":   status(http.StatusTooManyRequests, "Retry-After", "7"),
		"unavailable": status(http.StatusServiceUnavailable),
		"lost":        {DropAfter: true},
		"cut":         {Truncate: true},
	} {
		for _, s := range sweepScenarios() {
			t.Run(s.name+"/"+name, func(t *testing.T) { eachRequest(t, s, fault, s.end) })
		}
	}
}

// TestNotBeforeTheGrace: the action comes with the first sweep that ends the grace, and
// not with the ones before.
func TestNotBeforeTheGrace(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	w.verified(new(true))
	for day := range 8 {
		if d := w.domain(org, dom); d.Status != "verified" {
			t.Fatalf("day %d: it is %s already", day, d.Status)
		}
		w.days(1)
	}
	if d := w.domain(org, dom); d.Status != "pending" {
		t.Errorf("it is %s after eight sweeps over seven days", d.Status)
	}
	if run, detail := w.fate("run0", 0); run != "unchanged" || !strings.HasPrefix(detail, "absent: ") {
		t.Errorf("the first row is %s: %s", run, detail)
	}
}

// TestUnknownNeitherCountsNorClears: nights without an answer are no days of absence,
// and do not begin the grace anew.
func TestUnknownNeitherCountsNorClears(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	d := w.verified(new(true))
	w.days(1)
	w.sandbox.SetRCode(d.Host, 2, 1<<30)
	w.days(9)
	if m := w.memory(dom); m.Absence == nil || m.Absence.Checks != 1 || m.State != "unknown" {
		t.Fatalf("remembered %+v", m)
	}
	w.sandbox.SetRCode(d.Host, 2, 0)
	w.days(1)
	if d := w.domain(org, dom); d.Status != "verified" {
		t.Fatal("acted on after two sweeps")
	}
	w.days(1)
	if d := w.domain(org, dom); d.Status != "pending" {
		t.Error("not acted on after the third sweep, eleven days after the first")
	}
}

// TestOneSightingATick: however often a re-check runs, it counts once.
func TestOneSightingATick(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	w.verified(new(true))
	w.sweepRows()
	look := w.queue.byType(tasks.TypeRecheck)[0]
	w.drain()
	for range 5 {
		second := w.sweepSame(look)
		w.clock.advance(time.Hour)
		if err := w.mux.Deliver(t.Context(), asynq.NewTask(look.typ, second), "x", look.queue, 0); err != nil {
			t.Fatal(err)
		}
	}
	if m := w.memory(dom); m.Absence == nil || m.Absence.Checks != 1 || m.Sweeps != 1 {
		t.Errorf("remembered %+v: want one look", m)
	}
	if tally, err := w.memories.Tally(t.Context(), newWorldTime.Unix()); err != nil || tally["absent"] != 1 {
		t.Errorf("tally %v, %v", tally, err)
	}
}

// sweepSame is the same look as a row of another run, of the same tick.
func (w *world) sweepSame(look *queued) []byte {
	w.t.Helper()
	run := fmt.Sprintf("run%d", len(w.runs))
	w.runs = append(w.runs, run)
	r, _, err := w.ledger.Create(w.t.Context(), runs.Run{ID: run, Kind: tasks.TypeRecheck, Tenant: "default", CreatedAt: w.clock.now()})
	if err != nil {
		w.t.Fatal(err)
	}
	var p tasks.RecheckPayload
	if err := json.Unmarshal(look.payload, &p); err != nil {
		w.t.Fatal(err)
	}
	p.Run, p.Generation = run, r.Generation
	payload, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return payload
}

// TestAnAbsenceIsOfTheRecord: before an absence counts the record is read; what it says
// now is looked for.
func TestAnAbsenceIsOfTheRecord(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world, sandbox.Domain)
		detail string
		state  string // remembered; empty: nothing
	}{
		{"as it was", func(*world, sandbox.Domain) {}, "absent: ", "absent"},
		{"another token, which is there", func(w *world, d sandbox.Domain) {
			d.TXT = "other"
			w.sandbox.SetDomain(org, d)
			w.sandbox.SetTXT(d.Host, "other")
		}, "present", "present"},
		{"another token, which is not", func(w *world, d sandbox.Domain) {
			d.TXT = "other"
			w.sandbox.SetDomain(org, d)
		}, "absent: ", "absent"},
		{"pending", func(w *world, d sandbox.Domain) {
			d.Status = "pending"
			w.sandbox.SetDomain(org, d)
		}, "pending, but not set by orgops", ""},
		{"gone", func(w *world, d sandbox.Domain) { w.sandbox.RemoveDomain(org, d.ID) }, "was deleted", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActPending))
			d := w.verified(new(true))
			w.sweepRows()
			test.change(w, d)
			w.drain()
			w.wantFate("run0", 0, "unchanged", test.detail)
			m := w.memory(dom)
			if m.State != test.state {
				t.Errorf("remembered %q, want %q", m.State, test.state)
			}
			if n := len(w.requests(sandbox.OpGetDiscoveryDomain)); n != 1 {
				t.Errorf("%d GETs, want 1", n)
			}
		})
	}
}

// TestPresentAsksNothing: a domain that has its token costs no request.
func TestPresentAsksNothing(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	d := w.verified(new(true))
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.days(3)
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
	if m := w.memory(dom); m.State != "present" || m.Sweeps != 3 || !m.FirstPresent.Equal(newWorldTime) || m.LastPresent.Sub(m.FirstPresent) != 48*time.Hour {
		t.Errorf("remembered %+v", m)
	}
	w.wantTold()
}

// TestOthersDoings: what somebody else has done to a domain is left as it is.
func TestOthersDoings(t *testing.T) {
	t.Run("set to pending in the grace", func(t *testing.T) {
		w := newWorld(t, actingBy(tasks.ActPending))
		w.verified(new(true))
		w.days(5)
		d := w.domain(org, dom)
		d.Status = "pending"
		w.sandbox.SetDomain(org, d)
		w.days(1)
		w.sandbox.SetTXT(d.Host, d.TXT)
		w.days(5)
		if d := w.domain(org, dom); d.Status != "pending" {
			t.Errorf("it was given back although it is not we who took it: %s", d.Status)
		}
		if m := w.memory(dom); m.Absence != nil || m.Taken != nil {
			t.Errorf("remembered %+v", m)
		}
	})
	t.Run("set to verified after our pending", func(t *testing.T) {
		w := newWorld(t, actingBy(tasks.ActPending))
		w.verified(new(true))
		w.days(8)
		d := w.domain(org, dom)
		if d.Status != "pending" {
			t.Fatalf("it is %s", d.Status)
		}
		d.Status = "verified"
		w.sandbox.SetDomain(org, d)
		w.days(7)
		if d := w.domain(org, dom); d.Status != "verified" {
			t.Fatal("acted on again before another grace")
		}
		w.days(2)
		if d := w.domain(org, dom); d.Status != "pending" {
			t.Errorf("it is %s after another grace", d.Status)
		}
	})
	t.Run("routed again after our unroute", func(t *testing.T) {
		w := newWorld(t, actingBy(tasks.ActUnroute))
		w.verified(new(true))
		w.days(8)
		d := w.domain(org, dom)
		if *d.Use {
			t.Fatal("it is routed")
		}
		d.Use = new(true)
		w.sandbox.SetDomain(org, d)
		w.days(1)
		if m := w.memory(dom); m.Taken != nil {
			t.Errorf("remembered %+v", m)
		}
	})
	t.Run("unrouted before us", func(t *testing.T) {
		w := newWorld(t, actingBy(tasks.ActUnroute))
		d := w.verified(new(false))
		w.days(9)
		w.sandbox.SetTXT(d.Host, d.TXT)
		w.days(2)
		if d := w.domain(org, dom); *d.Use {
			t.Error("a flag was given that we did not take")
		}
		if n := len(w.requests(sandbox.OpUpdateDiscoveryDomain)); n != 0 {
			t.Errorf("%d PATCHes", n)
		}
	})
}

// TestProtected: what is protected is told to be at risk, and never acted on.
func TestProtected(t *testing.T) {
	for protect, protects := range map[string]bool{
		org: true, "example.org": true, "d.example.org": true, "D.example.org.": true, "ample.org": false, "org_11": false,
	} {
		t.Run(protect, func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActPending), func(s *settings) { s.tasks.Rules.Protect = []string{"x.org", protect} })
			w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Domain: "d.example.org", Status: "verified", Use: new(true)})
			w.days(9)
			if d := w.domain(org, dom); (d.Status == "verified") != protects {
				t.Errorf("it is %s", d.Status)
			}
			if protects {
				w.wantTold(tasks.NoticeAtRisk)
			}
		})
	}
}

// TestLookedAtBetween: inside the grace a domain is looked at more often, which may
// only clear.
func TestLookedAtBetween(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.tasks.Rules.Action = tasks.ActPending })
	d := w.verified(new(true))
	w.sweepRows()
	for range 12 {
		w.step()
	}
	if m := w.memory(dom); m.Absence == nil || m.Absence.Checks != 1 {
		t.Fatalf("remembered %+v: want one check", m)
	}
	if looked := w.clock.now().Sub(newWorldTime); looked < 8*time.Hour || looked > 13*time.Hour {
		t.Errorf("it was looked at ten times in %s", looked)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	if m := w.memory(dom); m.Absence != nil || m.State != "absent" || m.LastPresent.IsZero() {
		t.Errorf("remembered %+v: want the absence cleared", m)
	}
	w.wantTold(tasks.NoticeAtRisk, tasks.NoticeRestored)
}

// TestGivenBackBetween: what was taken away is given back by a look between two sweeps.
func TestGivenBackBetween(t *testing.T) {
	for _, action := range []tasks.Action{tasks.ActPending, tasks.ActUnroute} {
		t.Run(string(action), func(t *testing.T) {
			s := sweepScenarios()[map[tasks.Action]int{tasks.ActUnroute: 1, tasks.ActPending: 2}[action]]
			w := s.world(t)
			w.reboot(func(c *tasks.Config) { c.Enqueuer = w.queue })
			for range 4 {
				w.step()
			}
			d := w.domain(org, dom)
			if d.Status == "verified" && *d.Use {
				t.Fatal("it was not acted on")
			}
			w.sandbox.SetTXT(d.Host, d.TXT)
			w.drain()
			if d := w.domain(org, dom); d.Status != "verified" || !*d.Use {
				t.Errorf("it is %s, use %t", d.Status, *d.Use)
			}
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
		})
	}
}

// TestAnIntentIsFoundOut: an action that was given up after its PATCH is finished at the
// end of the next sweep, and the domain given back when its token returns.
func TestAnIntentIsFoundOut(t *testing.T) {
	for _, action := range []tasks.Action{tasks.ActPending, tasks.ActUnroute} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t, actingBy(action))
			w.verified(new(true))
			w.days(1)
			w.age(7*24*time.Hour, 6)
			lift := w.sandbox.AddFault(sandbox.Fault{DropAfter: true, Match: func(r sandbox.Request) bool {
				return r.Method == http.MethodPatch || r.Operation == sandbox.OpGetDiscoveryDomain && w.memory(dom).Acting != nil
			}})
			w.days(1)
			if m := w.memory(dom); m.Acting == nil || m.Taken != nil {
				t.Fatalf("remembered %+v: want an intent, and no word of what became of it", m)
			}
			lift()
			w.days(1)
			if m := w.memory(dom); m.Acting != nil || m.Taken == nil {
				t.Fatalf("remembered %+v: want it found out", m)
			}
			d := w.domain(org, dom)
			w.sandbox.SetTXT(d.Host, d.TXT)
			w.days(1)
			if d := w.domain(org, dom); d.Status != "verified" || !*d.Use {
				t.Errorf("it is %s, use %t", d.Status, *d.Use)
			}
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
		})
	}
}

// TestGoneIsForgotten: a domain that was at risk and is deleted is forgotten.
func TestGoneIsForgotten(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	w.verified(new(true))
	w.days(2)
	w.sandbox.RemoveDomain(org, dom)
	w.days(1)
	if m := w.memory(dom); m.V != 0 {
		t.Errorf("remembered %+v", m)
	}
	for id, err := range w.memories.Attended(t.Context()) {
		t.Errorf("%s is attended (%v)", id, err)
	}
}

// TestPendingOnes: pending domains that a sweep is to prove are proven where their token
// is there, and left alone otherwise.
func TestPendingOnes(t *testing.T) {
	for _, test := range []struct {
		name            string
		prove, there    bool
		status, outcome string
	}{
		{"to be proven, and there", true, true, "verified", "done"},
		{"to be proven, and not there", true, false, "pending", "unchanged"},
		{"not to be proven", false, true, "pending", "unchanged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActPending))
			w.prove = test.prove
			d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "pending", Use: new(false)})
			if test.there {
				w.sandbox.SetTXT(d.Host, d.TXT)
			}
			w.days(1)
			w.wantFate("run0", 0, test.outcome)
			if d := w.domain(org, dom); d.Status != test.status || *d.Use {
				t.Errorf("it is %s, use %t", d.Status, *d.Use)
			}
			if test.status == "verified" {
				w.wantTold(tasks.NoticeVerified)
			} else {
				w.wantTold()
			}
			if m := w.memory(dom); m.Absence != nil {
				t.Errorf("remembered %+v", m)
			}
		})
	}
}

// TestTakenFromAnotherToken: what we took away is given back by the token that the
// domain has by then.
func TestTakenFromAnotherToken(t *testing.T) {
	for _, action := range []tasks.Action{tasks.ActPending, tasks.ActUnroute} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t, actingBy(action))
			w.verified(new(true))
			w.days(1)
			w.age(7*24*time.Hour, 6)
			w.days(1)
			d := w.domain(org, dom)
			d.TXT = "another"
			w.sandbox.SetDomain(org, d)
			w.days(2)
			if d := w.domain(org, dom); d.Status == "verified" && *d.Use {
				t.Fatal("given back without its token")
			}
			w.sandbox.SetTXT(d.Host, d.TXT)
			w.days(1)
			if d := w.domain(org, dom); d.Status != "verified" || !*d.Use {
				t.Errorf("it is %s, use %t, want it given back", d.Status, *d.Use)
			}
		})
	}
}

// opening opens the breaker while a sweep is being judged.
type opening struct {
	tasks.Memories
	open func()
}

func (o *opening) Tally(ctx context.Context, tick int64) (map[string]int64, error) {
	if open := o.open; open != nil {
		o.open = nil
		open()
	}
	return o.Memories.Tally(ctx, tick)
}

// TestBreakerOpensMeanwhile: a judging that began before the breaker opened neither
// closes it nor acts.
func TestBreakerOpensMeanwhile(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	w.verified(new(true))
	w.days(1)
	w.age(7*24*time.Hour, 6)
	open, err := json.Marshal(tasks.Breaker{ID: "other", Open: true, Why: "too much at once"})
	if err != nil {
		t.Fatal(err)
	}
	memories := &opening{Memories: w.config.Memories, open: func() {
		if ok, err := w.memories.SetState(t.Context(), tasks.StateBreaker, nil, open); err != nil || !ok {
			t.Error(ok, err)
		}
	}}
	w.reboot(func(c *tasks.Config) { c.Memories = memories })
	w.days(1)
	if value, err := w.memories.State(t.Context(), tasks.StateBreaker); err != nil || !strings.Contains(string(value), `"open":true`) {
		t.Errorf("the breaker is %s, %v", value, err)
	}
	if d := w.domain(org, dom); d.Status != "verified" {
		t.Errorf("acted on: %s", d.Status)
	}
}
