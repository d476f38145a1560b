package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// TestRelookClears checks that a check between two sweeps does not count, and clears the
// absence.
func TestRelookClears(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	s.sweep()
	s.hours(12)
	if m := s.domainState(); m.Absence == nil || m.Absence.Checks != 1 {
		t.Fatalf("state %+v: want one check", m)
	}
	s.clock.advance(time.Hour)
	s.publish()
	s.wantRow(s.hourlyCheck(), ledger.Done, "there again")
	if m := s.domainState(); m.Absence != nil || m.State != "absent" || m.LastPresent.IsZero() || m.Watched() {
		t.Errorf("state %+v: want the absence cleared", m)
	}
	s.wantNotified(events.DomainAtRisk, events.DomainRestored)
	s.wantRequests("GET") // before the absence was stored
}

// TestRelookRestores checks that a check between two sweeps restores the taken value.
func TestRelookRestores(t *testing.T) {
	for _, action := range []sweep.Action{sweep.SetPending, sweep.Unroute} {
		t.Run(string(action), func(t *testing.T) {
			s := newSweepSite(t, action)
			s.lost(new(true))
			s.publish()
			s.wantRow(s.hourlyCheck(), engine.Unchanged, "restored once it is proven")
			s.acted()
			s.wantDomain("verified", new(true))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
			if s.domainState().Watched() {
				t.Errorf("state %+v", s.domainState())
			}
		})
	}
}

// TestRelookRestoresLater checks that a restoration without effect is submitted again in the
// next hour, and not before.
func TestRelookRestoresLater(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.lost(new(true))
	s.clock.advance(s.clock.now().Truncate(time.Hour).Add(time.Hour).Sub(s.clock.now())) // a full hour
	s.publish()
	lift := s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusBadRequest})
	for range 3 {
		s.hourlyCheck()
	}
	if n := len(s.known); n != 1 {
		t.Errorf("%d runs submitted in an hour: %v", n, s.known)
	}
	lift()
	s.hours(1)
	s.wantDomain("verified", new(true))
	if n := len(s.known); n != 2 {
		t.Errorf("%d runs submitted: %v", n, s.known)
	}
}

// TestRelookIdle checks that nothing is checked or changed if there is no domain to check.
func TestRelookIdle(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sweepSite)
		detail string
	}{
		{"nothing is wrong", func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.Absence = nil }) }, "nothing is wrong"},
		{"no state", func(s *sweepSite) {
			if err := s.states.Forget(s.t.Context(), dom); err != nil {
				s.t.Fatal(err)
			}
		}, "nothing is wrong"},
		{"another organization", func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.OrganizationID = "org_2" }) }, "nothing is wrong"},
		{"another sweep", func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.Tick++ }) }, "another sweep"},
		{"too old", func(s *sweepSite) { s.clock.advance(8*24*time.Hour + time.Hour) }, "waiting for the next sweep"},
		{"without a token", func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.TXT = "" }) }, "waiting for the next sweep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.verified(new(true))
			s.sweep()
			s.publish()
			s.open("", kinds.HourlyCheck, kinds.HourlyRow{OrganizationID: org, DiscoveryDomainID: dom, Tick: s.domainState().Tick})
			test.change(s)
			before, err := s.store.Domain(t.Context(), dom)
			if err != nil {
				t.Fatal(err)
			}
			asked := len(s.sandbox.Queries())
			s.wantRow(s.finish(), engine.Unchanged, test.detail)
			if after, err := s.store.Domain(t.Context(), dom); err != nil || !bytes.Equal(after, before) {
				t.Errorf("state %s, %v; before %s", after, err, before)
			}
			if n := len(s.sandbox.Queries()) - asked; n != 0 {
				t.Errorf("%d queries", n)
			}
		})
	}
}

// checking is a DNS during whose checks something happens.
type checking struct {
	sweepDNS
	meanwhile func()
}

func (d checking) Check(ctx context.Context, host, txt string) (dnscheck.Verdict, error) {
	v, err := d.sweepDNS.Check(ctx, host, txt)
	d.meanwhile()
	return v, err
}

// TestRelookMeanwhile checks that a state which changes during the check is not overwritten.
func TestRelookMeanwhile(t *testing.T) {
	for name, change := range map[string]func(*sweep.DomainState){
		"another sweep": func(m *sweep.DomainState) { m.Tick++ },
		"another token": func(m *sweep.DomainState) { m.TokenHash, m.TXT = sweep.HashToken(m.Host, "x"), "x" },
	} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken %t", name, taken), func(t *testing.T) {
				s := newSweepSite(t, sweep.Unroute)
				if taken {
					s.lost(new(true))
				} else {
					s.verified(new(true))
					s.sweep()
				}
				s.publish()
				s.config.DNS = checking{s.checked(), func() { s.alter(change) }}
				s.wantRow(s.hourlyCheck(), engine.Unchanged, "has changed since")
				if m := s.domainState(); !m.Watched() || len(s.known) != 0 {
					t.Errorf("state %+v, submitted %v", m, s.known)
				}
			})
		}
	}
}

// TestRelookWaits checks that nothing is restored while reads may lag behind the action.
func TestRelookWaits(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.due(new(true))
	s.sweep()
	s.publish()
	s.wantRow(s.hourlyCheck(), engine.Unchanged, "waiting for the result")
	s.wantPatches(patchNoUse)
	s.clock.advance(6 * time.Minute)
	s.hourlyCheck()
	s.wantPatches(patchNoUse, patchUse)
}

// TestRelookKilled kills a worker at each point of a check between two sweeps and of the
// restoration.
func TestRelookKilled(t *testing.T) {
	t.Parallel()
	for i, action := range []sweep.Action{sweep.SetPending, sweep.Unroute, sweep.Report} {
		for point := range points(t, 1, []int{26, 28, 12}[i], 7, i) {
			died := ""
			t.Run(fmt.Sprintf("%s/%d", action, point), func(t *testing.T) {
				s := newSweepSite(t, action)
				s.due(new(true))
				s.sweep()
				s.clock.advance(time.Hour)
				s.publish()
				s.dieAt, s.count = point, 0
				s.hourlyCheck()
				s.acted()
				s.wantDomain("verified", new(true))
				s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
				if m := s.domainState(); m.Watched() {
					t.Errorf("state %+v", m)
				}
				died = s.died
			})
			if died == "" {
				break
			}
		}
	}
}

// TestFlagIsWithheld checks that a flag which was taken away is restored once the record has
// it again, and not before.
func TestFlagIsWithheld(t *testing.T) {
	for _, between := range []bool{false, true} {
		t.Run(map[bool]string{false: "by sweeps", true: "between two sweeps"}[between], func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.lost(new(true))
			s.wantPatches(patchNoUse)
			s.flag(nil)
			asked := len(s.requests())
			if between {
				s.sweep() // the sweep does not find the token yet
				s.publish()
				s.hours(redistest.Amount(4, 12))
			} else {
				s.publish()
				s.days(3)
			}
			s.wantPatches(patchNoUse)
			s.wantHistory("not restored", "use_for_organization_discovery", 1)
			if n := len(s.requests()) - asked; n > 14 {
				t.Errorf("%d requests", n)
			}
			if m := s.domainState(); m.Taken == nil || m.Withheld() == "" {
				t.Errorf("state %+v", m)
			}
			s.wantNotified(events.DomainAtRisk, events.DomainLost)
			s.flag(new(false))
			if between {
				s.hours(2)
			} else {
				s.days(1)
			}
			s.wantPatches(patchNoUse, patchUse)
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
			if m := s.domainState(); m.Taken != nil {
				t.Errorf("state %+v", m)
			}
		})
	}
}
