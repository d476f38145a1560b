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
	// requests is the number of requests of the sweep and its actions. points is the least
	// number of points at which their executions are disturbed.
	requests, points int
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
	lost := func(action sweep.Action, status string, use bool, audited string, requests, points int) sweepScene {
		return sweepScene{name: "lost " + string(action), action: action, requests: requests, points: points, begin: dueWith(new(true)), end: func(s *sweepSite) {
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
	back := func(action sweep.Action, audited string, requests, points int) sweepScene {
		return sweepScene{name: "back " + string(action), action: action, requests: requests, points: points, begin: returned(dueWith(new(true))), end: func(s *sweepSite) {
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
		return sweepScene{name: "omitted " + string(action), action: action, requests: 2, points: 22, begin: dueWith(nil), end: func(s *sweepSite) {
			s.wantPatches()
			s.wantDomain("verified", nil)
			s.wantNotified(events.DomainAtRisk, events.DomainLost)
			if m := s.domainState(); m.Taken != nil || m.InProgress != nil {
				s.t.Errorf("state %+v", m)
			}
		}}
	}
	return []sweepScene{
		lost(sweep.Report, "verified", true, "", 2, 22), lost(sweep.Unroute, "verified", false, "domain unrouted", 3, 30),
		lost(sweep.SetPending, "pending", true, "domain set to pending", 3, 30),
		back(sweep.Report, "", 0, 10), back(sweep.Unroute, "domain routed again", 2, 28), back(sweep.SetPending, "domain verified", 2, 18),
		omitted(sweep.Unroute), omitted(sweep.SetPending),
		{name: "returned unroute", action: sweep.Unroute, requests: 1, points: 20, begin: func(s *sweepSite) {
			returned(dueWith(new(true)))(s)
			s.flag(nil)
		}, end: func(s *sweepSite) {
			s.wantPatches(patchNoUse)
			s.wantHistory("not restored", "use_for_organization_discovery", 1)
			if m := s.domainState(); m.Taken == nil || m.InProgress != nil {
				s.t.Errorf("state %+v", m)
			}
		}},
		{name: "returned pending", action: sweep.SetPending, requests: 2, points: 18, begin: func(s *sweepSite) {
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
	for i, c := range sweepScenes() {
		for point := range points(t, 1, c.points, 11, i) {
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
				break
			}
		}
	}
}

// TestSweepInTrouble has each request of a sweep meet trouble.
func TestSweepInTrouble(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name  string
		fault sandbox.Fault
	}{
		{"throttled", sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}}},
		{"unavailable", sandbox.Fault{Status: http.StatusServiceUnavailable}},
		{"carried out", sandbox.Fault{Status: http.StatusServiceUnavailable, Handled: true}},
		{"lost", sandbox.Fault{DropAfter: true}},
		{"cut", sandbox.Fault{Truncate: true}},
	}
	for i, c := range sweepScenes() {
		for k := range (c.requests + 1) * len(faults) {
			if (k+i)%redistest.Stride(7) != 0 {
				continue
			}
			request, fault := k/len(faults), faults[k%len(faults)]
			t.Run(fmt.Sprintf("%s/%s/%d", c.name, fault.name, request), func(t *testing.T) {
				s := c.site(t)
				f, before := fault.fault, len(s.requests())
				f.Skip, f.Count = request, 1
				f.Match = func(r sandbox.Request) bool { return r.Operation != sandbox.OpToken }
				s.sandbox.AddFault(f)
				s.sweep()
				c.end(s)
				if met := len(s.requests())-before > request; met != (request < c.requests) {
					t.Errorf("%d requests, want %d without trouble", len(s.requests())-before, c.requests)
				}
			})
		}
	}
}
