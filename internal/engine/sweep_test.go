package engine_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"orgops/internal/events"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// sweepScene is the last sweep of a grace period, or that of a token's return.
type sweepScene struct {
	name   string
	action sweep.Action
	begin  func(*sweepSite)
	end    func(*sweepSite)
}

func (c sweepScene) site(t *testing.T) *sweepSite {
	t.Helper()
	s := newSweepSite(t, c.action)
	c.begin(s)
	return s
}

// returned has the token of a lost domain return, a day later.
func returned(before func(*sweepSite)) func(*sweepSite) {
	return func(s *sweepSite) {
		before(s)
		s.sweep()
		s.publish()
		s.clock.advance(24 * time.Hour)
	}
}

func dueWith(use *bool) func(*sweepSite) { return func(s *sweepSite) { s.due(use) } }

func sweepScenes() []sweepScene {
	lost := func(action sweep.Action, status string, use bool, audited string) sweepScene {
		return sweepScene{name: "lost " + string(action), action: action, begin: dueWith(new(true)), end: func(s *sweepSite) {
			s.wantDomain(status, new(use))
			s.wantNotified(events.DomainAtRisk, events.DomainLost)
			if m := s.domainState(); (m.Taken == nil) != (action == sweep.Report) || m.InProgress != nil {
				s.t.Errorf("state %+v", m)
			}
			if audited != "" {
				s.wantVerdict("acted on: "+string(action), "absent", audited)
			}
		}}
	}
	back := func(action sweep.Action, audited string) sweepScene {
		return sweepScene{name: "back " + string(action), action: action, begin: returned(dueWith(new(true))), end: func(s *sweepSite) {
			s.wantDomain("verified", new(true))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
			if m := s.domainState(); m.Watched() {
				s.t.Errorf("state %+v", m)
			}
			if audited != "" {
				s.wantVerdict("restored", "present", audited)
			}
		}}
	}
	omitted := func(action sweep.Action) sweepScene {
		return sweepScene{name: "omitted " + string(action), action: action, begin: dueWith(nil), end: func(s *sweepSite) {
			s.wantPatches()
			s.wantDomain("verified", nil)
			s.wantNotified(events.DomainAtRisk, events.DomainLost)
			if m := s.domainState(); m.Taken != nil || m.InProgress != nil {
				s.t.Errorf("state %+v", m)
			}
		}}
	}
	return []sweepScene{
		lost(sweep.Report, "verified", true, ""), lost(sweep.Unroute, "verified", false, "domain unrouted"), lost(sweep.SetPending, "pending", true, "domain set to pending"),
		back(sweep.Report, ""), back(sweep.Unroute, "domain routed again"), back(sweep.SetPending, "domain verified"),
		omitted(sweep.Unroute), omitted(sweep.SetPending),
		{name: "returned unroute", action: sweep.Unroute, begin: func(s *sweepSite) {
			returned(dueWith(new(true)))(s)
			s.flag(nil)
		}, end: func(s *sweepSite) {
			s.wantPatches(patchNoUse)
			s.wantHistory("not restored", "use_for_organization_discovery", 1)
			if m := s.domainState(); m.Taken == nil || m.InProgress != nil {
				s.t.Errorf("state %+v", m)
			}
		}},
		{name: "returned pending", action: sweep.SetPending, begin: func(s *sweepSite) {
			returned(dueWith(new(false)))(s)
			s.flag(nil)
		}, end: func(s *sweepSite) {
			s.wantDomain("verified", new(false))
			s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
		}},
	}
}

// TestSweepKilled kills a worker at each point of the executions of a sweep and of its
// actions.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	for _, c := range sweepScenes() {
		for point := 1; ; point += redistest.Stride(8) {
			died := ""
			t.Run(fmt.Sprintf("%s/%d", c.name, point), func(t *testing.T) {
				s := c.site(t)
				s.dieAt, s.count = point, 0
				s.sweep()
				c.end(s)
				if died = s.died; t.Failed() {
					t.Logf("died %s", died)
				}
			})
			if died == "" {
				if point < 6 {
					t.Errorf("%s: died at %d points only", c.name, point-1)
				}
				break
			}
		}
	}
}

// TestSweepInTrouble has each request of a sweep meet trouble.
func TestSweepInTrouble(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sandbox.Fault{
		"throttled":   {Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}},
		"unavailable": {Status: http.StatusServiceUnavailable},
		"carried out": {Status: http.StatusServiceUnavailable, Handled: true},
		"lost":        {DropAfter: true},
		"cut":         {Truncate: true},
	} {
		for _, c := range sweepScenes() {
			for request := 0; ; request += redistest.Stride(4) {
				met := true
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, name, request), func(t *testing.T) {
					s := c.site(t)
					f, before := fault, len(s.requests())
					f.Skip, f.Count = request, 1
					f.Match = func(r sandbox.Request) bool { return r.Operation != sandbox.OpToken }
					s.sandbox.AddFault(f)
					s.sweep()
					c.end(s)
					met = len(s.requests())-before > request
				})
				if !met {
					break
				}
			}
		}
	}
}
