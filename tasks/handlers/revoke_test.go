package handlers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// returning makes a revoked domain whose token is published again, and submits the row that routes
// it.
func (s *sweepSite) returning() sandbox.Domain {
	s.t.Helper()
	d := s.revoked(new(true))
	s.publish()
	s.scan()
	s.settle()
	if len(s.asked) != 1 {
		s.t.Fatalf("runs: %+v", s.asked)
	}
	s.begin()
	return d
}

// TestRevokeDecidesAgain checks that a row respects what has changed since it was submitted.
func TestRevokeDecidesAgain(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name    string
		change  func(*sweepSite, sandbox.Domain)
		detail  string
		watched bool // in the end
	}{
		{"no complete sweep", func(s *sweepSite, _ sandbox.Domain) {
			if ok, err := s.store.SetState(s.t.Context(), sweep.SummaryState, s.summary(), nil); err != nil || !ok {
				s.t.Fatal(ok, err)
			}
		}, "the last complete sweep has not found it gone", true},
		{"a later sweep has missed it", func(s *sweepSite, _ sandbox.Domain) { s.conclude(s.domainState().Tick + 60) },
			"the last complete sweep has not found it gone", true},
		{"a later sweep had no answer", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.State = "unknown" })
		}, "the last sweep had no answer", true},
		{"no state", func(s *sweepSite, _ sandbox.Domain) {
			if err := s.states.DeleteState(s.t.Context(), dom); err != nil {
				s.t.Fatal(err)
			}
		}, "no sweep has found the domain", false},
		{"another organization", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.OrganizationID = "org_2" })
		}, "no sweep has found the domain", true},
		{"pending", func(s *sweepSite, _ sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		}, "someone else", false},
		{"another token", func(s *sweepSite, _ sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "another" })
		}, "host or token differ", false},
		{"the token is there", func(s *sweepSite, _ sandbox.Domain) { s.publish() }, "the token is there", false},
		{"no answer", func(s *sweepSite, d sandbox.Domain) { s.sandbox.SetRCode(d.Host, 2, 1<<30) }, "not revoked: ", true},
		{"no name servers", func(s *sweepSite, d sandbox.Domain) { s.servers = true }, "name servers were not reached", true},
		{"protected", func(s *sweepSite, d sandbox.Domain) { s.rules.Protect = []string{d.Domain} }, "it is protected", true},
		{"a longer grace period", func(s *sweepSite, d sandbox.Domain) {
			s.rules.Grace = 100 * 24 * time.Hour
		}, "of 100.0 days", true},
		{"the record omits its flag", func(s *sweepSite, _ sandbox.Domain) { s.flag(nil) },
			"has no use_for_organization_discovery", true},
		{"revoked by another run", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Revoked = &sweep.Revocation{Run: "other", DoneAt: m.At} })
		}, "was revoked by run other", true},
		{"gone", func(s *sweepSite, _ sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, "the domain is gone", false},
	} {
		for k, set := range []sweep.Setting{sweep.Unroute, sweep.SetPending} {
			if (i+k)%redistest.Stride(2) != 0 { // by default each change meets one of the settings
				continue
			}
			t.Run(test.name+"/"+string(set), func(t *testing.T) {
				s := newSweepSite(t, set)
				d := s.decided(new(true))
				test.change(s, d)
				s.wantRow(s.settle(), ledger.Unchanged, test.detail)
				s.wantPatches()
				if m := s.domainState(); m.Watched() != test.watched || m.Revoked != nil && m.Revoked.Run != "other" {
					t.Errorf("state %+v", m)
				}
			})
		}
	}
	t.Run("not used for discovery", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.decided(new(false))
		s.wantRow(s.settle(), ledger.Unchanged, "not used for discovery")
		s.wantPatches()
	})
	for name, tighten := range map[string]func(*sweep.RevokeRow){
		"longer":      func(r *sweep.RevokeRow) { r.Grace = 30 * 24 * time.Hour },
		"more sweeps": func(r *sweep.RevokeRow) { r.AbsentChecks = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.decided(new(true))
			row := s.revocation()
			tighten(&row)
			s.open("", handlers.Revoke, row)
			s.wantRow(s.settle(), ledger.Unchanged, "not revoked: ", "have found it gone, over")
			s.wantPatches()
		})
	}
}

// summary returns the stored summary of the last complete sweep.
func (s *sweepSite) summary() []byte {
	s.t.Helper()
	value, err := s.store.State(s.t.Context(), sweep.SummaryState)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// TestRevokeBrake checks that no row revokes once the tenant has had the most revocations, and
// that a row counts once, also if its PATCH is sent again.
func TestRevokeBrake(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.max = 2
	s.decided(new(true))
	if ok, err := s.store.CountRevocation(t.Context(), "another", s.clock.now(), s.max); err != nil || !ok {
		t.Fatal(ok, err)
	}
	s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropBefore: true})
	s.wantRow(s.settle(), ledger.Done)
	s.wantPatches(patchNoUse, patchNoUse) // the first was lost
	s.alter(func(m *sweep.DomainState) {
		m.Revoked = nil
		m.Absence = &sweep.Absence{Since: m.At.Add(-9 * 24 * time.Hour), Tick: m.Tick - 9*86400, Last: m.At,
			LastTick: m.Tick, Checks: 9}
	})
	s.flag(new(true))
	s.open("", handlers.Revoke, s.revocation())
	s.wantRow(s.settle(), ledger.Unchanged, "2 domains of the tenant were revoked in seven days", "--max")
	s.wantPatches(patchNoUse, patchNoUse)
	if m := s.domainState(); m.Revoked != nil || m.Absence == nil {
		t.Errorf("state %+v", m)
	}
	s.max = 3
	s.open("", handlers.Revoke, s.revocation())
	s.wantRow(s.settle(), ledger.Done)
	s.wantPatches(patchNoUse, patchNoUse, patchNoUse)
}

// TestRouteDecidesAgain is like TestRevokeDecidesAgain, for a row that undoes.
func TestRouteDecidesAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*sweepSite, sandbox.Domain)
		detail  string
		revoked bool // in the end
	}{
		{"pending", func(s *sweepSite, _ sandbox.Domain) { s.edit(func(d *sandbox.Domain) { d.Status = "pending" }) },
			"someone else", false},
		{"routed", func(s *sweepSite, _ sandbox.Domain) { s.flag(new(true)) }, "someone else has restored", false},
		{"the token is gone", func(s *sweepSite, d sandbox.Domain) {
			s.sandbox.SetTXT(d.Host, "gone")
		}, "not restored", true},
		{"the record omits its flag", func(s *sweepSite, _ sandbox.Domain) { s.flag(nil) }, "not restored", true},
		{"nothing is revoked", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Revoked = nil })
		}, "nothing to restore", false},
		{"a request is in progress", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Revoked.DoneAt = time.Time{} })
		}, "nothing to restore", true},
		{"the status was revoked", func(s *sweepSite, _ sandbox.Domain) {
			s.alter(func(m *sweep.DomainState) { m.Revoked.Set = sweep.SetPending })
		}, "nothing to restore", true},
		{"gone", func(s *sweepSite, _ sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, "was not found", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			d := s.returning()
			test.change(s, d)
			s.wantRow(s.settle(), ledger.Unchanged, test.detail)
			s.wantPatches(patchNoUse)
			if m := s.domainState(); (m.Revoked != nil) != test.revoked {
				t.Errorf("state %+v", m)
			}
		})
	}
	undo := sweep.RevokeRow{OrganizationID: org, DiscoveryDomainID: dom, Set: sweep.Unroute, Undo: true}
	t.Run("a read is behind the revocation", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.decided(new(true))
		s.settle()
		s.publish()
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 2,
			Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
		s.open("", handlers.Revoke, undo)
		s.wantRow(s.settle(), ledger.Done, "restored")
		s.wantPatches(patchNoUse, patchUse)
	})
	t.Run("reads are behind the revocation after a lost answer", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.decided(new(true))
		s.settle()
		s.publish()
		s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropBefore: true})
		s.open("", handlers.Revoke, undo)
		s.step()
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3,
			Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
		s.wantRow(s.settle(), ledger.Done, "restored")
		s.wantDomain("verified", new(true))
	})
}

// isRevoked and isSending report whether the domain was revoked, and whether a request to do so
// may be in progress.
func isRevoked(m sweep.DomainState) bool { return m.Revoked != nil && !m.Revoked.DoneAt.IsZero() }

func isSending(m sweep.DomainState) bool { return m.Revoked != nil && m.Revoked.DoneAt.IsZero() }

// TestRevokeGivenUp checks that the result of a row given up with a PATCH in progress is found by
// the next sweep, and that the domain is restored when the token returns.
func TestRevokeGivenUp(t *testing.T) {
	for _, set := range []sweep.Setting{sweep.Unroute, sweep.SetPending} {
		t.Run(string(set), func(t *testing.T) {
			s := newSweepSite(t, set)
			s.decided(new(true))
			lift := s.sandbox.AddFault(sandbox.Fault{DropAfter: true, Match: func(r sandbox.Request) bool {
				return r.Method == http.MethodPatch || r.Operation == sandbox.OpGetDiscoveryDomain && isSending(s.domainState())
			}})
			s.wantRow(s.settle(), ledger.Failed, "may have had its effect")
			if m := s.domainState(); !isSending(m) {
				t.Fatalf("state %+v: want a request in progress", m)
			}
			lift()
			s.days(1)
			if m := s.domainState(); !isRevoked(m) {
				t.Fatalf("state %+v: want its result", m)
			}
			s.publish()
			s.days(1)
			s.wantDomain("verified", new(true))
			s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
		})
	}
}

// TestRevokeUnknownResult checks that the result of a PATCH is known once the record has its flag
// again.
func TestRevokeUnknownResult(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.decided(new(true))
	s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: true})
	s.step()
	s.flag(nil)
	s.wantRow(s.settle(), ledger.Unchanged, "the result of a PATCH is unknown")
	s.days(2)
	s.wantPatches(patchNoUse)
	if m := s.domainState(); !isSending(m) {
		t.Fatalf("state %+v", m)
	}
	s.flag(new(false))
	s.days(1)
	s.publish()
	s.days(1)
	s.wantPatches(patchNoUse, patchUse)
	s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
}

// TestRevokeFrozen freezes an execution right before its PATCH for so long that another one finds
// it without effect and the token published again. The value that its PATCH then takes away is
// stored all the same.
func TestRevokeFrozen(t *testing.T) {
	for _, set := range []sweep.Setting{sweep.Unroute, sweep.SetPending} {
		t.Run(string(set), func(t *testing.T) {
			s := newSweepSite(t, set)
			s.decided(new(true))
			task := s.NextTask()
			worker, session := s.worker()
			s.on = func(name string) {
				if name == "after write state" && isSending(s.domainState()) {
					s.on = func(string) {}
					s.takeBack(session)
					s.publish()
					s.clock.advance(10 * time.Minute)
					s.wantRow(s.settle(), ledger.Unchanged, "the token is there")
				}
			}
			_ = worker.ProcessTask(t.Context(), task)
			s.on = func(string) {}
			m := s.domainState()
			if d, _ := s.sandbox.Domain(org, dom); (d.Status == "pending" || !*d.Use) != isRevoked(m) {
				t.Errorf("the domain is %s, flag %t, state %+v", d.Status, *d.Use, m)
			}
			s.clock.advance(24 * time.Hour)
			s.sweep()
			s.wantDomain("verified", new(true))
		})
	}
}

// unstamped is an API whose reads are not bound to the execution, and so have no time.
type unstamped struct {
	handlers.Domains
	reads handlers.Domains
}

func (u unstamped) DiscoveryDomain(ctx context.Context,
	organization, domain string) (schema.DiscoveryDomain, error) {
	return u.reads.DiscoveryDomain(ctx, organization, domain)
}

// TestRevokeLongLine checks that a record which was not read within a minute before the permit is
// read again, and that the token is checked again.
func TestRevokeLongLine(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.decided(new(true))
	api := s.config.API
	s.config.API = func(b apiclient.Binding) handlers.Domains { return unstamped{api(b), api(apiclient.Binding{})} }
	s.step()
	row := s.Row(0)
	if row.Checkpoint.Stage != ledger.StageReady || row.Intent != nil || row.Checkpoint.Attempts != 0 ||
		s.domainState().Revoked != nil {
		t.Errorf("row %+v, state %+v", row, s.domainState())
	}
	s.config.API = api
	s.publish()
	s.wantRow(s.settle(), ledger.Unchanged, "the token is there")
	s.wantPatches()
}

// TestRevokeNeedsTheProof checks that a lost domain is not revoked unless its state has the
// evidence of a proof of the record.
func TestRevokeNeedsTheProof(t *testing.T) {
	for name, evidence := range map[string]func(s *sweepSite, d sandbox.Domain, lost ledger.Result) []byte{
		"none":    func(*sweepSite, sandbox.Domain, ledger.Result) []byte { return nil },
		"damaged": func(s *sweepSite, d sandbox.Domain, _ ledger.Result) []byte { return s.proofOf(d)[:9] },
		"of another token": func(s *sweepSite, d sandbox.Domain, _ ledger.Result) []byte {
			d.TXT = "other"
			return s.proofOf(d)
		},
		"of another domain": func(s *sweepSite, d sandbox.Domain, _ ledger.Result) []byte {
			d.Domain = "other.example"
			return s.proofOf(d)
		},
		"of another organization": func(s *sweepSite, d sandbox.Domain, _ ledger.Result) []byte {
			return s.proofThat(d, func(e *evidence.Evidence) { e.Compared.OrganizationID = "org_2" })
		},
		"a disproof": func(s *sweepSite, d sandbox.Domain, _ ledger.Result) []byte {
			return s.proofThat(d, func(e *evidence.Evidence) { e.State = "absent" })
		},
		"of its absence": func(_ *sweepSite, _ sandbox.Domain, lost ledger.Result) []byte { return lost.Evidence },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			d := s.due(new(true))
			tick := s.scan().Tick
			lost := s.settle()
			s.wantRow(lost, ledger.Lost)
			s.conclude(tick)
			s.alter(func(m *sweep.DomainState) { m.Proven.Evidence = evidence(s, d, lost) })
			s.open("", handlers.Revoke, s.revocation())
			s.wantRow(s.settle(), ledger.Unchanged, "not revoked: unproven: ")
			s.wantPatches()
		})
	}
}

// meanwhile is a DNS before whose answers something happens.
type meanwhile struct {
	sweepDNS
	do func()
}

func (d meanwhile) Check(ctx context.Context, host, txt string) (dnscheck.Verdict, error) {
	d.do()
	return d.sweepDNS.Check(ctx, host, txt)
}

func (d meanwhile) Disprove(ctx context.Context, host, txt string) (dnscheck.Verdict, error) {
	d.do()
	return d.sweepDNS.Disprove(ctx, host, txt)
}

// TestRevokePlaces checks that a row without a place for its DNS check is given back without
// a request. The place is free once DNS has answered.
func TestRevokePlaces(t *testing.T) {
	s := newSweepSite(t, sweep.Unroute)
	s.places = handlers.NewPlaces(1, 1)
	s.decided(new(true))
	dns := s.checked()
	s.config.DNS = meanwhile{dns, func() {
		s.config.DNS = dns
		requests := len(s.requests())
		s.open("", handlers.Revoke, s.revocation())
		s.step()
		if row := s.Row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 {
			t.Errorf("row without a place: %+v", row)
		}
		if n := len(s.requests()) - requests; n != 0 {
			t.Errorf("%d requests without a place", n)
		}
	}}
	s.step()
	s.wantPatches(patchNoUse)
	s.wantRow(s.settle(), ledger.Unchanged, "it was revoked by run")
	s.wantPatches(patchNoUse)
}

// TestSweptInvalid has malformed rows of both kinds of sweeps.
func TestSweptInvalid(t *testing.T) {
	for detail, row := range map[string]any{
		"max: want 1 or more":  sweep.RevokeRow{OrganizationID: org, DiscoveryDomainID: dom, Set: sweep.Unroute},
		"set: want pending or": sweep.RevokeRow{OrganizationID: org, DiscoveryDomainID: dom, Max: 1},
		"rows of kind domain:verify": sweep.RevokeRow{OrganizationID: org, DiscoveryDomainID: dom, Set: sweep.SetPending,
			Undo: true},
		"organization_id": sweep.RevokeRow{DiscoveryDomainID: dom, Set: sweep.Unroute, Max: 1},
		"verification_txt: want 1 to": tasks.RecheckRow{OrganizationID: org, DiscoveryDomainID: dom,
			ScannedRecord: tasks.ScannedRecord{VerificationHost: "_a.example.com", Status: "verified"}, Tick: 1},
		"status: want that of the record": tasks.RecheckRow{OrganizationID: org, DiscoveryDomainID: dom,
			ScannedRecord: tasks.ScannedRecord{VerificationHost: "_a.example.com", VerificationTXT: "x"}, Tick: 1},
		"tick: want a Unix second": tasks.RecheckRow{OrganizationID: org, DiscoveryDomainID: dom,
			ScannedRecord: tasks.ScannedRecord{VerificationHost: "_a.example.com", VerificationTXT: "x",
				Status: "verified"}},
	} {
		t.Run(detail, func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			kind := handlers.Revoke
			if _, ok := row.(tasks.RecheckRow); ok {
				kind = handlers.Recheck
			}
			s.open("", kind, row)
			s.wantRow(s.settle(), ledger.InvalidRow, detail)
			s.wantRequests()
		})
	}
}
