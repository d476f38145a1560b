package handlers_test

import (
	"testing"
	"time"

	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestWithdrawnByOthers has rows read a domain that was verified here and that others have changed.
// Each read notices it, once. What orgops has done itself, and a read that may be older than the
// verification, are none of it.
func TestWithdrawnByOthers(t *testing.T) {
	pending := func(s *sweepSite) { s.edit(func(d *sandbox.Domain) { d.Status = "pending" }) }
	verify := func(s *sweepSite) {
		s.open("", handlers.Verify, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
	}
	update := func(s *sweepSite) {
		s.open("", handlers.Update, []byte(`{"organization_id":"org_1","discovery_domain_id":"`+dom+`","status":"pending"}`))
	}
	for name, c := range map[string]struct {
		age    time.Duration // of the verification
		change func(*sweepSite)
		row    func(*sweepSite)
		want   bool
	}{
		"pending, by a verification": {time.Hour, pending, verify, true},
		"pending, by an update":      {time.Hour, pending, update, true},
		"gone":                       {time.Hour, func(s *sweepSite) { s.sandbox.RemoveDomain(org, dom) }, verify, true},
		"as it was":                  {time.Hour, func(*sweepSite) {}, verify, false},
		"pending, just after":        {time.Minute, pending, verify, false},
		"pending by an update of ours": {time.Hour, func(s *sweepSite) {
			update(s)
			s.wantRow(s.settle(), ledger.Done)
		}, verify, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.keep = true
			s.giveUp = time.Hour
			s.domain(sandbox.Domain{Status: "pending", Use: new(true)}, true)
			s.open("", handlers.Verify, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
			s.wantRow(s.settle(), ledger.Done)
			s.clock.advance(c.age)
			c.change(s)
			s.events = nil
			c.row(s)
			s.step()
			if name == "gone" { // one answer may be that of a server that is behind
				s.wantRow(s.settle(), ledger.Refused)
			}
			have := 0
			for _, e := range s.events {
				if e.Type == events.DomainWithdrawn {
					have++
				}
			}
			if n, err := s.store.Withdrawn(t.Context()); err != nil || (n == 1) != c.want || (have == 1) != c.want {
				t.Errorf("%d domains need attention, %d events, %v; want one: %t", n, have, err, c.want)
			}
		})
	}
}

// TestWithdrawnKeepsItsCheck checks that the row of a domain which others have given another token
// has the proof of the new one.
func TestWithdrawnKeepsItsCheck(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.foreign(new(true))
	s.publish()
	s.sweep()
	s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
	s.clock.advance(24 * time.Hour)
	s.sandbox.SetTXT(s.rowOf().VerificationHost, "other")
	r := s.sweep()
	s.wantRow(r, ledger.Withdrawn, "another host or token")
	if e, err := evidence.Read(r.Evidence); err != nil || e.State != "present" {
		t.Errorf("evidence %+v, %v; want that of the check", e, err)
	}
}

// TestWithdrawnIsNoticedOnce executes the row of a sweep again that was killed after it had
// noticed: its outcome is the same, and there is one event. The next sweep says no more than that
// the domain is pending.
func TestWithdrawnIsNoticedOnce(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
	s.scan()
	for point := 1; point < 40; point++ {
		if s.die(point) == "" || s.Row(0).Phase == ledger.PhaseSettled {
			break
		}
	}
	s.wantRow(s.settle(), ledger.Withdrawn, "it is pending")
	s.wantEvents(events.DomainWithdrawn)
	s.clock.advance(24 * time.Hour)
	s.wantRow(s.sweep(), ledger.Unchanged, "pending, but not set by orgops")
	s.wantEvents(events.DomainWithdrawn)
}
