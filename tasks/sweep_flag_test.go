package tasks_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

// alter changes what is remembered of the domain.
func (w *world) alter(change func(*tasks.Memory)) {
	w.t.Helper()
	former, err := w.memories.Memory(w.t.Context(), dom)
	if err != nil {
		w.t.Fatal(err)
	}
	m := w.memory(dom)
	change(&m)
	value, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	if ok, err := w.memories.Remember(w.t.Context(), dom, former, value, true, m.Tick); err != nil || !ok {
		w.t.Fatal(ok, err)
	}
}

// edit changes the tenant's record, as somebody does by hand.
func (w *world) edit(change func(*sandbox.Domain)) sandbox.Domain {
	w.t.Helper()
	d := w.domain(org, dom)
	change(&d)
	w.sandbox.SetDomain(org, d)
	return d
}

// flag sets the record's flag; nil: the record omits it.
func (w *world) flag(use *bool) { w.edit(func(d *sandbox.Domain) { d.Use = use }) }

// back publishes the domain's token.
func (w *world) back() {
	d := w.domain(org, dom)
	w.sandbox.SetTXT(d.Host, d.TXT)
}

// wantPatches compares the bodies of all PATCHes.
func (w *world) wantPatches(bodies ...string) {
	w.t.Helper()
	var got []string
	for _, r := range w.requests(sandbox.OpUpdateDiscoveryDomain) {
		got = append(got, r.Body)
	}
	if strings.Join(got, "\n") != strings.Join(bodies, "\n") {
		w.t.Errorf("PATCHes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(bodies, "\n"))
	}
}

// wantPast checks how often the history has an event, and that each mentions the flag.
func (w *world) wantPast(what string, times int) {
	w.t.Helper()
	n := 0
	for _, e := range w.memory(dom).Past {
		if e.What != what {
			continue
		}
		n++
		if !strings.Contains(e.Why, "use_for_organization_discovery") {
			w.t.Errorf("event %q: reason %q does not mention the flag", what, e.Why)
		}
	}
	if n != times {
		w.t.Errorf("the history has %q %d times, want %d: %+v", what, n, times, w.memory(dom).Past)
	}
}

// forgetCompleted removes completed tasks, as asynq does at the end of their retention.
func (q *queue) forgetCompleted() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = slices.DeleteFunc(q.tasks, func(t *queued) bool { return t.state == "completed" })
}

// PATCH bodies.
const (
	patchUse        = `{"use_for_organization_discovery":true}`
	patchNoUse      = `{"use_for_organization_discovery":false}`
	patchPending    = `{"status":"pending","use_for_organization_discovery":true}`
	patchPendingNot = `{"status":"pending","use_for_organization_discovery":false}`
	patchVerifyNot  = `{"status":"verified","use_for_organization_discovery":false}`
)

// omittedScenarios are the last sweep of a grace, and that of a token's return, where
// the record omits its flag.
func omittedScenarios() []scenario {
	omitted := func(action tasks.Action) scenario {
		return scenario{
			name: "omitted_" + string(action), change: actingBy(action), safe: func(w *world) { w.wantPatches() },
			begin: func(w *world) {
				w.verified(nil)
				w.days(1)
				w.age(7*24*time.Hour, 6)
				w.sweepRows()
				w.saboteur.calls, w.steps = nil, 0
			},
			end: func(w *world) {
				w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)
				if d, m := w.domain(org, dom), w.memory(dom); d.Status != "verified" || d.Use != nil || m.Taken != nil || m.Acting != nil {
					w.t.Errorf("the domain is %+v, remembered %+v", d, m)
				}
			},
		}
	}
	returned := func(action tasks.Action, end func(*world)) scenario {
		return scenario{
			name: "returned_" + string(action), change: actingBy(action), safe: func(*world) {}, end: end,
			begin: func(w *world) {
				w.verified(new(action == tasks.ActUnroute))
				w.days(1)
				w.age(7*24*time.Hour, 6)
				w.sweepRows()
				w.drain()
				w.flag(nil)
				w.back()
				w.clock.advance(24 * time.Hour)
				w.sweepRows()
				w.saboteur.calls, w.steps = nil, 0
			},
		}
	}
	return []scenario{
		omitted(tasks.ActUnroute), omitted(tasks.ActPending),
		returned(tasks.ActUnroute, func(w *world) {
			w.wantPatches(patchNoUse)
			w.wantPast("not restored", 1)
			if m := w.memory(dom); m.Taken == nil || m.Acting != nil {
				w.t.Errorf("remembered %+v", m)
			}
		}),
		returned(tasks.ActPending, func(w *world) {
			if d := w.domain(org, dom); d.Status != "verified" || d.Use == nil || *d.Use {
				w.t.Errorf("the domain is %+v, want it verified, with the flag that it had", d)
			}
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
		}),
	}
}

// TestOmittedFlag: a domain whose record omits its flag is reported, once, and acted on
// once the record has the flag.
func TestOmittedFlag(t *testing.T) {
	for _, test := range []struct {
		action tasks.Action
		use    bool // what the record says later
		want   []string
	}{
		{tasks.ActUnroute, true, []string{patchNoUse}},
		{tasks.ActUnroute, false, nil},
		{tasks.ActPending, true, []string{patchPending}},
		{tasks.ActPending, false, []string{patchPendingNot}},
	} {
		t.Run(string(test.action)+"/later_"+map[bool]string{true: "true", false: "false"}[test.use], func(t *testing.T) {
			w := newWorld(t, actingBy(test.action))
			w.verified(nil)
			w.days(11)
			w.wantPatches()
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)
			lost := w.notices.told.all[len(w.notices.told.all)-1].Data
			for _, part := range []string{"has no use_for_organization_discovery", string(test.action), "absent-action report", "There is no TXT record"} {
				if !strings.Contains(lost.Reason, part) {
					t.Errorf("reason %q does not mention %q", lost.Reason, part)
				}
			}
			if lost.Action != string(tasks.ActReport) {
				t.Errorf("action %q, want report", lost.Action)
			}
			w.wantPast("reported", 1)
			rules := tasks.Rules{Action: test.action}
			if s := rules.Decide(w.memory(dom)); s.As != tasks.StandsReported || !strings.Contains(s.Why, "use_for_organization_discovery") {
				t.Errorf("it stands as %+v, want reported", s)
			}

			w.flag(new(test.use))
			w.days(2)
			w.wantPatches(test.want...)
			if d := w.domain(org, dom); test.want == nil && *d.Use != test.use {
				t.Errorf("the flag is %t", *d.Use)
			}
			if m := w.memory(dom); (m.Taken != nil) != (test.want != nil) {
				t.Errorf("remembered %+v", m)
			}
		})
	}
}

// TestOmittedOnlyAtTheAction: the record that is read right before the action decides.
func TestOmittedOnlyAtTheAction(t *testing.T) {
	for _, action := range []tasks.Action{tasks.ActUnroute, tasks.ActPending} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t, actingBy(action))
			w.verified(new(false))
			w.days(1)
			w.age(7*24*time.Hour, 6)
			w.sweepRows()
			for n := w.queue.next(); n.typ != tasks.TypeAct; n = w.queue.next() {
				w.step()
			}
			w.flag(nil)
			w.drain()
			w.wantPatches()
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)
			if m := w.memory(dom); !m.FlagOmitted || m.Taken != nil {
				t.Errorf("remembered %+v", m)
			}
		})
	}
}

// TestFlagIsWithheld: a flag that was taken away is given back once the record has it
// again, and not before.
func TestFlagIsWithheld(t *testing.T) {
	for _, between := range []bool{false, true} {
		t.Run(map[bool]string{false: "by sweeps", true: "by looks between two sweeps"}[between], func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActUnroute))
			w.verified(new(true))
			w.days(8)
			w.wantPatches(patchNoUse)
			w.flag(nil)
			asked := len(w.requests(sandbox.OpGetDiscoveryDomain))
			if between {
				w.reboot(func(c *tasks.Config) { c.Enqueuer = w.queue })
				w.sweepRows() // which does not find the token yet
				for w.queue.next().typ != tasks.TypeRelook {
					w.step()
				}
				w.back()
				for end := w.clock.now().Add(12 * time.Hour); w.clock.now().Before(end); {
					w.step()
					w.queue.forgetCompleted()
				}
			} else {
				w.back()
				w.days(3)
			}
			w.wantPatches(patchNoUse)
			w.wantPast("not restored", 1)
			if n := len(w.requests(sandbox.OpGetDiscoveryDomain)) - asked; n > 16 {
				t.Errorf("the record was read %d times", n)
			}
			if m := w.memory(dom); m.Taken == nil || m.Withheld() == "" {
				t.Errorf("remembered %+v", m)
			}
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)

			w.flag(new(false))
			if between {
				w.drain()
			} else {
				w.days(1)
			}
			w.wantPatches(patchNoUse, patchUse)
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
			if m := w.memory(dom); m.Taken != nil {
				t.Errorf("remembered %+v", m)
			}
		})
	}
}

// TestStatusBringsItsFlag: a status is given back with the flag that was read when it was
// taken away, unless the record has another one by then; without any it is kept back.
func TestStatusBringsItsFlag(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world)
		want   string // the PATCH that gives it back; empty: none
	}{
		{"the record omits it", func(w *world) { w.flag(nil) }, patchVerifyNot},
		{"the record has it", func(*world) {}, patchVerifyNot},
		{"the record has another", func(w *world) { w.flag(new(true)) }, `{"status":"verified","use_for_organization_discovery":true}`},
		{"it was never known", func(w *world) {
			w.flag(nil)
			w.alter(func(m *tasks.Memory) { m.Taken.Flag = nil })
		}, ""},
		{"it was not known, and the record has it", func(w *world) { w.alter(func(m *tasks.Memory) { m.Taken.Flag = nil }) }, patchVerifyNot},
	} {
		for _, between := range []bool{false, true} {
			t.Run(test.name+map[bool]string{false: "/by a sweep", true: "/between two sweeps"}[between], func(t *testing.T) {
				w := newWorld(t, actingBy(tasks.ActPending))
				w.verified(new(false))
				w.days(8)
				w.wantPatches(patchPendingNot)
				test.change(w)
				run := ""
				if between {
					w.reboot(func(c *tasks.Config) { c.Enqueuer = w.queue })
					w.sweepRows() // which does not find the token yet
					for w.queue.next().typ != tasks.TypeRelook {
						w.step()
					}
					w.back()
					for range 30 {
						w.step()
					}
				} else {
					w.back()
					run = w.sweepRows()
					w.drain()
				}
				if test.want != "" {
					w.wantPatches(patchPendingNot, test.want)
					w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
					return
				}
				w.wantPatches(patchPendingNot)
				w.wantStatus(org, dom, "pending")
				if between {
					w.wantPast("not restored", 1)
				} else {
					w.wantFate(run, 0, "refused", "has no use_for_organization_discovery", "set the flag")
				}
			})
		}
	}
}

// TestSweptConfirmNeedsTheFlag: a pending domain whose record omits its flag is not
// verified by a sweep; a row that was submitted verifies it, as documented.
func TestSweptConfirmNeedsTheFlag(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActReport))
	w.prove = true
	w.proven(sandbox.Domain{})
	w.flag(new(true))
	run := w.sweepRows() // whose list has the flag; the record that is read before the PATCH decides
	w.flag(nil)
	w.drain()
	w.wantFate(run, 0, "refused", "has no use_for_organization_discovery", "nothing was changed", "set the flag explicitly once")
	w.wantPatches()
	w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
	w.drain()
	w.wantPatches(`{"status":"verified"}`)
}

// TestActionOfAnOlderVersion: what was begun without the flag is only found out.
func TestActionOfAnOlderVersion(t *testing.T) {
	for _, test := range []struct {
		name    string
		action  tasks.Action
		back    bool
		change  func(*sandbox.Domain)
		taken   bool // what is remembered in the end
		patches []string
	}{
		{"pending, which was not carried out", tasks.ActPending, false, func(*sandbox.Domain) {}, false, nil},
		{"pending, which was carried out", tasks.ActPending, false, func(d *sandbox.Domain) { d.Status = "pending" }, true, nil},
		{"unroute, which was carried out", tasks.ActUnroute, false, func(d *sandbox.Domain) { d.Use = new(false) }, true, nil},
		{"unroute, and the record omits the flag", tasks.ActUnroute, false, func(*sandbox.Domain) {}, false, nil},
		{"given back, and the record omits the flag", tasks.ActUnroute, true, func(*sandbox.Domain) {}, true, nil},
		{"given back, which was not carried out", tasks.ActUnroute, true, func(d *sandbox.Domain) { d.Use = new(false) }, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, actingBy(test.action))
			d := w.verified(nil)
			w.days(1)
			w.age(7*24*time.Hour, 6)
			w.alter(func(m *tasks.Memory) {
				m.Acting = &tasks.Acting{Action: test.action, At: w.clock.now(), Tick: m.Tick, Since: m.Absence.Since, Host: d.Host, TXT: d.TXT}
				if test.back {
					m.Taken, m.Absence = new(*m.Acting), nil
					m.Acting.Back = true
				}
			})
			w.edit(test.change)
			w.clock.advance(time.Hour)
			if test.back {
				w.back()
			}
			w.days(2)
			w.wantPatches(test.patches...)
			if m := w.memory(dom); (m.Taken != nil) != test.taken {
				t.Errorf("remembered %+v", m)
			}
		})
	}
}

// TestUnrouteWithoutAnAnswer: whether a PATCH was carried out whose answer was lost is
// found out once the record has its flag again.
func TestUnrouteWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActUnroute))
	w.verified(new(true))
	w.days(1)
	w.age(7*24*time.Hour, 6)
	lift := w.sandbox.AddFault(sandbox.Fault{DropAfter: true, Match: func(r sandbox.Request) bool {
		return r.Operation == sandbox.OpUpdateDiscoveryDomain || r.Operation == sandbox.OpGetDiscoveryDomain && w.memory(dom).Acting != nil
	}})
	w.days(1)
	lift()
	w.flag(nil)
	w.days(2)
	w.wantPatches(patchNoUse)
	w.wantPast("whether a PATCH took effect is unknown", 1)
	if m := w.memory(dom); m.Acting == nil {
		t.Fatalf("remembered %+v", m)
	}
	w.flag(new(false))
	w.days(1)
	w.back()
	w.days(1)
	w.wantPatches(patchNoUse, patchUse)
	w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
}
