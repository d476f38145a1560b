package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestVerifyWaits checks that after a PATCH without an answer no execution sends another one
// until the first can no longer take effect.
func TestVerifyWaits(t *testing.T) {
	for _, f := range []sandbox.Fault{{DropBefore: true}, {Status: 503}, {Status: 408}} {
		t.Run(fmt.Sprint(f.Status), func(t *testing.T) {
			s, _ := newLostSite(t, f)
			if in := s.Row(0).Intent; in == nil {
				t.Error("the row has no intent")
			}
			s.wantResult(ledger.Done, "")
			if s.wantApart(time.Minute); len(s.writes()) != 2 {
				t.Errorf("PATCHes %v, want two", s.writes())
			}
		})
	}
}

// TestVerifyOwnAnswer has the answer to the PATCH name another domain, host or token than the
// proven ones. The PATCH is reverted, and the flag stays.
func TestVerifyOwnAnswer(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Domain){
		"token":                      func(d *sandbox.Domain) { d.TXT = "another" },
		"long token":                 func(d *sandbox.Domain) { d.TXT = strings.Repeat("y", 200) },
		"host":                       func(d *sandbox.Domain) { d.Host = "_ss-verification." + org + ".elsewhere.example" },
		"host below the domain":      func(d *sandbox.Domain) { d.Host = "_x." + d.Domain },
		"domain":                     func(d *sandbox.Domain) { d.Domain = "elsewhere.example" },
		"the domain's parent":        func(d *sandbox.Domain) { d.Domain = "acme.example" },
		"domain with host and token": func(d *sandbox.Domain) { d.Domain, d.Host, d.TXT = "e.example", "x.e.example", "y" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t, func(o *sandbox.Options) { o.FlagDefault = sandbox.FlagTrue })
			record := sandbox.Domain{Domain: "shop.acme.example", Use: new(false)}
			if name == "long token" { // it is compared by its hash
				record.TXT = strings.Repeat("x", 200)
			}
			s.domain(record, true)
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{Wrong: change})
			s.verify()
			s.wantResult(ledger.Refused, "no longer the one that was proven")
			if d := s.wantStatus("pending"); *d.Use {
				t.Error("the flag was changed")
			}
			s.wantRequests("GET", "PATCH", "PATCH")
			s.wantEvents()
		})
	}
}

// TestVerifyNotCarriedOut has the answer to the PATCH show another status or flag than was sent.
// The row is done once a read shows the result.
func TestVerifyNotCarriedOut(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Domain){
		"status": func(d *sandbox.Domain) { d.Status = "pending" },
		"flag":   func(d *sandbox.Domain) { d.Use = new(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			s.domain(sandbox.Domain{Use: new(false)}, true)
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{Wrong: change})
			s.verify()
			s.wantResult(ledger.Done, "")
			s.wantRequests("GET", "PATCH", "GET")
			s.wantEvents(events.DomainVerified)
		})
	}
}

// TestVerifyOwnRevertFails has the record get another token right before the PATCH, whose answer
// shows that, and the revert fail. The next executions revert, however late reads show the change.
func TestVerifyOwnRevertFails(t *testing.T) {
	for _, f := range []sandbox.Fault{{Status: 503}, {Status: 400}, {DropBefore: true}, {DropAfter: true}} {
		for _, lag := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute} {
			t.Run(fmt.Sprint(f.Status, f.DropBefore, f.DropAfter, lag), func(t *testing.T) {
				s := newVerifySite(t, func(o *sandbox.Options) { o.ReadLag = lag })
				d := s.domain(sandbox.Domain{Use: new(false)}, true)
				s.clock.advance(lag)
				f.Skip = 1
				s.fail(sandbox.OpUpdateDiscoveryDomain, f)
				s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Match: func(sandbox.Request) bool {
					if now, _ := s.sandbox.Domain(org, dom); now.TXT == d.TXT {
						now.TXT = "replaced"
						s.sandbox.SetDomain(org, now)
					}
					return false
				}})
				s.verify()
				s.wantResult(ledger.Refused, "no longer the one that was proven")
				if d := s.wantStatus("pending"); *d.Use {
					t.Error("the flag was changed")
				}
				s.wantEvents()
			})
		}
	}
}

// TestVerifyFencedReverts has an execution send its PATCH after it has lost the row, on a
// record that has changed: the answer shows the change, and the PATCH is reverted.
func TestVerifyFencedReverts(t *testing.T) {
	s := newVerifySite(t)
	var log strings.Builder
	s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d := s.domain(sandbox.Domain{Use: new(false)}, true)
	s.verify()
	task := s.NextTask()
	worker, session := s.worker()
	s.on = func(name string) {
		if name == "after intend" {
			s.on = func(string) {}
			s.takeBack(session)
			d.TXT = "replaced"
			s.sandbox.SetDomain(org, d)
			s.settle()
		}
	}
	_ = worker.ProcessTask(t.Context(), task)
	if r := s.Row(0).Result; r.Outcome != ledger.Refused {
		t.Errorf("result %+v", r)
	}
	s.wantStatus("pending")
	if !contains(log.String(), "level=ERROR") || !contains(log.String(), "was not proven") ||
		!contains(log.String(), "discovery_domain_id="+dom) {
		t.Errorf("log %s, want the revert in it", &log)
	}
	writes := s.writes()
	if n := len(writes); n < 2 || !contains(writes[n-2], `"verified"`) || !contains(writes[n-1], `"pending"`) {
		t.Errorf("PATCHes %v, want the last one reverted", writes)
	}
	s.wantEvents()
}

// TestVerifyFencedRevert has an execution lose the row while it waits for the permit of a
// revert that a stale read has caused. It does not send the revert.
func TestVerifyFencedRevert(t *testing.T) {
	s, _ := newLostSite(t, sandbox.Fault{DropAfter: true})
	s.fail(sandbox.OpGetDiscoveryDomain, sandbox.Fault{Wrong: func(d *sandbox.Domain) { d.TXT = "former token" }})
	s.clock.advance(time.Minute)
	task := s.NextTask()
	worker, session := s.worker()
	s.on = func(name string) {
		if name == "before PATCH" {
			s.on = func(string) {}
			s.takeBack(session)
			s.wantResult(ledger.Done, "")
		}
	}
	_ = worker.ProcessTask(t.Context(), task)
	s.wantStatus("verified")
	s.wantRequests("GET", "PATCH", "GET", "GET")
}

// TestVerifyStaleRead reads the record as it was, after a PATCH whose answer was lost.
func TestVerifyStaleRead(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Domain){
		"pending, as it was":              func(d *sandbox.Domain) { d.Status = "pending" },
		"pending, with the former token":  func(d *sandbox.Domain) { d.TXT, d.Status = "former token", "pending" },
		"verified, with the former token": func(d *sandbox.Domain) { d.TXT = "former token" },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newLostSite(t, sandbox.Fault{DropAfter: true})
			s.fail(sandbox.OpGetDiscoveryDomain, sandbox.Fault{Wrong: change})
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
		})
	}
}

// TestVerifyLostNotFound has a read find no record after a PATCH whose answer was lost. One that
// is found by the time at which the PATCH cannot land any more is done; else the row is refused.
func TestVerifyLostNotFound(t *testing.T) {
	for name, c := range map[string]struct {
		reads int
		want  ledger.Outcome
	}{"once": {1, ledger.Done}, "again": {2, ledger.Refused}} {
		t.Run(name, func(t *testing.T) {
			s, _ := newLostSite(t, sandbox.Fault{DropAfter: true})
			s.fail(sandbox.OpGetDiscoveryDomain, sandbox.Fault{Status: http.StatusNotFound, Count: c.reads})
			s.wantResult(c.want, "")
			s.wantRequests("GET", "PATCH", "GET", "GET")
		})
	}
}

// TestVerifyLostAndGone has a PATCH without an answer land before the token is removed, and
// reads that show the domain as pending for a while. The domain was proven: the row is done,
// and nothing is reverted or sent again.
func TestVerifyLostAndGone(t *testing.T) {
	for _, lag := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute} {
		t.Run(lag.String(), func(t *testing.T) {
			s, d := newLostSite(t, sandbox.Fault{DropAfter: true}, func(o *sandbox.Options) { o.ReadLag = lag })
			s.wantStatus("verified")
			s.sandbox.SetTXT(d.Host, "gone")
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
			if writes := s.writes(); len(writes) != 1 {
				t.Errorf("PATCHes %v, want one", writes)
			}
			s.wantEvents(events.DomainVerified)
		})
	}
}

// TestVerifyNotLandedAndGone has a PATCH without an answer not land, and the token removed. The
// row goes on like one that has sent nothing.
func TestVerifyNotLandedAndGone(t *testing.T) {
	s, d := newLostSite(t, sandbox.Fault{DropBefore: true})
	s.sandbox.SetTXT(d.Host, "gone")
	for s.Row(0).Intent != nil && s.Row(0).Phase != ledger.PhaseSettled {
		s.step()
	}
	// No PATCH is under way any more, so that the row waits for its token as one without.
	if row := s.Row(0); row.Phase != ledger.PhaseWaiting {
		t.Errorf("the row had its intent until it was %s", row.Phase)
	}
	s.wantResult(ledger.Expired, "gone")
	s.wantStatus("pending")
	if writes := s.writes(); len(writes) != 1 {
		t.Errorf("PATCHes %v, want one", writes)
	}
}

// TestVerifyNotLandedAndChanged has a PATCH without an answer not land, and the record get another
// host and token, which are published. The row was about the former ones.
func TestVerifyNotLandedAndChanged(t *testing.T) {
	s, d := newLostSite(t, sandbox.Fault{DropBefore: true})
	d.Host, d.TXT = "_another."+d.Domain, "another"
	s.sandbox.SetDomain(org, d)
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.wantResult(ledger.Refused, "it is pending")
	s.wantStatus("pending")
	if writes := s.writes(); len(writes) != 1 {
		t.Errorf("PATCHes %v, want one", writes)
	}
}

// TestVerifyKeepsChangesOfOthers has another client verify the domain, or set its flag, after a
// PATCH without an answer. Nothing that it did is changed, whatever DNS says by then.
func TestVerifyKeepsChangesOfOthers(t *testing.T) {
	silent := func(context.Context, string, string) (dnscheck.Verdict, error) {
		return dnscheck.Verdict{State: dnscheck.Unknown, Reason: "no server answered"}, nil
	}
	for name, c := range map[string]struct {
		fault  sandbox.Fault
		want   *bool // the row's flag
		silent bool  // DNS, once the other client has acted
	}{
		"landed":                         {fault: sandbox.Fault{DropAfter: true}},
		"landed, DNS silent":             {fault: sandbox.Fault{DropAfter: true}, silent: true},
		"landed, the row has a flag":     {fault: sandbox.Fault{DropAfter: true}, want: new(false)},
		"not landed":                     {fault: sandbox.Fault{DropBefore: true}},
		"not landed, DNS silent":         {fault: sandbox.Fault{DropBefore: true}, silent: true},
		"503, not landed, DNS silent":    {fault: sandbox.Fault{Status: 503}, silent: true},
		"not landed, the row has a flag": {fault: sandbox.Fault{DropBefore: true}, want: new(false)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(sandbox.Domain{Use: new(false)}, true)
			s.fail(sandbox.OpUpdateDiscoveryDomain, c.fault)
			s.verify(func(r *tasks.VerifyRow) { r.UseForOrganizationDiscovery = c.want })
			s.step()
			now := s.now(d)
			now.Status, now.Use = "verified", new(true)
			s.sandbox.SetDomain(org, now)
			if c.silent {
				s.config.DNS = proving{s.config.DNS, silent}
			}
			s.wantResult(ledger.Done, "left at true")
			if d := s.wantStatus("verified"); !*d.Use {
				t.Error("discovery was turned off, which another client had turned on")
			}
			if writes := s.writes(); len(writes) > 1 {
				t.Errorf("PATCHes %v, want the first alone", writes)
			}
			s.wantEvents(events.DomainVerified)
		})
	}
}

// TestVerifyFlagAfresh has another client turn the flag on after a PATCH without an answer that
// did not land. The next PATCH sends the flag as it is then.
func TestVerifyFlagAfresh(t *testing.T) {
	s, d := newLostSite(t, sandbox.Fault{DropBefore: true})
	now := s.now(d)
	now.Use = new(true)
	s.sandbox.SetDomain(org, now)
	s.wantResult(ledger.Done, "")
	if d := s.wantStatus("verified"); !*d.Use {
		t.Error("discovery was turned off, which another client had turned on")
	}
}

// TestVerifyLandsLate has a PATCH land after its client has given up waiting, on a record that
// has another token by then. However late reads show that, the domain is set back to pending.
func TestVerifyLandsLate(t *testing.T) {
	for _, lag := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute} {
		for _, stop := range []bool{false, true} {
			t.Run(fmt.Sprint(lag, " cancelled ", stop), func(t *testing.T) {
				s, d := newLostSite(t, sandbox.Fault{DropBefore: true}, func(o *sandbox.Options) { o.ReadLag = lag })
				s.step() // reads the record before the PATCH lands
				s.clock.advance(40 * time.Second)
				d.TXT, d.Status = "another", "verified"
				s.sandbox.SetDomain(org, d)
				if stop {
					if err := s.Cancel(t.Context(), tenant, s.Run.ID); err != nil {
						t.Fatal(err)
					}
				}
				s.wantResult(ledger.Refused, "no longer the one that was proven")
				if d := s.wantStatus("pending"); *d.Use {
					t.Error("the flag was changed")
				}
			})
		}
	}
}

// TestVerifyNeverSent checks that a refused PATCH counts as without effect: if another client
// verifies the domain meanwhile, that is not reverted.
func TestVerifyNeverSent(t *testing.T) {
	s, d := newLostSite(t, sandbox.Fault{Status: http.StatusForbidden,
		Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`})
	if row := s.Row(0); row.Intent != nil || row.Checkpoint.Stage != ledger.StageReady {
		t.Errorf("row %+v", row)
	}
	d.TXT, d.Status = "a new token", "verified"
	s.sandbox.SetDomain(org, d)
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.wantResult(ledger.Unchanged, "")
	s.wantStatus("verified")
}

// TestVerifyRefusedAfterLost refuses the PATCH after one without an answer. The row is open
// until a read shows the state of the domain.
func TestVerifyRefusedAfterLost(t *testing.T) {
	for name, landed := range map[string]bool{"landed": true, "not landed": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := newLostSite(t, sandbox.Fault{DropAfter: landed, DropBefore: !landed})
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain,
				Status: http.StatusBadRequest, Count: 2})
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Count: 2,
				Wrong: func(d *sandbox.Domain) { d.Status = "pending" }})
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
		})
	}
}

// TestVerifyReverts changes the record under a PATCH without an answer, and disturbs the reads
// and the revert that follow.
func TestVerifyReverts(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name   string
		change func(*sandbox.Domain)
	}{
		{"token", func(d *sandbox.Domain) { d.TXT = "another" }},
		{"host", func(d *sandbox.Domain) { d.Host = "_x." + d.Domain }},
		{"domain", func(d *sandbox.Domain) { d.Domain, d.Host = "other.example", "_x.other.example" }},
	}
	for n, c := range changes {
		for _, operation := range []string{sandbox.OpGetDiscoveryDomain, sandbox.OpUpdateDiscoveryDomain} {
			for _, code := range []int{0, 1, 400, 403, 404, 409, 302, 429, 500} {
				if code == 404 && operation == sandbox.OpGetDiscoveryDomain {
					continue // a record that is gone needs no revert
				}
				if n++; n%redistest.Stride(len(changes)) != 0 { // by default each code has one of the changes
					continue
				}
				t.Run(fmt.Sprint(c.name, " ", operation, " ", code), func(t *testing.T) {
					t.Parallel()
					s, _ := newLostSite(t, sandbox.Fault{DropAfter: true})
					d, _ := s.sandbox.Domain(org, dom)
					c.change(&d)
					s.sandbox.SetDomain(org, d)
					s.wantStatus("verified") // the danger
					if code > 0 {
						s.fail(operation, sandbox.Fault{Status: max(code, 2) * min(code-1, 1), DropAfter: code == 1})
					}
					s.wantResult(ledger.Refused, "")
					if d := s.wantStatus("pending"); *d.Use {
						t.Error("the flag was changed")
					}
				})
			}
		}
	}
}

// TestVerifyNotified repeats an execution whose event could not be notified: the record is
// read, and the PATCH is not sent again. It is reverted if the record has another token now.
func TestVerifyNotified(t *testing.T) {
	for name, changed := range map[string]bool{"same token": false, "another token": true} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(sandbox.Domain{Use: new(false)}, true)
			notify := s.config.Notify
			s.config.Notify = func(ctx context.Context, e events.Event, token string, evidence []byte) error {
				_ = notify(ctx, e, token, evidence)
				return asynq.ErrServerClosed
			}
			s.verify()
			s.step()
			s.config.Notify = notify
			if changed {
				d.TXT, d.Status = "another", "verified"
				s.sandbox.SetDomain(org, d)
				s.wantResult(ledger.Refused, "set back to pending")
				s.wantStatus("pending")
				return
			}
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
			s.wantEvents(events.DomainVerified)
			s.wantRequests("GET", "PATCH", "GET")
			if len(s.events) != 2 || !slices.Equal(s.events[0].evidence, s.events[1].evidence) {
				t.Errorf("events %+v", s.events)
			}
		})
	}
}
