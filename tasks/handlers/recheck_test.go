package handlers_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestRecheckLost checks that the first sweep after the grace period, and each later one, reports
// the domain as lost and changes nothing, until its token is found.
func TestRecheckLost(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.rules.Protect = []string{org} // which only protects from revocations
	gone := ""
	s.verified(new(true))
	for day := range 10 {
		if day == 8 { // a second execution, and one without an answer
			s.open("", handlers.Recheck, s.rowOf())
		} else {
			s.scan()
		}
		r := s.settle()
		if day < 7 {
			s.wantRow(r, ledger.AtRisk, "absent: ")
		} else {
			s.wantRow(r, ledger.Lost, "gone since "+gone+", ", fmt.Sprintf("by %d sweeps", day+1), "There is no TXT record")
		}
		gone = stamp.UTC(s.domainState().Absence.Since)
		if e := s.wantAbsent(r, ""); len(e.Said) < 2 {
			t.Errorf("evidence %+v", e)
		}
		s.clock.advance(24 * time.Hour)
	}
	s.wantHistory("lost", "8 sweeps have found it gone, over 7.0 days", 1)
	s.wantEvents(events.DomainAtRisk, events.DomainLost)
	s.publish()
	s.wantRow(s.sweep(), ledger.Unchanged, "present")
	s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
	s.wantDomain("verified", new(true))
	s.wantPatches()
}

// wantAbsent checks that the result has the evidence of a check of the domain's record, with the
// mistake; "": with none.
func (s *sweepSite) wantAbsent(r ledger.Result, mistake report.Mistake) evidence.Evidence {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	e, err := evidence.Read(r.Evidence)
	want := &evidence.Record{Domain: d.Domain, Host: d.Host, TXT: d.TXT}
	if err != nil || e.State != report.Absent || cmp.Diff(want, e.Record) != "" || e.Mistake() != mistake {
		s.t.Errorf("evidence %+v, %v", e, err)
	}
	return e
}

// TestRecheckNamesTheMistake: a record that was moved to a wrong place is diagnosed as that of a
// pending domain is: the row, its evidence, the state and the event name the mistake, before and
// after the domain is lost.
func TestRecheckNamesTheMistake(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	d := s.verified(new(true))
	s.sandbox.SetTXT(d.Domain, d.TXT)
	r := s.sweep()
	s.wantRow(r, ledger.AtRisk, "absent: The record is at "+d.Domain)
	s.wantAbsent(r, report.MistakeApex)
	state := s.domainState()
	if state.Mistake != string(report.MistakeApex) {
		t.Errorf("state %+v", state)
	}
	s.wantEvents(events.DomainAtRisk)
	if data := s.events[0].Data; data.Mistake != string(report.MistakeApex) || data.Reason != state.Sentence {
		t.Errorf("event %+v", data)
	}
	for range 2 {
		s.clock.advance(4 * 24 * time.Hour)
		r = s.sweep()
	}
	s.wantRow(r, ledger.Lost, "gone since ", "by 3 sweeps: The record is at "+d.Domain)
	s.wantAbsent(r, report.MistakeApex)
}

// diagnosed counts diagnoses.
type diagnosed struct {
	sweepDNS
	n *int
}

func (d diagnosed) Diagnose(ctx context.Context, host, domain, token string,
	v dnscheck.Verdict) (report.Diagnosis, error) {
	*d.n++
	return d.sweepDNS.Diagnose(ctx, host, domain, token, v)
}

// TestRecheckStopping checks that a stopping worker makes no diagnosis.
func TestRecheckStopping(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	d := s.verified(new(true))
	s.sandbox.SetTXT(d.Domain, d.TXT)
	stopping := make(chan struct{})
	s.stopping = stopping
	diagnoses := 0
	s.config.DNS = diagnosed{meanwhile{s.checked(), sync.OnceFunc(func() { close(stopping) })}, &diagnoses}
	s.scan()
	s.step()
	if diagnoses != 0 {
		t.Errorf("%d diagnoses, want none", diagnoses)
	}
	if row := s.Row(0); row.Result.Outcome != ledger.AtRisk {
		t.Errorf("row %+v", row)
	}
}

// wantProven checks that row and state have the evidence of the same proof of the domain's record.
func (s *sweepSite) wantProven(r ledger.Result) {
	s.t.Helper()
	s.wantRow(r, ledger.Unchanged, "present, and proven")
	d, _ := s.sandbox.Domain(org, dom)
	e, err := evidence.Read(r.Evidence)
	want := &evidence.Record{OrganizationID: org, DiscoveryDomainID: dom, Domain: d.Domain, Host: d.Host, TXT: d.TXT}
	if err != nil || e.State != "present" || len(e.Said) < 2 || cmp.Diff(want, e.Compared) != "" {
		s.t.Errorf("evidence %+v, %v", e, err)
	}
	if m := s.domainState(); m.Proven == nil || !m.Proven.At.Equal(m.At) || !bytes.Equal(m.Proven.Evidence, r.Evidence) {
		s.t.Errorf("state %+v", m)
	}
	if n := strings.Count(s.log.String(), `"msg":"audit","event":"domain proven"`); n < 1 || n > 2 {
		s.t.Errorf("%d audit lines of the proof, want one, or another one of a second execution", n)
	}
}

// provingSweeps changes the verdicts of proofs.
type provingSweeps struct {
	sweepDNS
	change func(dnscheck.Verdict) dnscheck.Verdict
}

func (p provingSweeps) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := p.sweepDNS.Prove(ctx, host, token)
	return p.change(v), err
}

// TestRecheckProves checks that a domain that another client has verified is proven once, by the
// first sweep that finds its token, and can be lost from then on.
func TestRecheckProves(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.foreign(new(true))
	s.publish()
	proofs := 0
	s.config.DNS = provingSweeps{s.checked(), func(v dnscheck.Verdict) dnscheck.Verdict { proofs++; return v }}
	s.wantProven(s.sweep())
	proven := s.domainState().Proven
	s.clock.advance(24 * time.Hour)
	r := s.sweep()
	s.wantRow(r, ledger.Unchanged, "present")
	if diff := cmp.Diff(proven, s.domainState().Proven); diff != "" || r.Evidence != nil || proofs != 1 {
		t.Errorf("%d proofs, want one; evidence %q; state (-want +got):\n%s", proofs, r.Evidence, diff)
	}
	s.sandbox.SetTXT(s.rowOf().VerificationHost)
	s.clock.advance(24 * time.Hour)
	s.days(7)
	s.wantRow(s.sweep(), ledger.Lost, "gone since ")
	s.wantEvents(events.DomainAtRisk, events.DomainLost)
	s.open("", handlers.Revoke, s.revocation())
	s.wantRow(s.settle(), ledger.Done)
	s.wantPatches(patchPending)
}

// TestRecheckUnproven checks that a verified domain whose token was never proven is never lost and
// never revoked, and that its row says so: one that a check has seen but no proof, one with another
// token than the proven one, and one whose proof Redis has lost.
func TestRecheckUnproven(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(*sweepSite)

		events []string
	}{
		{"seen, not proven", func(s *sweepSite) {
			s.publish()
			s.config.DNS = provingSweeps{s.checked(), func(v dnscheck.Verdict) dnscheck.Verdict {
				v.State, v.Reason = dnscheck.Unknown, dnscheck.ReasonTimeout
				return v
			}}
			s.wantRow(s.sweep(), ledger.Unchanged, "present, but not proven: ")
			s.clock.advance(24 * time.Hour)
		}, nil},
		{"another token", func(s *sweepSite) {
			s.publish()
			s.sweep()
			s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
			s.clock.advance(24 * time.Hour)
			s.sandbox.SetTXT(s.rowOf().VerificationHost)
			s.wantRow(s.sweep(), ledger.Withdrawn, "another host or token")
			s.clock.advance(24 * time.Hour)
		}, []string{events.DomainWithdrawn}},
		{"proof lost", func(s *sweepSite) {
			s.publish()
			s.sweep()
			if err := s.Redis.Del(s.t.Context(), redistest.Keys(s.t, "*domain:"+dom)...).Err(); err != nil {
				s.t.Fatal(err)
			}
			s.clock.advance(24 * time.Hour)
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.foreign(new(true))
			test.begin(s)
			s.sandbox.SetTXT(s.rowOf().VerificationHost)
			for day := range 12 {
				want := ledger.Unchanged
				if day >= 7 || (day == 6 && test.events != nil) { // a sweep has found it gone before
					want = ledger.Unproven
				}
				r := s.sweep()
				s.wantRow(r, want, "unproven: ", "There is no TXT record")
				if e, err := evidence.Read(r.Evidence); day >= 7 && (err != nil || e.State != "absent") {
					t.Errorf("evidence %+v, %v", e, err)
				}
				s.clock.advance(24 * time.Hour)
			}
			s.open("", handlers.Revoke, s.revocation())
			s.wantRow(s.settle(), ledger.Unchanged, "not revoked: ", "unproven")
			s.publish()
			s.sweep()
			s.wantEvents(test.events...)
			s.wantPatches()
			s.wantDomain("verified", new(true))
		})
	}
}

// TestVerifiedIsProven checks that the proof of a domain that a row verifies is one for sweeps,
// which need not see the token again to find it lost.
func TestVerifiedIsProven(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.keep = true
	d := s.domain(sandbox.Domain{Status: "pending", Use: new(true)}, true)
	s.open("", handlers.Verify, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
	r := s.settle()
	s.wantRow(r, ledger.Done)
	if m := s.domainState(); m.Proven == nil || !bytes.Equal(m.Proven.Evidence, r.Evidence) || m.Sweeps != 0 {
		t.Fatalf("state %+v", m)
	}
	s.sandbox.SetTXT(d.Host)
	s.clock.advance(24 * time.Hour)
	s.days(7)
	s.wantRow(s.sweep(), ledger.Lost, "gone since ")
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
		}, "another host or token", "present"},
		{"another token, which is not", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
		}, "another host or token", "absent"},
		{"pending", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		}, "it is pending", ""},
		{"of a newer service", func(s *sweepSite, d sandbox.Domain) {
			s.edit(func(d *sandbox.Domain) { d.Status = "failed" })
		}, "it is pending", ""},
		{"gone", func(s *sweepSite, d sandbox.Domain) { s.sandbox.RemoveDomain(org, dom) }, "does not exist any more", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			d := s.verified(new(true))
			s.scan()
			test.change(s, d)
			want := ledger.Withdrawn
			if test.name == "as it was" {
				want = ledger.AtRisk
			}
			s.wantRow(s.settle(), want, test.detail)
			if n, err := s.store.Withdrawn(t.Context()); err != nil || (n == 1) != (want == ledger.Withdrawn) {
				t.Errorf("%d domains need attention, %v", n, err)
			}
			if m := s.domainState(); m.State != test.state {
				t.Errorf("state %q, want %q", m.State, test.state)
			}
			s.wantRequests("GET")
		})
	}
}

// TestRecheckUnreadable checks that a state which is damaged or of a newer version settles the
// row at once.
func TestRecheckUnreadable(t *testing.T) {
	for _, value := range []string{"{", `{"v":99}`} {
		t.Run(value, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.foreign(new(true))
			if ok, err := s.states.Store.SetDomain(t.Context(),
				sweep.DomainWrite{ID: dom, Value: []byte(value), Watched: true, Tick: 1}); err != nil || !ok {
				t.Fatal(ok, err)
			}
			s.scan()
			s.wantRow(s.settle(), ledger.Failed, "domain state: ")
			s.wantRequests()
		})
	}
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
	s.wantRow(s.sweep(), ledger.AtRisk, "absent")
	s.clock.advance(24 * time.Hour)
	s.wantRow(s.sweep(), ledger.Lost)
	s.sandbox.SetRCode(d.Host, 2, 1<<30)
	s.clock.advance(24 * time.Hour)
	s.wantRow(s.sweep(), ledger.Unchanged, "unknown: ")
}

// TestRecheckOnce checks that a domain counts once in a sweep, however often it is checked.
func TestRecheckOnce(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	s.verified(new(true))
	row := s.scan()
	s.settle()
	for range 5 {
		s.clock.advance(time.Hour)
		s.open("", handlers.Recheck, row)
		s.wantRow(s.settle(), ledger.AtRisk, "absent: ")
	}
	if m := s.domainState(); m.Absence == nil || m.Absence.Checks != 1 || m.Sweeps != 1 {
		t.Errorf("state %+v: want one check", m)
	}
	if tally, err := s.store.Counts(t.Context(), row.Tick); err != nil || tally["absent"] != 1 {
		t.Errorf("tally %v, %v", tally, err)
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
		if m := s.domainState(); m.Absence != nil || m.Revoked != nil {
			t.Errorf("state %+v", m)
		}
	})
	t.Run("set to verified after our pending", func(t *testing.T) {
		s := newSweepSite(t, sweep.SetPending)
		s.revoked(new(true))
		s.edit(func(d *sandbox.Domain) { d.Status = "verified" })
		s.days(1)
		s.wantHistory("changed by others", "", 1)
		if m := s.domainState(); m.Revoked != nil || m.Absence == nil || m.Absence.Checks != 1 {
			t.Errorf("state %+v", m)
		}
		s.edit(func(d *sandbox.Domain) { d.Status = "pending" })
		s.publish()
		s.days(2)
		s.wantDomain("pending", new(true))
	})
	t.Run("routed again after our unroute", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.revoked(new(true))
		s.flag(new(true))
		s.days(1)
		if m := s.domainState(); m.Revoked != nil {
			t.Errorf("state %+v", m)
		}
		s.wantHistory("changed by others", "", 1)
	})
	for _, behind := range []int{0, 2} {
		t.Run(fmt.Sprintf("the scan was before our action, and %d reads are behind it", behind), func(t *testing.T) {
			s := newSweepSite(t, sweep.Unroute)
			s.decided(new(true))
			stale := s.rowOf()
			s.wantRow(s.settle(), ledger.Done)
			stale.Tick = s.clock.now().Unix() + 1
			if behind > 0 {
				s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: behind,
					Wrong: func(d *sandbox.Domain) { d.Use = new(true) }})
			}
			s.open("", handlers.Recheck, stale)
			s.settle()
			if m := s.domainState(); m.Revoked == nil {
				t.Errorf("state %+v", m)
			}
		})
	}
}

// TestRecheckUnanswered checks that the sweep after a revocation whose row was given up finds
// whether its request has had its effect.
func TestRecheckUnanswered(t *testing.T) {
	for _, test := range []struct {
		set    sweep.Setting
		change func(*sandbox.Domain)
		what   string // in the history; "": nothing
		holds  bool
	}{
		{sweep.SetPending, func(d *sandbox.Domain) { d.Status = "pending" }, "revoked: pending", true},
		{sweep.SetPending, func(*sandbox.Domain) {}, "not revoked", false},
		{sweep.Unroute, func(d *sandbox.Domain) { d.Use = new(false) }, "revoked: unroute", true},
		{sweep.Unroute, func(*sandbox.Domain) {}, "not revoked", false},
		{sweep.Unroute, func(d *sandbox.Domain) { d.Use = nil }, "", true},
	} {
		t.Run(string(test.set)+"/"+test.what, func(t *testing.T) {
			s := newSweepSite(t, test.set)
			s.due(new(true))
			s.alter(func(m *sweep.DomainState) {
				m.Revoked = &sweep.Revocation{Set: test.set, Run: "run1", At: s.clock.now(), Since: m.Absence.Since, Flag: true}
			})
			s.edit(test.change)
			s.clock.advance(time.Minute) // a read may be behind
			s.days(1)
			if m := s.domainState(); m.Revoked == nil || !m.Revoked.DoneAt.IsZero() {
				t.Errorf("state %+v after a minute", m)
			}
			s.days(1)
			if m := s.domainState(); (m.Revoked != nil) != test.holds ||
				test.holds && m.Revoked.DoneAt.IsZero() != (test.what == "") {
				t.Errorf("state %+v", m)
			}
			if test.what != "" {
				s.wantHistory(test.what, "run1", 1)
			}
			s.wantPatches()
		})
	}
}

// TestRecheckGone checks that the state of a deleted domain is deleted, unless the domain is
// revoked: a single answer may be that of a server that is behind.
func TestRecheckGone(t *testing.T) {
	t.Run("at risk", func(t *testing.T) {
		s := newSweepSite(t, sweep.SetPending)
		s.verified(new(true))
		s.days(2)
		s.scan()
		s.sandbox.RemoveDomain(org, dom)
		s.settle()
		if m := s.domainState(); m.V != 0 {
			t.Errorf("state %+v", m)
		}
		if k, ok := s.knownDomain(); ok {
			t.Errorf("known is %+v", k)
		}
		if ids, err := s.store.WatchedDomains(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("%q are watched (%v)", ids, err)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		s := newSweepSite(t, sweep.Unroute)
		s.revoked(new(true))
		s.scan()
		s.sandbox.RemoveDomain(org, dom)
		s.settle()
		if m := s.domainState(); m.Revoked == nil {
			t.Errorf("state %+v: one 404 is not enough", m)
		}
	})
}

// TestRecheckPending checks that pending domains which a sweep may verify are verified if
// their token is published, and are not changed otherwise.
func TestRecheckPending(t *testing.T) {
	for _, test := range []struct {
		name         string
		prove, there bool
		before       string
		status       string
		outcome      ledger.Outcome
		requests     []string
	}{
		{"to be proven, and there", true, true, "pending", "verified", ledger.Done, []string{"GET", "PATCH"}},
		{"to be proven, and not there", true, false, "pending", "pending", ledger.Unchanged, nil},
		{"not to be proven", false, true, "pending", "pending", ledger.Unchanged, nil},
		{"of a newer service, and there", true, true, "failed", "verified", ledger.Done, []string{"GET", "PATCH"}},
		{"of a newer service, and not there", true, false, "failed", "failed", ledger.Unchanged, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.prove = test.prove
			s.domain(sandbox.Domain{Status: test.before, Use: new(false)}, test.there)
			s.wantRow(s.sweep(), test.outcome)
			s.wantDomain(test.status, new(false))
			s.wantRequests(test.requests...)
			if test.status == "verified" {
				s.wantEvents(events.DomainVerified)
			} else {
				s.wantEvents()
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
		"as it was": {func(*sweepSite) {}, "verified", ledger.Done},
		"verified by others": {func(s *sweepSite) { s.edit(func(d *sandbox.Domain) { d.Status = "verified" }) },
			"verified", ledger.Unchanged},
		"no longer the sweep's": {func(s *sweepSite) { s.alter(func(m *sweep.DomainState) { m.Revoked = nil }) },
			"pending", ledger.Withdrawn},
		"another token, missing": {func(s *sweepSite) { s.edit(func(d *sandbox.Domain) { d.TXT = "other" }) },
			"pending", ledger.Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.revoked(new(true))
			s.publish()
			s.line = line(time.Minute)
			s.scan()
			s.step()
			if row := s.Row(0); row.Checkpoint.Stage != ledger.StageReady || len(s.writes()) != 1 {
				t.Fatalf("row %+v", row)
			}
			s.line = 0
			test.change(s)
			r := s.settle()
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
	s := newSweepSite(t, sweep.SetPending)
	s.prove = true
	s.domain(sandbox.Domain{Use: new(true)}, true)
	s.scan() // which has the flag; the record that is read before the PATCH decides
	s.flag(nil)
	s.wantRow(s.settle(), ledger.Refused, "has no use_for_organization_discovery", "nothing was changed",
		"set the flag explicitly once")
	s.wantPatches()
	s.open("", handlers.Verify, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
	s.settle()
	s.wantPatches(`{"status":"verified"}`)
}

// TestStatusBringsItsFlag checks that a status is restored with its former flag, unless the
// record has another one by then, by a sweep and by the row of a command.
func TestStatusBringsItsFlag(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sweepSite)
		want   string // the PATCH that restores the value
	}{
		{"the record omits it", func(s *sweepSite) { s.flag(nil) }, patchVerifyNot},
		{"the record has it", func(*sweepSite) {}, patchVerifyNot},
		{"the record has another", func(s *sweepSite) { s.flag(new(true)) }, patchVerify},
	} {
		for _, undo := range []bool{false, true} {
			t.Run(test.name+map[bool]string{false: "/by a sweep", true: "/undone"}[undo], func(t *testing.T) {
				s := newSweepSite(t, sweep.SetPending)
				s.revoked(new(false))
				test.change(s)
				s.publish()
				if undo {
					s.open("", handlers.Verify, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom,
						UseForOrganizationDiscovery: &s.domainState().Revoked.Flag, Restore: true})
					s.wantRow(s.settle(), ledger.Done)
				} else {
					s.wantRow(s.sweep(), ledger.Done)
				}
				s.wantPatches(patchPendingNot, test.want)
				s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
			})
		}
	}
}

// TestStrictSettings checks that a verified domain stays verified with any kind of record, and
// that a revocation is undone by a strict proof only.
func TestStrictSettings(t *testing.T) {
	strictly := func(t *testing.T, set sweep.Setting) *sweepSite {
		t.Helper()
		s := newSweepSite(t, set)
		s.config.DNS = s.checker(dnscheck.Config{RefuseAliases: true})
		return s
	}
	publish := func(s *sweepSite, d sandbox.Domain) {
		s.sandbox.SetCNAME(d.Host, "token.hosting.example.net")
		s.sandbox.SetTXT("token.hosting.example.net", d.TXT)
	}
	for _, set := range []sweep.Setting{sweep.Unroute, sweep.SetPending} {
		t.Run(string(set), func(t *testing.T) {
			s := strictly(t, set)
			publish(s, s.verified(new(true)))
			s.days(2)
			s.wantPatches()
			s.wantEvents()
			if m := s.domainState(); m.State != "present" || m.Absence != nil {
				t.Errorf("state %+v", m)
			}
		})
		t.Run("back/"+string(set), func(t *testing.T) {
			s := strictly(t, set)
			d := s.revoked(new(true))
			patches := s.writes()
			publish(s, d)
			r := s.sweep()
			if set == sweep.Unroute {
				r = s.last
			}
			s.wantRow(r, ledger.Unchanged, "out of the domain")
			s.wantPatches(patches...)
			s.publish()
			s.clock.advance(24 * time.Hour)
			s.sweep()
			s.wantDomain("verified", new(true))
		})
	}
}

// TestRecheckPlaces checks that all checks share the places, and those of slow zones
// the slow places.
func TestRecheckPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		places *handlers.Places
		reason dnscheck.Reason
		open   bool
	}{
		"slow":     {handlers.NewPlaces(2, 1), dnscheck.ReasonTimeout, true},
		"not slow": {handlers.NewPlaces(2, 1), dnscheck.ReasonNoName, false},
		"full":     {handlers.NewPlaces(1, 1), dnscheck.ReasonNoName, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.config.Places = test.places
			s.verified(new(true))
			s.days(1)
			s.alter(func(m *sweep.DomainState) { m.Reason = string(test.reason) })
			dns := s.checked()
			s.config.DNS = meanwhile{dns, func() {
				s.config.DNS = dns
				s.scan()
				s.step()
				if row := s.Row(0); (row.Phase == ledger.PhaseWaiting) != test.open || row.Checkpoint.Attempts != 0 {
					t.Errorf("%+v", row)
				}
			}}
			s.scan()
			s.step()
			if s.runs != 3 {
				t.Errorf("%d runs, want another one during a check", s.runs)
			}
		})
	}
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
		"another token": {sandbox.Fault{DropAfter: true}, func(s *sweepSite) {
			s.edit(func(d *sandbox.Domain) { d.TXT = "another" })
		}, ledger.Refused, "pending"},
		"token gone": {sandbox.Fault{DropBefore: true}, func(s *sweepSite) {
			s.sandbox.SetTXT(s.now(sandbox.Domain{ID: dom}).Host, "gone")
		}, ledger.Unchanged, "pending"},
		"flag omitted since": {sandbox.Fault{DropBefore: true}, func(s *sweepSite) { s.flag(nil) },
			ledger.Done, "verified"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweepSite(t, sweep.SetPending)
			s.revoked(new(true))
			s.publish()
			s.fail(sandbox.OpUpdateDiscoveryDomain, test.fault)
			s.scan()
			s.step()
			if s.Row(0).Intent == nil {
				t.Fatalf("row %+v", s.Row(0))
			}
			test.change(s)
			s.wantRow(s.settle(), test.outcome)
			d := s.wantStatus(test.status)
			if d.Use != nil && !*d.Use {
				t.Error("the flag was changed")
			}
			if restored := s.domainState().Revoked == nil; restored != (test.status == "verified") {
				t.Errorf("state %+v", s.domainState())
			}
		})
	}
}
