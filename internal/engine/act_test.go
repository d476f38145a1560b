package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// decided makes a due domain on which a sweep has decided to act, and submits the row.
func (s *sweepSite) decided(use *bool) sandbox.Domain {
	s.t.Helper()
	d := s.due(use)
	s.decide()
	if len(s.asked) != 1 {
		s.t.Fatalf("actions: %+v", s.asked)
	}
	s.begin()
	return d
}

// returning makes a lost domain whose token is published again, and submits the row that
// restores its flag.
func (s *sweepSite) returning() sandbox.Domain {
	s.t.Helper()
	d := s.lost(new(true))
	s.publish()
	s.scan()
	s.finish()
	if len(s.asked) != 1 {
		s.t.Fatalf("actions: %+v", s.asked)
	}
	s.begin()
	return d
}

// openBreaker opens the tenant's breaker.
func (s *sweepSite) openBreaker() {
	s.t.Helper()
	value, err := json.Marshal(sweep.Breaker{ID: "other", Open: true, Why: "too much at once"})
	if err != nil {
		s.t.Fatal(err)
	}
	if ok, err := s.store.SetState(s.t.Context(), sweep.BreakerState, nil, value); err != nil || !ok {
		s.t.Fatal(ok, err)
	}
}

// TestActDecidesAgain checks that an action respects changes since the sweep's decision.
func TestActDecidesAgain(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name    string
		change  func(*sweepSite, sandbox.Domain)
		outcome ledger.Outcome
		detail  string
		watched bool // in the end
	}{
		{"the breaker is open", func(s *sweepSite, _ sandbox.Domain) { s.openBreaker() }, engine.Unchanged, "the breaker is open: too much at once", true},
		{"a later sweep", func(s *sweepSite, _ sandbox.Domain) { s.alter(func(m *sweep.DomainState) { m.Tick++ }) }, engine.Unchanged, "a later sweep", true},
		{"no state", func(s *sweepSite, _ sandbox.Domain) {
			if err := s.states.Forget(s.t.Context(), dom); err != nil {
				s.t.Fatal(err)
			}
		}, engine.Unchanged, "no stored state", false},
		{"another organization", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.OrganizationID = "org_2" })
		}, engine.Unchanged, "no stored state", true},
		{"pending", func(s *sweepSite, _ sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		}, engine.Unchanged, "someone else", false},
		{"another token", func(s *sweepSite, _ sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "another" })
		}, engine.Unchanged, "host or token differ", false},
		{"the token is there", func(s *sweepSite, d sandbox.Domain) { s.publish() }, engine.Unchanged, "the token is there", false},
		{"no answer", func(s *sweepSite, d sandbox.Domain) { s.sandbox.SetRCode(d.Host, 2, 1<<30) }, engine.Unchanged, "the next sweep decides again", true},
		{"protected", func(s *sweepSite, d sandbox.Domain) { s.rules.Protect = []string{d.Domain} }, engine.Unchanged, "no longer acted on: protected", true},
		{"a longer grace period", func(s *sweepSite, d sandbox.Domain) { s.rules.Grace = 100 * 24 * time.Hour }, engine.Unchanged, "no longer acted on: at_risk", true},
		{"the record omits its flag", func(s *sweepSite, _ sandbox.Domain) { s.flag(nil) }, ledger.Done, "has no use_for_organization_discovery", true},
		{"only a report", func(s *sweepSite, _ sandbox.Domain) { s.rules.Action = sweep.Report }, ledger.Done, "report: ", true},
		{"gone", func(s *sweepSite, _ sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, engine.Unchanged, "gone", false},
	} {
		for k, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
			if (i+k)%redistest.Stride(2) != 0 { // by default each change meets one of the actions
				continue
			}
			t.Run(test.name+"/"+string(action), func(t *testing.T) {
				s := newSweepSite(t, action)
				d := s.decided(new(true))
				test.change(s, d)
				s.wantRow(s.finish(), test.outcome, test.detail)
				s.wantPatches()
				m := s.domainState()
				if m.Watched() != test.watched || m.Taken != nil || m.InProgress != nil {
					t.Errorf("state %+v", m)
				}
				if test.outcome == ledger.Done {
					s.wantNotified(events.DomainAtRisk, events.DomainLost)
					if last := s.notified[1].Data; last.Action != "report" {
						t.Errorf("event %+v", last)
					}
				}
			})
		}
	}
}

// TestActBackDecidesAgain is like TestActDecidesAgain, for an action that restores.
func TestActBackDecidesAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sweepSite, sandbox.Domain)
		detail string
		taken  bool // in the end
	}{
		{"pending", func(s *sweepSite, _ sandbox.Domain) { s.edit(func(d *sandbox.Domain) { d.Status = "pending" }) }, "someone else", false},
		{"routed", func(s *sweepSite, _ sandbox.Domain) { s.flag(new(true)) }, "someone else has restored", false},
		{"another token", func(s *sweepSite, _ sandbox.Domain) { s.edit(func(d *sandbox.Domain) { d.TXT = "another" }) }, "host or token differ", true},
		{"the token is gone", func(s *sweepSite, d sandbox.Domain) { s.sandbox.SetTXT(d.Host, "gone") }, "not restored", true},
		{"the record omits its flag", func(s *sweepSite, _ sandbox.Domain) { s.flag(nil) }, "not restored", true},
		{"it had none before", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Taken.Flag = nil })
		}, "not restored", true},
		{"nothing was taken", func(s *sweepSite, _ sandbox.Domain) { s.alter(func(m *sweep.DomainState) { m.Taken = nil }) }, "nothing to restore", false},
		{"the status was taken", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Taken = &sweep.ActionRequest{Action: sweep.SetPending} })
		}, "nothing to restore", true},
		{"gone", func(s *sweepSite, _ sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, "the next sweep shows", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			d := s.returning()
			test.change(s, d)
			s.wantRow(s.finish(), engine.Unchanged, test.detail)
			s.wantPatches(patchNoUse)
			if m := s.domainState(); (m.Taken != nil) != test.taken || m.InProgress != nil {
				t.Errorf("state %+v", m)
			}
		})
	}
	t.Run("a read is behind the action", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.due(new(true))
		s.sweep()
		s.publish()
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 2, Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
		s.open("", kinds.Act, sweep.ActionRow{OrganizationID: org, DiscoveryDomainID: dom, Tick: 1, Back: true})
		s.wantRow(s.finish(), ledger.Done, "restored")
		s.wantPatches(patchNoUse, patchUse)
	})
	t.Run("reads are behind the action after a lost answer", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.due(new(true))
		s.sweep()
		s.publish()
		s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropBefore: true})
		s.open("", kinds.Act, sweep.ActionRow{OrganizationID: org, DiscoveryDomainID: dom, Tick: 1, Back: true})
		s.once()
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3, Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
		s.wantRow(s.finish(), ledger.Done, "restored")
		s.wantDomain("verified", new(true))
	})
}

// TestActOmittedFlag checks that a domain whose record omits its flag is reported once, and
// acted on once the record has the flag.
func TestActOmittedFlag(t *testing.T) {
	for i, test := range []struct {
		action sweep.Action
		use    bool // the record's flag later
		want   []string
	}{
		{sweep.Unroute, true, []string{patchNoUse}},
		{sweep.Unroute, false, nil},
		{sweep.SetPending, true, []string{patchPending}},
		{sweep.SetPending, false, []string{patchPendingNot}},
	} {
		if i%redistest.Stride(3) != 0 { // by default one of each action
			continue
		}
		t.Run(fmt.Sprintf("%s, later %t", test.action, test.use), func(t *testing.T) {
			s := newSweepSite(t, test.action)
			s.verified(nil)
			s.days(11)
			s.wantPatches()
			s.wantNotified(events.DomainAtRisk, events.DomainLost)
			lost := s.notified[1].Data
			for _, part := range []string{"has no use_for_organization_discovery", string(test.action), "absent-action report", "There is no TXT record"} {
				if !contains(lost.Reason, part) {
					t.Errorf("reason %q, want %q", lost.Reason, part)
				}
			}
			s.wantHistory("reported", "use_for_organization_discovery", 1)
			s.flag(new(test.use))
			s.days(2)
			s.wantPatches(test.want...)
			if d, _ := s.sandbox.Domain(org, dom); test.want == nil && *d.Use != test.use {
				t.Errorf("the flag is %t", *d.Use)
			}
			if m := s.domainState(); (m.Taken != nil) != (test.want != nil) {
				t.Errorf("state %+v", m)
			}
		})
	}
}

// TestActLostAnswer loses the answer to an action's PATCH. The record is read until it shows
// the result, and no other request is sent before.
func TestActLostAnswer(t *testing.T) {
	lost := map[string]struct {
		fault   sandbox.Fault
		patches int
	}{
		"carried out":     {sandbox.Fault{DropAfter: true}, 1},
		"not carried out": {sandbox.Fault{DropBefore: true}, 2},
		"503":             {sandbox.Fault{Status: http.StatusServiceUnavailable}, 2},
	}
	for name, test := range lost {
		for _, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
			t.Run(name+"/"+string(action), func(t *testing.T) {
				s := newSweepSite(t, action)
				s.decided(new(true))
				s.fail(sandbox.OpUpdateDiscoveryDomain, test.fault)
				s.wantFound(test.patches, func() { s.wantRow(s.finish(), ledger.Done, string(action)) })
				s.wantNotified(events.DomainAtRisk, events.DomainLost)
				if m := s.domainState(); m.Taken == nil || m.InProgress != nil {
					t.Errorf("state %+v", m)
				}
			})
		}
		t.Run(name+"/back", func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.returning()
			s.fail(sandbox.OpUpdateDiscoveryDomain, test.fault)
			s.wantFound(test.patches, func() { s.wantRow(s.finish(), ledger.Done, "restored") })
			s.wantDomain("verified", new(true))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
		})
	}
}

// wantFound checks that do sends that many PATCHes, each at least five minutes after the
// previous one, since reads may lag behind.
func (s *sweepSite) wantFound(patches int, do func()) {
	s.t.Helper()
	var at []time.Time
	s.on = func(name string) {
		if name == "before PATCH" {
			at = append(at, s.clock.now())
		}
	}
	do()
	s.on = func(string) {}
	if len(at) != patches {
		s.t.Errorf("%d PATCHes, want %d", len(at), patches)
	}
	for i := 1; i < len(at); i++ {
		if d := at[i].Sub(at[i-1]); d < 5*time.Minute-time.Second {
			s.t.Errorf("a PATCH %s after the last one", d)
		}
	}
}

// TestActLostAndBack has a PATCH executed without an answer, reads that lag behind, and a
// token that is published again. The value that was taken away is restored.
func TestActLostAndBack(t *testing.T) {
	for _, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
		t.Run(string(action), func(t *testing.T) {
			s := newSweepSite(t, action)
			s.decided(new(true))
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: true})
			s.once()
			s.publish()
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3, Wrong: func(d *sandbox.Domain) { d.Status, d.Use = "verified", new(true) }})
			s.wantRow(s.finish(), ledger.Done, string(action))
			s.clock.advance(time.Hour)
			s.sweep()
			s.wantDomain("verified", new(true))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
		})
	}
}

// TestActRefused checks that a refused PATCH has no effect, and that its action is not in
// progress.
func TestActRefused(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.decided(new(true))
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{Status: status})
			s.wantRow(s.finish(), engine.Refused)
			if m := s.domainState(); m.InProgress != nil || m.Taken != nil || m.Absence == nil {
				t.Errorf("state %+v", m)
			}
		})
	}
}

// TestActGivenUp checks that an action given up with a PATCH in progress is finished at the
// end of the next sweep, and that the taken value is restored when the token returns.
func TestActGivenUp(t *testing.T) {
	for _, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
		t.Run(string(action), func(t *testing.T) {
			s := newSweepSite(t, action)
			s.decided(new(true))
			lift := s.sandbox.AddFault(sandbox.Fault{DropAfter: true, Match: func(r sandbox.Request) bool {
				return r.Method == http.MethodPatch || r.Operation == sandbox.OpGetDiscoveryDomain && s.domainState().InProgress != nil
			}})
			s.wantRow(s.finish(), engine.Failed, "may have had its effect")
			if m := s.domainState(); m.InProgress == nil || m.Taken != nil {
				t.Fatalf("state %+v: want a request in progress", m)
			}
			lift()
			s.days(1)
			if m := s.domainState(); m.InProgress != nil || m.Taken == nil {
				t.Fatalf("state %+v: want its result", m)
			}
			s.publish()
			s.days(1)
			s.wantDomain("verified", new(true))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
		})
	}
}

// TestActUnknownResult checks that the result of a PATCH is known once the record has its flag
// again.
func TestActUnknownResult(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.decided(new(true))
	s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: true})
	s.once()
	s.flag(nil)
	s.wantRow(s.finish(), engine.Unchanged, "the result of a PATCH is unknown")
	s.days(2)
	s.wantPatches(patchNoUse)
	s.wantHistory("whether a PATCH took effect is unknown", "use_for_organization_discovery", 1)
	if m := s.domainState(); m.InProgress == nil {
		t.Fatalf("state %+v", m)
	}
	s.flag(new(false))
	s.days(1)
	s.publish()
	s.days(1)
	s.wantPatches(patchNoUse, patchUse)
	s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
}

// TestActOlderRequest checks that of a request stored without a flag only the result is read.
func TestActOlderRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		action  sweep.Action
		back    bool
		change  func(*sandbox.Domain)
		taken   bool
		patches []string
	}{
		{"pending, not carried out", sweep.SetPending, false, func(*sandbox.Domain) {}, false, nil},
		{"pending, carried out", sweep.SetPending, false, func(d *sandbox.Domain) { d.Status = "pending" }, true, nil},
		{"unroute, carried out", sweep.Unroute, false, func(d *sandbox.Domain) { d.Use = new(false) }, true, nil},
		{"unroute, and the record omits the flag", sweep.Unroute, false, func(*sandbox.Domain) {}, false, nil},
		{"given back, and the record omits the flag", sweep.Unroute, true, func(*sandbox.Domain) {}, true, nil},
		{"given back, not carried out", sweep.Unroute, true, func(d *sandbox.Domain) { d.Use = new(false) }, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, test.action)
			d := s.due(nil)
			s.alter(func(m *sweep.DomainState) {
				m.InProgress = &sweep.ActionRequest{Action: test.action, At: s.clock.now(), Tick: m.Tick, Since: m.Absence.Since, Host: d.Host, TXT: d.TXT}
				if test.back {
					m.Taken, m.Absence = new(*m.InProgress), nil
					m.InProgress.Back = true
				}
			})
			s.edit(test.change)
			s.clock.advance(time.Hour)
			if test.back {
				s.publish()
			}
			s.days(2)
			s.wantPatches(test.patches...)
			if m := s.domainState(); (m.Taken != nil) != test.taken {
				t.Errorf("state %+v", m)
			}
		})
	}
}

// TestActStop pauses or cancels the run of an action at each point. No PATCH is sent after
// that, and the result of one in progress is read.
func TestActStop(t *testing.T) {
	t.Parallel()
	type stop = func(*ledger.Ledger, context.Context, ledger.RunID) error
	faults := []struct {
		name   string
		fault  sandbox.Fault
		points int // at least
	}{{"", sandbox.Fault{}, 17}, {"carried out", sandbox.Fault{DropAfter: true}, 25}, {"not carried out", sandbox.Fault{DropBefore: true}, 33}}
	for name, do := range map[string]stop{"pause": (*ledger.Ledger).Pause, "cancel": (*ledger.Ledger).Cancel} {
		nth := len(name) // the two differ
		for _, f := range faults {
			for _, back := range []bool{false, true} {
				nth++
				for point := range points(t, 1, f.points, 17, nth) {
					stopped := ""
					t.Run(fmt.Sprintf("%s/%s/back %t/%d", name, f.name, back, point), func(t *testing.T) {
						s := newSweepSite(t, sweep.Unroute)
						if back {
							s.returning()
						} else {
							s.decided(new(true))
						}
						if f.name != "" {
							s.fail(sandbox.OpUpdateDiscoveryDomain, f.fault)
						}
						n := 0
						s.on = func(at string) {
							if n++; n == point && s.row(0).Phase != ledger.PhaseSettled {
								stopped = at
								if err := do(s.Ledger, t.Context(), s.run.ID); err != nil {
									t.Error(err)
								}
							}
						}
						for stopped == "" && s.once() {
							s.timed.after = max(s.timed.after, 5*time.Minute) // when a read shows the result
						}
						s.on = func(string) {}
						if stopped == "" {
							return
						}
						before := len(s.writes())
						for range 20 {
							if !s.once() {
								break
							}
						}
						if n := len(s.writes()); n > before {
							t.Errorf("stopped %s: PATCHes %v, %d before", stopped, s.writes(), before)
						}
						s.checkStopped(stopped, name == "cancel", back)
						if name == "pause" && s.row(0).Phase != ledger.PhaseSettled {
							if err := s.Resume(t.Context(), s.run.ID); err != nil {
								t.Fatal(err)
							}
							s.wantRow(s.finish(), ledger.Done)
							s.wantDomain("verified", new(back))
						}
					})
					if stopped == "" {
						break
					}
				}
			}
		}
	}
}

// TestActKilledAndStopped kills the worker of an action at each point and stops the run
// before another one executes the row.
func TestActKilledAndStopped(t *testing.T) {
	t.Parallel()
	for i, cancelled := range []bool{false, true} {
		for point := range points(t, 1, 20, 5, i) {
			died := ""
			t.Run(fmt.Sprintf("cancelled %t/%d", cancelled, point), func(t *testing.T) {
				s := newSweepSite(t, sweep.Unroute)
				s.decided(new(true))
				s.dieAt, s.count, s.stopped = point, 0, func() {
					do := s.Pause
					if s.row(0).Phase == ledger.PhaseSettled {
						return
					}
					if cancelled {
						do = s.Cancel
					}
					if err := do(t.Context(), s.run.ID); err != nil {
						t.Error(err)
					}
				}
				for range 10 {
					s.once()
					s.timed.after = max(s.timed.after, 5*time.Minute)
				}
				if died = s.died; died == "" || s.row(0).Phase == ledger.PhaseSettled && died == "after end" {
					return
				}
				s.checkStopped(died, cancelled, false)
			})
			if died == "" {
				break
			}
		}
	}
}

// checkStopped checks that the row of a stopped run, the domain's state and the domain agree.
func (s *sweepSite) checkStopped(point string, cancelled, back bool) {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	m, row := s.domainState(), s.row(0)
	settled := row.Phase == ledger.PhaseSettled
	switch changed := *d.Use == back; {
	case m.InProgress != nil:
		s.t.Errorf("stopped %s: the result is not read: %+v", point, m)
	case *d.Use != (m.Taken == nil):
		s.t.Errorf("stopped %s: flag %t, state %+v", point, *d.Use, m)
	case cancelled && !settled, changed && (!settled || row.Result.Outcome != ledger.Done):
		s.t.Errorf("stopped %s, changed %t: row %+v", point, changed, row)
	case !changed && (settled && row.Result.Outcome != ledger.Cancelled || row.Intent != nil):
		s.t.Errorf("stopped %s, not changed: row %+v", point, row)
	}
}

// TestActFenced has the ledger take the row from an execution at each point, and another
// one settle it, before the first continues: two executions at once.
func TestActFenced(t *testing.T) {
	t.Parallel()
	for i, action := range []sweep.Action{sweep.Unroute, sweep.SetPending, "back"} {
		for point := range points(t, 1, 18, 7, i) {
			fenced := ""
			t.Run(fmt.Sprintf("%s/%d", action, point), func(t *testing.T) {
				status, use := "verified", true
				var s *sweepSite
				switch action {
				case "back":
					s = newSweepSite(t, sweep.Unroute)
					s.returning()
				default:
					s = newSweepSite(t, action)
					s.decided(new(true))
					use = action == sweep.SetPending
					if use {
						status = "pending"
					}
				}
				task := s.release()
				worker, session := s.worker()
				n := 0
				s.on = func(name string) {
					if n++; n != point {
						return
					}
					fenced = name
					s.on = func(string) {}
					if s.row(0).Phase == ledger.PhaseInProgress {
						s.takeBack(session)
						s.finish()
					}
				}
				_ = worker.ProcessTask(t.Context(), task)
				s.on = func(string) {}
				if s.row(0).Phase != ledger.PhaseSettled {
					s.finish()
				}
				s.wantDomain(status, new(use))
				m := s.domainState()
				if m.InProgress != nil || (m.Taken == nil) != (action == "back") {
					t.Errorf("fenced %s: state %+v", fenced, m)
				}
				if r := s.row(0).Result; r.Outcome != ledger.Done {
					t.Errorf("fenced %s: %+v", fenced, r)
				}
			})
			if fenced == "" {
				break
			}
		}
	}
}

// TestActFrozen freezes an execution right before its PATCH for so long that another one finds
// it without effect and the token published again. The value that its PATCH then takes away is
// stored all the same.
func TestActFrozen(t *testing.T) {
	for _, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
		t.Run(string(action), func(t *testing.T) {
			s := newSweepSite(t, action)
			s.decided(new(true))
			task := s.release()
			worker, session := s.worker()
			s.on = func(name string) {
				if name == "after write state" && s.domainState().InProgress != nil {
					s.on = func(string) {}
					s.takeBack(session)
					s.publish()
					s.clock.advance(10 * time.Minute)
					s.wantRow(s.finish(), engine.Unchanged, "the token is there")
				}
			}
			_ = worker.ProcessTask(t.Context(), task)
			s.on = func(string) {}
			m := s.domainState()
			if d, _ := s.sandbox.Domain(org, dom); (d.Status == "pending" || !*d.Use) != (m.Taken != nil) {
				t.Errorf("the domain is %s, flag %t, state %+v", d.Status, *d.Use, m)
			}
			s.clock.advance(24 * time.Hour)
			s.sweep()
			s.wantDomain("verified", new(true))
		})
	}
}

// unstamped is an API whose reads have no time.
type unstamped struct{ kinds.Domains }

func (u unstamped) DiscoveryDomain(ctx context.Context, organization, domain string) (apiclient.DiscoveryDomain, error) {
	return u.Domains.DiscoveryDomain(apiclient.BeforeSending(ctx, nil), organization, domain)
}

// TestActLongLine checks that a record which was not read within a minute before the permit is
// read again, and that the token is checked again.
func TestActLongLine(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.decided(new(true))
	api := s.config.API
	s.config.API = unstamped{api}
	s.once()
	row := s.row(0)
	if row.Checkpoint.Stage != ledger.StageReady || row.Intent != nil || row.Checkpoint.Attempts != 0 || s.domainState().InProgress != nil {
		t.Errorf("row %+v, state %+v", row, s.domainState())
	}
	s.config.API = api
	s.publish()
	s.wantRow(s.finish(), engine.Unchanged, "the token is there")
	s.wantPatches()
}

// disproving is a DNS after whose disproof something happens.
type disproving struct {
	sweepDNS
	meanwhile func()
}

func (d disproving) Disprove(ctx context.Context, host, txt string) (dnscheck.Verdict, error) {
	v, err := d.sweepDNS.Disprove(ctx, host, txt)
	d.meanwhile()
	return v, err
}

// TestActPlaces checks that an action without a place for its DNS check is given back without
// a request. The place is free once DNS has answered.
func TestActPlaces(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.places = kinds.NewPlaces(1, 0)
	s.decided(new(true))
	dns := s.checked()
	asked, hold := make(chan struct{}), make(chan struct{})
	s.config.DNS = disproving{dns, func() { asked <- struct{}{}; <-hold }}
	task := s.release()
	worker, _ := s.worker()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = worker.ProcessTask(t.Context(), task)
	}()
	<-asked
	s.config.DNS = dns
	requests := len(s.requests())
	s.open("", kinds.Act, sweep.ActionRow{OrganizationID: org, DiscoveryDomainID: dom, Tick: s.domainState().Tick})
	s.once()
	if row := s.row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 {
		t.Errorf("row without a place: %+v", row)
	}
	if n := len(s.requests()) - requests; n != 0 {
		t.Errorf("%d requests without a place", n)
	}
	close(hold)
	<-ended
	s.wantPatches(patchNoUse)
	s.wantRow(s.finish(), engine.Unchanged, "no longer acted on")
	s.wantPatches(patchNoUse)
}

// TestActStopping checks that a stopping worker sends no PATCH.
func TestActStopping(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.decided(new(true))
	stopping := make(chan struct{})
	s.stopping = stopping
	dns := s.checked()
	s.config.DNS = disproving{dns, func() { close(stopping) }}
	s.once()
	s.wantPatches()
	if row := s.row(0); row.Phase == ledger.PhaseSettled || row.Checkpoint.Attempts != 0 {
		t.Errorf("row %+v", row)
	}
}

// TestActInvalid has a malformed row.
func TestActInvalid(t *testing.T) {
	for _, content := range []string{`{"organization_id":"org_1","discovery_domain_id":"ord_1"}`, `{"organization_id":"","discovery_domain_id":"ord_1","tick":1}`} {
		t.Run(content, func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.open("", kinds.Act, []byte(content))
			s.wantRow(s.finish(), engine.InvalidRow)
		})
	}
}
