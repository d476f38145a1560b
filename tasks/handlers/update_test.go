package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// newUpdateSite returns a site with one row about a domain, on a clock that waits for nothing.
func newUpdateSite(t *testing.T, member string) *verifySite {
	s := newVerifySite(t, func(o *sandbox.Options) { o.FlagDefault = sandbox.FlagTrue })
	s.sandbox.AddOrganization(org, "one")
	s.handlers = func(c handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
		update := handlers.NewUpdate(handlers.UpdateConfig{API: c.API, RequestTimeout: c.RequestTimeout,
			States: &sweep.States{Tenant: string(tenant), Store: sweep.NewStore(s.Redis, string(tenant))}})
		return map[ledger.Kind]engine.Handler{handlers.Update: update}
	}
	s.began = s.clock.now()
	s.Submit(handlers.Update, `{"organization_id":"org_1","discovery_domain_id":"`+dom+`",`+member+`}`)
	return s
}

// newPendingSite returns a site with a row that sets a verified domain to pending.
func newPendingSite(t *testing.T) *verifySite {
	s := newUpdateSite(t, `"status":"pending"`)
	s.domain(sandbox.Domain{Status: "verified", Use: new(false)}, false)
	return s
}

// TestUpdateLostAnswer loses the answer to a PATCH. A read shows whether it has landed. If not, the
// next PATCH waits for twice the request timeout, is not sent in a stopped run, and sends the flag
// as it is then.
func TestUpdateLostAnswer(t *testing.T) {
	cancel := func(s *verifySite) { _ = s.Cancel(s.t.Context(), tenant, s.Run.ID) }
	refuse := func(s *verifySite) {
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusConflict})
	}
	for name, c := range map[string]struct {
		landed   bool
		then     func(*verifySite) // nil: nothing happens
		want     ledger.Outcome
		status   string
		flag     bool
		requests []string
	}{
		"not landed, cancelled": {false, cancel, ledger.Cancelled, "verified", false, nil},
		"not landed, refused":   {false, refuse, ledger.Refused, "verified", false, nil},
		"landed, refused, and reads are behind": {true, func(s *verifySite) {
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3,
				Wrong: func(d *sandbox.Domain) { d.Status = "verified" }})
			refuse(s)
		}, ledger.Done, "pending", false, []string{"GET", "PATCH", "GET", "GET", "GET", "PATCH", "GET"}},
		"landed, cancelled, and reads are behind": {true, func(s *verifySite) {
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3,
				Wrong: func(d *sandbox.Domain) { d.Status = "verified" }})
			cancel(s)
		}, ledger.Done, "pending", false, nil},
		"not landed, another client turns the flag on": {false, func(s *verifySite) {
			d := s.now(sandbox.Domain{ID: dom})
			d.Use = new(true)
			s.sandbox.SetDomain(org, d)
		}, ledger.Done, "pending", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPendingSite(t)
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: c.landed, DropBefore: !c.landed})
			s.step()
			if c.then != nil {
				c.then(s)
			}
			if r := s.wantResult(c.want, ""); c.want == ledger.Cancelled && (r.Detail == "" || len(s.writes()) != 1) {
				t.Errorf("result %+v, PATCHes %v", r, s.writes())
			} else if c.want == ledger.Done {
				s.wantBefore(r, "status verified, use_for_organization_discovery false")
			}
			if d := s.wantStatus(c.status); *d.Use != c.flag {
				t.Errorf("flag %t, want %t", *d.Use, c.flag)
			}
			if c.requests != nil {
				s.wantRequests(c.requests...)
			}
			s.wantApart(time.Minute)
		})
	}
}

// TestUpdateRows executes rows that need no PATCH.
func TestUpdateRows(t *testing.T) {
	for name, c := range map[string]struct {
		row  string
		want ledger.Outcome
	}{
		"verified":  {`{"organization_id":"org_1","discovery_domain_id":"dom_1","status":"verified"}`, ledger.Refused},
		"no change": {`{"organization_id":"org_1","discovery_domain_id":"dom_1"}`, ledger.InvalidRow},
		"no row":    {`[]`, ledger.InvalidRow},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpdateSite(t, "")
			s.SubmitAs("b", handlers.Update, c.row)
			s.wantResult(c.want, "")
			s.wantRequests()
		})
	}
}

// TestUpdateMembers changes the members that a row has, and no others: a status is sent with
// the flag as it was read.
func TestUpdateMembers(t *testing.T) {
	for name, c := range map[string]struct {
		member string
		status string
		flag   bool
	}{
		"status": {`"status":"pending"`, "pending", false},
		"flag":   {`"use_for_organization_discovery":true`, "verified", true},
		"both":   {`"status":"pending","use_for_organization_discovery":true`, "pending", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpdateSite(t, c.member)
			s.domain(sandbox.Domain{Status: "verified", Use: new(false)}, false)
			s.wantBefore(s.wantResult(ledger.Done, ""), "status verified, use_for_organization_discovery false")
			if d := s.wantStatus(c.status); d.Use == nil || *d.Use != c.flag {
				t.Errorf("domain %+v, want the flag %t", d, c.flag)
			}
		})
	}
}

// wantBefore checks the values that a row's result says it has replaced.
func (s *verifySite) wantBefore(r ledger.Result, want string) {
	s.t.Helper()
	e, err := evidence.Read(r.Evidence)
	if err != nil || e.Before == nil || e.Before.String() != want || e.At.IsZero() {
		s.t.Errorf("before: %v at %s, %v; want %s", e.Before, e.At, err, want)
	}
}

// TestUpdateBrake sets domains to pending while the tenant has had that many revocations. Only a
// verified one counts, and is refused beyond the most that may be.
func TestUpdateBrake(t *testing.T) {
	for name, c := range map[string]struct {
		member, status string
		max            int64 // of the run
		others         int   // revocations
		want           ledger.Outcome
		counted        int64
	}{
		"the last one":          {`"status":"pending"`, "verified", 3, 2, ledger.Done, 3},
		"one too many":          {`"status":"pending"`, "verified", 3, 3, ledger.Refused, 3},
		"the default":           {`"status":"pending"`, "verified", 0, 20, ledger.Refused, 20},
		"less than the default": {`"status":"pending"`, "verified", 0, 19, ledger.Done, 20},
		"pending already":       {`"status":"pending"`, "pending", 3, 3, ledger.Unchanged, 3},
		"the flag alone":        {`"use_for_organization_discovery":false`, "verified", 3, 3, ledger.Done, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpdateSite(t, c.member)
			s.Run.Max = c.max
			s.domain(sandbox.Domain{Status: c.status, Use: new(true)}, false)
			store := sweep.NewStore(s.Redis, string(tenant))
			for i := range c.others {
				if _, err := store.CountRevocation(t.Context(), fmt.Sprint(i), s.clock.now(), 100); err != nil {
					t.Fatal(err)
				}
			}
			if r := s.wantResult(c.want, ""); c.want == ledger.Refused {
				if !strings.HasPrefix(r.Detail, "not set to pending: ") {
					t.Errorf("refused: %s", r.Detail)
				}
				s.wantStatus(c.status)
				s.wantRequests("GET")
			}
			if n, err := store.Revocations(t.Context(), s.clock.now()); n != c.counted {
				t.Errorf("%d revocations counted, %v, want %d", n, err, c.counted)
			}
		})
	}
}

// TestUndo undoes changes of a run. A record that was changed since is left as it is, and is read
// twice, since the first read may be older than the change.
func TestUndo(t *testing.T) {
	const flag = `"orgops_undo":{"run":"a","use_for_organization_discovery":false},"use_for_organization_discovery":true`
	const status = `"orgops_undo":{"run":"a","status":"pending"}`
	const both = `"orgops_undo":{"run":"a","status":"pending","use_for_organization_discovery":false},` +
		`"use_for_organization_discovery":true`
	for name, c := range map[string]struct {
		kind      ledger.Kind
		members   string
		record    sandbox.Domain
		published bool
		want      ledger.Outcome
		status    string
		flag      bool
	}{
		"flag": {handlers.Update, flag, sandbox.Domain{Status: "verified", Use: new(false)}, false,
			ledger.Done, "verified", true},
		"flag, changed since": {handlers.Update, flag, sandbox.Domain{Status: "verified", Use: new(true)}, false,
			ledger.Unchanged, "verified", true},
		"status": {handlers.Verify, status, sandbox.Domain{Status: "pending", Use: new(false)}, true,
			ledger.Done, "verified", false},
		"status without a token": {handlers.Verify, status, sandbox.Domain{Status: "pending", Use: new(false)}, false,
			ledger.Expired, "pending", false},
		"both": {handlers.Verify, both, sandbox.Domain{Status: "pending", Use: new(false)}, true,
			ledger.Done, "verified", true},
		"both, the flag changed since": {handlers.Verify, both, sandbox.Domain{Status: "pending", Use: new(true)}, false,
			ledger.Unchanged, "pending", true},
		"both, verified since": {handlers.Verify, both, sandbox.Domain{Status: "verified", Use: new(false)}, true,
			ledger.Unchanged, "verified", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpdateSite(t, "")
			update := s.handlers
			s.handlers = func(cfg handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
				all := update(cfg)
				all[handlers.Verify] = handlers.NewVerify(cfg)
				return all
			}
			s.domain(c.record, c.published)
			s.SubmitAs("undo", c.kind, `{"organization_id":"org_1","discovery_domain_id":"`+dom+`",`+c.members+`}`)
			detail := ""
			if c.want == ledger.Unchanged {
				detail = "changed since run a"
			}
			s.wantResult(c.want, detail)
			if d := s.wantStatus(c.status); *d.Use != c.flag {
				t.Errorf("flag %t, want %t", *d.Use, c.flag)
			}
			if c.want == ledger.Unchanged {
				s.wantRequests("GET", "GET")
			}
		})
	}
}

// TestUndoAfterAnotherClientsChange has another client change the flag after a PATCH of an undo
// that was not carried out, and whose answer was lost. The record is no longer as the undone run
// has set it.
func TestUndoAfterAnotherClientsChange(t *testing.T) {
	s := newUpdateSite(t, "")
	s.handlers = func(cfg handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
		return map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(cfg)}
	}
	s.domain(sandbox.Domain{Status: "pending", Use: new(false)}, true)
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Match: func(sandbox.Request) bool {
		d := s.now(sandbox.Domain{ID: dom})
		d.Use = new(true)
		s.sandbox.SetDomain(org, d)
		return false
	}})
	s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropBefore: true})
	s.SubmitAs("undo", handlers.Verify, `{"organization_id":"org_1","discovery_domain_id":"`+dom+`",`+
		`"orgops_undo":{"run":"a","status":"pending","use_for_organization_discovery":false},`+
		`"use_for_organization_discovery":false}`)
	s.wantResult(ledger.Unchanged, "changed since run a")
	if d := s.wantStatus("pending"); !*d.Use {
		t.Error("discovery was turned off, which another client had turned on")
	}
	if sent := len(s.writes()); sent != 1 {
		t.Errorf("%d PATCHes, want 1: %v", sent, s.requests())
	}
}

// TestUpdateFlagIsFresh has a permit come long after the flag was read, which another client has
// changed meanwhile. The flag is read again, not sent as it was.
func TestUpdateFlagIsFresh(t *testing.T) {
	s := newPendingSite(t)
	permits := 0
	s.config.API = s.gated(func() {
		if permits++; permits == 2 { // that of the PATCH
			s.Pass(2 * time.Minute)
			d := s.now(sandbox.Domain{ID: dom})
			d.Use = new(true)
			s.sandbox.SetDomain(org, d)
		}
	})
	s.wantResult(ledger.Done, "")
	if d := s.wantStatus("pending"); !*d.Use {
		t.Error("discovery was turned off, which another client had turned on")
	}
	s.wantRequests("GET", "GET", "PATCH")
}

// TestUpdateNotFound has rows with wrong ids. One that needs the record is refused by a second
// read, and one whose PATCH had no answer by a read once that cannot land any more.
func TestUpdateNotFound(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		s := newUpdateSite(t, `"status":"pending"`)
		s.wantResult(ledger.Refused, "404 Not Found")
		s.wantTwoReads()
	})
	t.Run("answer lost", func(t *testing.T) {
		s := newUpdateSite(t, `"use_for_organization_discovery":true`)
		s.domain(sandbox.Domain{Use: new(false)}, false)
		s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropBefore: true})
		s.step()
		s.sandbox.RemoveDomain(org, dom)
		s.wantResult(ledger.Refused, "404 Not Found")
		s.wantRequests("GET", "PATCH", "GET", "GET")
	})
}

// TestStopWhileWaitingForPermit pauses or cancels the run while a row waits for its permit. No
// request is sent, and no attempt is counted.
func TestStopWhileWaitingForPermit(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			s := newUpdateSite(t, `"use_for_organization_discovery":false`)
			s.domain(sandbox.Domain{Use: new(true)}, false)
			s.config.API = s.gated(func() {
				s.Pass(staleAnswer)
				if err := stop(s.Ledger, t.Context(), tenant, s.Run.ID); err != nil {
					t.Error(err)
				}
			})
			s.step()
			row := s.Row(0)
			if row.Intent != nil || row.Checkpoint.Attempts != 0 || len(s.requests()) != 0 ||
				row.Result.Outcome != map[string]ledger.Outcome{"cancel": ledger.Cancelled}[name] {
				t.Errorf("requests %v, row %+v", s.requests(), row)
			}
		})
	}
}
