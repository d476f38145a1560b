package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// TestRecheckGrace checks that the first sweep after the grace period acts.
func TestRecheckGrace(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	s.wantRow(s.sweep(), engine.Unchanged, "absent: ")
	for range 7 {
		s.wantDomain("verified", new(true))
		s.clock.advance(24 * time.Hour)
		s.sweep()
	}
	s.wantDomain("pending", new(true))
}

// TestRecheckUnknown checks that sweeps without an answer neither count nor restart the grace
// period.
func TestRecheckUnknown(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	d := s.verified(new(true))
	s.days(1)
	s.sandbox.SetRCode(d.Host, 2, 1<<30)
	s.days(9)
	if m := s.domainState(); m.Absence == nil || m.Absence.Checks != 1 || m.State != "unknown" {
		t.Fatalf("state %+v", m)
	}
	s.sandbox.SetRCode(d.Host, 2, 0)
	s.days(1)
	s.wantDomain("verified", new(true))
	s.days(1)
	s.wantDomain("pending", new(true))
}

// TestRecheckOnce checks that a domain counts once in a sweep, however often it is checked.
func TestRecheckOnce(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	row := s.scan()
	s.finish()
	for range 5 {
		s.clock.advance(time.Hour)
		s.open("", kinds.Recheck, row)
		s.wantRow(s.finish(), engine.Unchanged, "absent: ")
	}
	if m := s.domainState(); m.Absence == nil || m.Absence.Checks != 1 || m.Sweeps != 1 {
		t.Errorf("state %+v: want one check", m)
	}
	if tally, err := s.store.Counts(t.Context(), row.Tick); err != nil || tally["absent"] != 1 {
		t.Errorf("tally %v, %v", tally, err)
	}
}

// TestRecheckReadsTheRecord checks that before an absence counts the record is read, and its
// host and token are checked.
func TestRecheckReadsTheRecord(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sweepSite, sandbox.Domain)
		detail string
		state  string // stored; "": none
	}{
		{"as it was", func(*sweepSite, sandbox.Domain) {}, "absent: ", "absent"},
		{"another token, which is there", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
			s.publish()
		}, "present", "present"},
		{"another token, which is not", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
		}, "absent: ", "absent"},
		{"pending", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		}, "pending, but not set by orgops", ""},
		{"gone", func(s *sweepSite, d sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, "was deleted", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			d := s.verified(new(true))
			s.scan()
			test.change(s, d)
			s.wantRow(s.finish(), engine.Unchanged, test.detail)
			if m := s.domainState(); m.State != test.state {
				t.Errorf("state %q, want %q", m.State, test.state)
			}
			s.wantRequests("GET")
		})
	}
}

// TestRecheckPresent checks that a domain whose token is published costs no request.
func TestRecheckPresent(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	s.publish()
	s.wantRow(s.sweep(), engine.Unchanged, "present")
	s.clock.advance(24 * time.Hour)
	s.days(2)
	s.wantRequests()
	if m := s.domainState(); m.State != "present" || m.Sweeps != 3 || m.Host != "" || m.LastPresent.Sub(m.FirstPresent).Round(time.Minute) != 48*time.Hour {
		t.Errorf("state %+v", m)
	}
	s.wantNotified()
}

// TestRecheckInvalid checks that a row without a required member settles as invalid.
func TestRecheckInvalid(t *testing.T) {
	for detail, row := range map[string]kinds.RecheckRow{
		"verification_txt: want 1 to": {OrganizationID: org, DiscoveryDomainID: dom, VerificationHost: "_a.example.com", Status: "verified", Tick: 1},
		"status: want verified or":    {OrganizationID: org, DiscoveryDomainID: dom, VerificationHost: "_a.example.com", VerificationTXT: "x", Tick: 1},
		"tick: want a Unix second":    {OrganizationID: org, DiscoveryDomainID: dom, VerificationHost: "_a.example.com", VerificationTXT: "x", Status: "verified"},
	} {
		t.Run(detail, func(t *testing.T) {
			s := newSweepSite(t, sweep.Report)
			s.open("", kinds.Recheck, row)
			s.wantRow(s.finish(), engine.InvalidRow, detail)
			s.wantRequests()
		})
	}
}

// TestRecheckUnreadable checks that a state which is damaged or of a newer version settles the
// row at once, since the evaluation of the sweep, which excludes the domain, waits for the
// row.
func TestRecheckUnreadable(t *testing.T) {
	for _, value := range []string{"{", `{"v":99}`} {
		t.Run(value, func(t *testing.T) {
			s := newSweepSite(t, sweep.Report)
			s.verified(new(true))
			if ok, err := s.states.Store.SetDomain(t.Context(), sweep.DomainWrite{ID: dom, Value: []byte(value), Watched: true, Tick: 1}); err != nil || !ok {
				t.Fatal(ok, err)
			}
			s.scan()
			s.wantRow(s.finish(), engine.Failed, "domain state: ")
			s.wantRequests()
		})
	}
}

// TestRecheckUnknownMember checks that a row of a newer version is left open for a newer
// worker.
func TestRecheckUnknownMember(t *testing.T) {
	s := newSweepSite(t, sweep.Report)
	for _, kind := range []ledger.Kind{kinds.Recheck, kinds.HourlyCheck, kinds.Act} {
		s.open("", kind, []byte(`{"organization_id":"org_1","discovery_domain_id":"ord_1","tick":1,"new":1}`))
		s.once()
		if row := s.row(0); row.Phase == ledger.PhaseSettled || row.Checkpoint.Attempts != 0 {
			t.Errorf("%s: %+v", kind, row)
		}
	}
}

// TestRecheckOthers checks that another client's changes of a domain are not overwritten.
func TestRecheckOthers(t *testing.T) {
	t.Run("set to pending in the grace period", func(t *testing.T) {
		s := newSweepSite(t, sweep.SetPending)
		s.verified(new(true))
		s.days(5)
		s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		s.days(1)
		s.publish()
		s.days(5)
		s.wantDomain("pending", new(true))
		if m := s.domainState(); m.Absence != nil || m.Taken != nil {
			t.Errorf("state %+v", m)
		}
	})
	t.Run("set to verified after our pending", func(t *testing.T) {
		s := newSweepSite(t, sweep.SetPending)
		s.lost(new(true))
		s.edit(func(d *sandbox.Domain) { d.Status = "verified" })
		s.days(7)
		s.wantDomain("verified", new(true))
		s.days(2)
		s.wantDomain("pending", new(true))
	})
	t.Run("routed again after our unroute", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.lost(new(true))
		s.flag(new(true))
		s.days(1)
		if m := s.domainState(); m.Taken != nil {
			t.Errorf("state %+v", m)
		}
		s.wantHistory("changed by others", "", 1)
	})
	t.Run("the scan was before our action", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.due(new(true))
		stale := s.rowOf()
		s.sweep()
		stale.Tick = s.clock.now().Unix() + 1
		s.open("", kinds.Recheck, stale)
		s.finish()
		if m := s.domainState(); m.Taken == nil {
			t.Errorf("state %+v", m)
		}
	})
	t.Run("a read is behind our action", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.due(new(true))
		stale := s.rowOf()
		s.sweep()
		stale.Tick = s.clock.now().Unix() + 1
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 2, Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
		s.open("", kinds.Recheck, stale)
		s.finish()
		if m := s.domainState(); m.Taken == nil {
			t.Errorf("state %+v", m)
		}
	})
	t.Run("unrouted before us", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.verified(new(false))
		s.days(9)
		s.publish()
		s.days(2)
		s.wantDomain("verified", new(false))
		s.wantPatches()
	})
}

// TestRecheckProtected checks that a protected domain is notified as at risk and never acted
// on.
func TestRecheckProtected(t *testing.T) {
	for protect, protects := range map[string]bool{org: true, "example.org": true, "D.example.org.": true, "ample.org": false, "org_11": false} {
		t.Run(protect, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.rules.Protect = []string{"x.org", protect}
			s.domain(sandbox.Domain{Domain: "d.example.org", Status: "verified", Use: new(true)}, false)
			s.days(9)
			if d, _ := s.sandbox.Domain(org, dom); (d.Status == "verified") != protects {
				t.Errorf("it is %s", d.Status)
			}
			if protects {
				s.wantNotified(events.DomainAtRisk)
			}
		})
	}
}

// TestRecheckGone checks that the state of a deleted domain is deleted, unless a value was
// taken from the domain: then a sweep that misses it decides.
func TestRecheckGone(t *testing.T) {
	t.Run("at risk", func(t *testing.T) {
		s := newSweepSite(t, sweep.SetPending)
		s.verified(new(true))
		s.days(2)
		s.sandbox.RemoveDomain(org, dom)
		s.sweep()
		if m := s.domainState(); m.V != 0 {
			t.Errorf("state %+v", m)
		}
		if ids, err := s.store.WatchedDomains(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("%q are watched (%v)", ids, err)
		}
	})
	t.Run("taken", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		d := s.lost(new(true))
		s.scan()
		s.sandbox.RemoveDomain(org, dom)
		s.finish()
		if m := s.domainState(); m.Taken == nil {
			t.Errorf("state %+v: one 404 is not enough", m)
		}
		s.clock.advance(24 * time.Hour)
		s.sweep()
		if m := s.domainState(); m.V != 0 {
			t.Errorf("state %+v", m)
		}
		_ = d
	})
}

// TestRecheckPending checks that pending domains which a sweep may verify are verified if
// their token is published, and are not changed otherwise.
func TestRecheckPending(t *testing.T) {
	for _, test := range []struct {
		name         string
		prove, there bool
		status       string
		outcome      ledger.Outcome
		requests     []string
	}{
		{"to be proven, and there", true, true, "verified", ledger.Done, []string{"GET", "PATCH"}},
		{"to be proven, and not there", true, false, "pending", engine.Unchanged, nil},
		{"not to be proven", false, true, "pending", engine.Unchanged, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.prove = test.prove
			s.domain(sandbox.Domain{Status: "pending", Use: new(false)}, test.there)
			s.wantRow(s.sweep(), test.outcome)
			s.wantDomain(test.status, new(false))
			s.wantRequests(test.requests...)
			if test.status == "verified" {
				s.wantNotified(events.DomainVerified)
			} else {
				s.wantNotified()
			}
			if m := s.domainState(); m.Absence != nil {
				t.Errorf("state %+v", m)
			}
		})
	}
}

// TestRecheckInLine checks that a row whose permit is far off waits for it at stage ready, and
// is verified only if the sweep may verify it by then.
func TestRecheckInLine(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*sweepSite)
		status string
		want   ledger.Outcome
	}{
		"as it was":              {func(*sweepSite) {}, "verified", ledger.Done},
		"verified by others":     {func(s *sweepSite) { s.edit(func(d *sandbox.Domain) { d.Status = "verified" }) }, "verified", engine.Unchanged},
		"no longer the sweep's":  {func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.Taken = nil }) }, "pending", engine.Unchanged},
		"another token, missing": {func(s *sweepSite) { s.edit(func(d *sandbox.Domain) { d.TXT = "other" }) }, "pending", engine.Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.lost(new(true))
			s.publish()
			s.line = line(time.Minute)
			s.scan()
			s.once()
			if row := s.row(0); row.Checkpoint.Stage != ledger.StageReady || len(s.writes()) != 1 {
				t.Fatalf("row %+v", row)
			}
			s.line = 0
			test.change(s)
			r := s.finish()
			s.wantRow(r, test.want)
			if d, _ := s.sandbox.Domain(org, dom); d.Status != test.status {
				t.Errorf("it is %s: %s", d.Status, r.Detail)
			}
		})
	}
}

// TestSweepVerifiesWithAFlag checks that a sweep does not verify a pending domain whose record
// omits its flag, and that a submitted row does.
func TestSweepVerifiesWithAFlag(t *testing.T) {
	s := newSweepSite(t, sweep.Report)
	s.prove = true
	s.domain(sandbox.Domain{Use: new(true)}, true)
	s.scan() // which has the flag; the record that is read before the PATCH decides
	s.flag(nil)
	s.wantRow(s.finish(), engine.Refused, "has no use_for_organization_discovery", "nothing was changed", "set the flag explicitly once")
	s.wantPatches()
	s.open("", kinds.Verify, kinds.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
	s.finish()
	s.wantPatches(`{"status":"verified"}`)
}

// TestStatusBringsItsFlag checks that a status is restored with its former flag, unless the
// record has another one by then. Without any flag it is withheld.
func TestStatusBringsItsFlag(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sweepSite)
		want   string // the PATCH that restores the value; "": none
	}{
		{"the record omits it", func(s *sweepSite) { s.flag(nil) }, patchVerifyNot},
		{"the record has it", func(*sweepSite) {}, patchVerifyNot},
		{"the record has another", func(s *sweepSite) { s.flag(new(true)) }, patchVerify},
		{"it was never known", func(s *sweepSite) {
			s.flag(nil)
			s.alter(func(m *sweep.DomainState) { m.Taken.Flag = nil })
		}, ""},
		{"it was not known, and the record has it", func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.Taken.Flag = nil }) }, patchVerifyNot},
	} {
		for _, between := range []bool{false, true} {
			t.Run(test.name+map[bool]string{false: "/by a sweep", true: "/between two sweeps"}[between], func(t *testing.T) {
				s := newSweepSite(t, sweep.SetPending)
				s.lost(new(false))
				test.change(s)
				var r ledger.Result
				if between {
					s.sweep() // the sweep does not find the token yet
					s.publish()
					s.hours(12)
				} else {
					s.publish()
					r = s.sweep()
				}
				if test.want != "" {
					s.wantPatches(patchPendingNot, test.want)
					s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
					return
				}
				s.wantPatches(patchPendingNot)
				s.wantStatus("pending")
				if between {
					s.wantHistory("not restored", "use_for_organization_discovery", 1)
				} else {
					s.wantRow(r, engine.Refused, "has no use_for_organization_discovery", "set the flag")
				}
			})
		}
	}
}

// TestRecheckAnotherToken checks that the taken value is restored by the domain's present
// token.
func TestRecheckAnotherToken(t *testing.T) {
	for _, action := range []sweep.Action{sweep.SetPending, sweep.Unroute} {
		t.Run(string(action), func(t *testing.T) {
			s := newSweepSite(t, action)
			s.lost(new(true))
			s.edit(func(d *sandbox.Domain) { d.TXT = "another" })
			s.days(2)
			if d, _ := s.sandbox.Domain(org, dom); d.Status == "verified" && *d.Use {
				t.Fatal("given back without its token")
			}
			s.publish()
			s.days(1)
			s.wantDomain("verified", new(true))
		})
	}
}

// strictRefusals publish the domain's token in each way that a strict proof refuses, by its
// words.
var strictRefusals = map[string]func(s *sweepSite, d sandbox.Domain){
	"out of the domain": func(s *sweepSite, d sandbox.Domain) {
		s.sandbox.SetCNAME(d.Host, "token.hosting.example.net")
		s.sandbox.SetTXT("token.hosting.example.net", d.TXT)
	},
}

// strictly has the workers refuse aliases out of the domain.
func (s *sweepSite) strictly() {
	s.t.Helper()
	c := dnscheck.Config{Timeout: patience, RefuseAliases: true}
	for _, addr := range s.sandbox.DNSAddrs() {
		r, err := dnscheck.ParseResolver(addr)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Resolvers = append(c.Resolvers, r)
	}
	checker, err := dnscheck.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(checker.Close)
	s.config.DNS = checker
}

// TestStrictSettings checks that a verified domain stays verified with any kind of record, and
// that a taken value is restored by a strict proof only.
func TestStrictSettings(t *testing.T) {
	for refusal, put := range strictRefusals {
		for _, action := range []sweep.Action{sweep.Unroute, sweep.SetPending} {
			t.Run(fmt.Sprintf("%s/%s", refusal, action), func(t *testing.T) {
				s := newSweepSite(t, action)
				s.strictly()
				put(s, s.verified(new(true)))
				s.days(2)
				s.wantPatches()
				s.wantNotified()
				if m := s.domainState(); m.State != "present" || m.Absence != nil {
					t.Errorf("state %+v", m)
				}
			})
			t.Run(fmt.Sprintf("%s/back/%s", refusal, action), func(t *testing.T) {
				s := newSweepSite(t, action)
				s.strictly()
				d := s.lost(new(true))
				taken := s.writes()
				put(s, d)
				if r := s.sweep(); action == sweep.SetPending {
					s.wantRow(r, engine.Unchanged, refusal)
				} else {
					s.wantHistory("not restored", refusal, 1)
				}
				s.wantPatches(taken...)
				s.publish()
				s.clock.advance(24 * time.Hour)
				s.sweep()
				s.wantDomain("verified", new(true))
			})
		}
	}
}

// TestRecheckPlaces checks that checks of all kinds share the places, and those of slow zones
// the slow places.
func TestRecheckPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		places *kinds.Places
		reason dnscheck.Reason
		open   bool
	}{
		"slow":     {kinds.NewPlaces(2, 1), dnscheck.ReasonTimeout, true},
		"not slow": {kinds.NewPlaces(2, 1), dnscheck.ReasonNoName, false},
		"full":     {kinds.NewPlaces(1, 1), dnscheck.ReasonNoName, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.Report)
			s.config.Places = test.places
			s.verified(new(true))
			s.days(1)
			s.alter(func(m *sweep.DomainState) { m.Reason = string(test.reason) })
			checker := s.checked()
			asked, hold := make(chan string), make(chan struct{})
			s.config.DNS = holding{checker, asked, hold}
			s.open("", kinds.HourlyCheck, kinds.HourlyRow{OrganizationID: org, DiscoveryDomainID: dom, Tick: s.domainState().Tick})
			task := s.release()
			worker, _ := s.worker()
			handlers := s.handlers
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = worker.ProcessTask(t.Context(), task)
			}()
			<-asked
			s.config.DNS, s.handlers = checker, handlers
			s.scan()
			s.once()
			row := s.row(0)
			if (row.Phase == ledger.PhaseWaiting) != test.open || row.Checkpoint.Attempts != 0 {
				t.Errorf("%+v", row)
			}
			close(hold)
			<-ended
		})
	}
}

// holding is a DNS whose checks wait.
type holding struct {
	sweepDNS
	asked chan string
	hold  chan struct{}
}

func (d holding) Check(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	d.asked <- host
	<-d.hold
	return dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout}, nil
}

// TestRecheckLostPatch loses the answer to the PATCH of a sweep's row. The row continues as
// one of kind Verify, by its own record, also if the run is cancelled.
func TestRecheckLostPatch(t *testing.T) {
	for name, test := range map[string]struct {
		fault   sandbox.Fault
		change  func(*sweepSite)
		outcome ledger.Outcome
		status  string
	}{
		"carried out":     {sandbox.Fault{DropAfter: true}, func(*sweepSite) {}, ledger.Done, "verified"},
		"not carried out": {sandbox.Fault{DropBefore: true}, func(*sweepSite) {}, ledger.Done, "verified"},
		"another token": {sandbox.Fault{DropAfter: true}, func(s *sweepSite) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "another" })
		}, engine.Refused, "pending"},
		"token gone": {sandbox.Fault{DropBefore: true}, func(s *sweepSite) {
			s.sandbox.SetTXT(s.now(sandbox.Domain{ID: dom}).Host, "gone")
		}, engine.Unchanged, "pending"},
		"cancelled, carried out": {sandbox.Fault{DropAfter: true}, func(s *sweepSite) { s.cancel() }, ledger.Done, "verified"},
		"cancelled, not carried": {sandbox.Fault{DropBefore: true}, func(s *sweepSite) { s.cancel() }, ledger.Cancelled, "pending"},
		"flag omitted since":     {sandbox.Fault{DropBefore: true}, func(s *sweepSite) { s.flag(nil) }, ledger.Done, "verified"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.lost(new(true))
			s.publish()
			s.fail(sandbox.OpUpdateDiscoveryDomain, test.fault)
			s.scan()
			s.once()
			if s.row(0).Intent == nil {
				t.Fatalf("row %+v", s.row(0))
			}
			test.change(s)
			s.wantRow(s.finish(), test.outcome)
			d := s.wantStatus(test.status)
			if d.Use != nil && !*d.Use {
				t.Error("the flag was changed")
			}
			if restored := s.domainState().Taken == nil; restored != (test.status == "verified") {
				t.Errorf("state %+v", s.domainState())
			}
		})
	}
}

// TestRecheckLostAndCancelled has another client set the flag after a PATCH that was executed
// without an answer, and the run cancelled. A sweep requests no flag, so the row is done.
func TestRecheckLostAndCancelled(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.lost(new(true))
	s.publish()
	s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: true})
	s.scan()
	s.once()
	s.flag(new(false))
	s.cancel()
	s.wantRow(s.finish(), ledger.Done)
	s.wantDomain("verified", new(false))
	s.wantPatches(patchPending, patchVerify)
}

func (s *sweepSite) cancel() {
	s.t.Helper()
	if err := s.Cancel(s.t.Context(), s.run.ID); err != nil {
		s.t.Fatal(err)
	}
}

// TestRecheckNotifiesAgain checks that a domain is restored and notified once if the worker
// dies in between, and that one which no sweep took is verified.
func TestRecheckNotifiesAgain(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.lost(new(true))
	s.publish()
	s.scan()
	s.on = func(name string) {
		if name == "before end" {
			s.on = func(string) {}
			s.cancel()
		}
	}
	s.finish()
	s.wantNotified(events.DomainAtRisk, events.DomainLost, events.DomainRestored)
	content, err := json.Marshal(s.notified[2])
	if err != nil || !contains(string(content), `"action":"pending"`) {
		t.Errorf("%s, %v", content, err)
	}
}
