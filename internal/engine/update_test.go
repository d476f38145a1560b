package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// lose has the tenant lose the answer to the next PATCH, which is carried out or not.
func (s *site) lose(carriedOut bool) {
	f := sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Count: 1, DropAfter: carriedOut,
		DropBefore: !carriedOut}
	s.sandbox.AddFault(f)
}

// TestLostPatch loses the answer to a PATCH. A read finds out whether it has landed; if
// not, the next PATCH waits for twice the request timeout.
func TestLostPatch(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"landed": true, "not landed": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			d := s.update()
			s.lose(landed)
			e, _ := s.worker()
			s.drain(e)
			if got, _ := s.sandbox.Domain(org, d.ID); got.Status != "pending" {
				t.Errorf("status %s", got.Status)
			}
			var patches []time.Time
			for _, r := range s.sandbox.Requests() {
				if r.Method == http.MethodPatch {
					patches = append(patches, r.At)
				}
			}
			if want := 1; landed && len(patches) != want {
				t.Errorf("%d PATCHes, want %d", len(patches), want)
			}
			if !landed && (len(patches) != 2 || patches[1].Sub(patches[0]) < 2*requestTimeout) {
				t.Errorf("PATCHes at %v", patches)
			}
		})
	}
}

// TestCancelDuringPatch cancels the run while a PATCH has no answer. Its result is read, and
// no other request is sent.
func TestCancelDuringPatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		landed bool
		want   ledger.Outcome
	}{"landed": {true, ledger.Done}, "not landed": {false, ledger.Cancelled}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.update()
			s.lose(c.landed)
			e, _ := s.worker()
			_ = e.ProcessTask(t.Context(), s.release())
			if err := s.Cancel(t.Context(), tenant, s.run.ID); err != nil {
				t.Fatal(err)
			}
			s.drain(e)
			row := s.row(0)
			if row.Result.Outcome != c.want || c.want == ledger.Cancelled && row.Result.Detail == "" {
				t.Errorf("row %+v", row)
			}
			if n := count(s.requests(), http.MethodPatch); n != 1 {
				t.Errorf("%d PATCHes", n)
			}
		})
	}
}

// TestPauseDuringPatch pauses the run while a PATCH has no answer. No PATCH is sent until the
// run is resumed.
func TestPauseDuringPatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.update()
	s.lose(false)
	e, _ := s.worker()
	_ = e.ProcessTask(t.Context(), s.release())
	if err := s.Pause(t.Context(), tenant, s.run.ID); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); s.row(0).Intent != nil && time.Now().Before(end); {
		if task := s.release(); task != nil {
			_ = e.ProcessTask(t.Context(), task)
		} else {
			s.rest()
		}
	}
	if row, n := s.row(0), count(s.requests(), http.MethodPatch); row.Phase != ledger.PhaseWaiting ||
		row.Intent != nil || n != 1 {
		t.Errorf("%d PATCHes, row %+v", n, row)
	}
	if err := s.Resume(t.Context(), tenant, s.run.ID); err != nil {
		t.Fatal(err)
	}
	s.drain(e)
	if row := s.row(0); row.Result.Outcome != ledger.Done {
		t.Errorf("row %+v", row)
	}
}

// TestRefusedAfterLostPatch has the tenant refuse the PATCH after one whose answer was
// lost: the record shows whether the first has landed.
func TestRefusedAfterLostPatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.update()
	s.lose(false)
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusConflict})
	e, _ := s.worker()
	s.drain(e)
	if row := s.row(0); row.Result.Outcome != engine.Refused {
		t.Errorf("row %+v", row)
	}
	if reads := count(s.requests(), http.MethodGet); reads < 3 {
		t.Errorf("requests %v", s.requests())
	}
}

// TestUpdateRows executes rows that need no PATCH.
func TestUpdateRows(t *testing.T) {
	for name, c := range map[string]struct {
		row  string
		want ledger.Outcome
	}{
		"verified":  {`{"organization_id":"org_1","discovery_domain_id":"dom_1","status":"verified"}`, engine.Refused},
		"no change": {`{"organization_id":"org_1","discovery_domain_id":"dom_1"}`, engine.InvalidRow},
		"no row":    {`[]`, engine.InvalidRow},
		"no such domain": {`{"organization_id":"org_1","discovery_domain_id":"dom_1","use_for_organization_discovery":true}`,
			engine.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.submit(handlers.Update, c.row)
			e, _ := s.worker()
			_ = e.ProcessTask(t.Context(), s.release())
			if row := s.row(0); row.Result.Outcome != c.want {
				t.Errorf("row %+v", row)
			}
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
			s := newSite(t)
			d := s.sandbox.AddDomain(org, sandbox.Domain{Status: "verified", Use: new(false)})
			s.submit(handlers.Update, fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":%q,%s}`, org, d.ID, c.member))
			e, _ := s.worker()
			s.drain(e)
			if row := s.row(0); row.Result.Outcome != ledger.Done {
				t.Errorf("row %+v", row)
			}
			if got, _ := s.sandbox.Domain(org, d.ID); got.Status != c.status || got.Use == nil || *got.Use != c.flag {
				t.Errorf("domain %+v, want status %s and flag %t", got, c.status, c.flag)
			}
		})
	}
}

// TestUpdateFlagIsFresh has a permit come long after the flag was read, which another client has
// changed meanwhile. The flag is read again, not sent as it was.
func TestUpdateFlagIsFresh(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.update()
	var e *engine.Engine
	permits := 0
	client, err := apiclient.New(apiclient.Config{
		BaseURL: s.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token())),
		Gate: slowGate{func() {
			if permits++; permits == 2 { // that of the PATCH
				e.Pass(2 * time.Minute)
				d.Use = new(true)
				s.sandbox.SetDomain(org, d)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	e, _ = s.worker(func(c *engine.Config) { c.Handlers[handlers.Update] = s.updates(client) })
	s.drain(e)
	if got, _ := s.sandbox.Domain(org, d.ID); got.Status != "pending" || !*got.Use {
		t.Errorf("status %s, flag %t: want pending, and the flag of the other client", got.Status, *got.Use)
	}
	if row, reads := s.row(0), count(s.requests(), http.MethodGet); row.Result.Outcome != ledger.Done || reads != 2 {
		t.Errorf("%d reads, row %+v", reads, row)
	}
}

// TestUpdateFlagAfresh has another client turn the flag on after a PATCH without an answer that did
// not land. The next PATCH sends the flag as it is then.
func TestUpdateFlagAfresh(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.update()
	s.lose(false)
	e, _ := s.worker()
	_ = e.ProcessTask(t.Context(), s.release())
	d.Use = new(true)
	s.sandbox.SetDomain(org, d)
	s.drain(e)
	if got, _ := s.sandbox.Domain(org, d.ID); got.Status != "pending" || !*got.Use {
		t.Errorf("status %s, flag %t: want pending, and the flag of the other client", got.Status, *got.Use)
	}
	if row := s.row(0); row.Result.Outcome != ledger.Done {
		t.Errorf("row %+v", row)
	}
}

// newUpdateSite returns a site with one row about a domain, on a clock that waits for nothing.
func newUpdateSite(t *testing.T, member string) *verifySite {
	s := newVerifySite(t)
	s.sandbox.AddOrganization(org, "one")
	s.handlers = func(c handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
		update := handlers.NewUpdate(handlers.UpdateConfig{API: c.API, RequestTimeout: c.RequestTimeout})
		return map[ledger.Kind]engine.Handler{handlers.Update: update}
	}
	s.began = s.clock.now()
	s.submit(handlers.Update, `{"organization_id":"org_1","discovery_domain_id":"`+dom+`",`+member+`}`)
	return s
}

// TestUpdateStaleRead has a PATCH without an answer land, reads show the record as it was, and the
// next PATCH refused. The row waits for a read that shows the result.
func TestUpdateStaleRead(t *testing.T) {
	s := newUpdateSite(t, `"status":"pending"`)
	s.domain(sandbox.Domain{Status: "verified", Use: new(false)}, false)
	s.lose(true)
	s.step()
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusBadRequest})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 3,
		Wrong: func(d *sandbox.Domain) { d.Status = "verified" }})
	s.wantResult(ledger.Done, "")
	s.wantRequests("GET", "PATCH", "GET", "GET", "GET", "PATCH", "GET")
}

// TestUpdateNotFound has rows with wrong ids. One that needs the record is refused by a second
// read, and one whose PATCH had no answer by a read once that cannot land any more.
func TestUpdateNotFound(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		s := newUpdateSite(t, `"status":"pending"`)
		s.wantResult(engine.Refused, "404 Not Found")
		s.wantTwoReads()
	})
	t.Run("answer lost", func(t *testing.T) {
		s := newUpdateSite(t, `"use_for_organization_discovery":true`)
		s.lose(false)
		s.wantResult(engine.Refused, "404 Not Found")
		s.wantRequests("PATCH", "GET", "GET")
	})
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// slowGate grants a permit after something has happened.
type slowGate struct{ meanwhile func() }

func (g slowGate) Wait(context.Context, string) error {
	g.meanwhile()
	return nil
}

func (slowGate) Answered(context.Context, string, int, http.Header) {}

// TestStopWhileWaitingForPermit pauses or cancels the run while a row waits for its permit. No
// request is sent, and no attempt is counted.
func TestStopWhileWaitingForPermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error
		want ledger.Phase
	}{"pause": {(*ledger.Ledger).Pause, ledger.PhaseWaiting}, "cancel": {(*ledger.Ledger).Cancel, ledger.PhaseSettled}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			d := s.sandbox.AddDomain(org, sandbox.Domain{Use: new(true)})
			s.submit(handlers.Update, `{"organization_id":"org_1","discovery_domain_id":"`+d.ID+
				`","use_for_organization_discovery":false}`)
			var e *engine.Engine
			client, err := apiclient.New(apiclient.Config{
				BaseURL: s.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token())),
				Gate: slowGate{func() {
					e.Pass(staleAnswer)
					if err := c.stop(s.Ledger, t.Context(), tenant, s.run.ID); err != nil {
						t.Error(err)
					}
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.CloseIdle)
			e, _ = s.worker(func(c *engine.Config) { c.Handlers[handlers.Update] = s.updates(client) })
			_ = e.ProcessTask(t.Context(), s.release())
			row := s.row(0)
			if row.Phase != c.want || row.Intent != nil || row.Checkpoint.Attempts != 0 || len(s.requests()) != 0 {
				t.Errorf("requests %v, row %+v", s.requests(), row)
			}
			if c.want == ledger.PhaseSettled && row.Result.Outcome != ledger.Cancelled {
				t.Errorf("row %+v", row)
			}
		})
	}
}
