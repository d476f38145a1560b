package handlers_test

import (
	"log/slog"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// TestSendVerified has each condition of status verified missing, one at a time. The function is
// called as no handler calls it: those that query DNS before have found most of it out then.
func TestSendVerified(t *testing.T) {
	const givenBack = "given back"
	proven := func(host, token string) dnscheck.Proof {
		v := dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Host: host}
		proof, _ := dnschecktest.Proven(v, token).Proof()
		return proof
	}
	for _, c := range []struct {
		name    string
		change  func(s *verifySite, sending *handlers.Sending)
		sent    bool
		outcome ledger.Outcome // of the row, or why it is open
	}{
		{"all is as it should be", func(*verifySite, *handlers.Sending) {}, true, ledger.Done},
		{"the record was read a minute ago", func(_ *verifySite, sending *handlers.Sending) {
			sending.Age = time.Minute + time.Second
		}, false, ledger.Paced},
		{"the record is a minute old with the permit", func(s *verifySite, _ *handlers.Sending) {
			s.config.API = s.gated(func() { s.Pass(time.Minute + time.Second) })
		}, false, ledger.Paced},
		{"no proof", func(_ *verifySite, sending *handlers.Sending) {
			sending.Proof = dnscheck.Proof{}
		}, false, ledger.Transient},
		{"no proof of an empty record", func(_ *verifySite, sending *handlers.Sending) {
			sending.Proof = dnscheck.Proof{}
			sending.Record.Host = ""
			sending.Record.TXT = ""
		}, false, ledger.Transient},
		{"a proof of another host", func(_ *verifySite, sending *handlers.Sending) {
			sending.Proof = proven("_other."+sending.Record.Host, sending.Record.TXT)
		}, false, ledger.Transient},
		{"a proof of another token", func(_ *verifySite, sending *handlers.Sending) {
			sending.Proof = proven(sending.Record.Host, "another")
		}, false, ledger.Transient},
		{"the record of another domain", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.ID = "ord_2"
		}, false, ledger.Transient},
		{"the row names another domain", func(_ *verifySite, sending *handlers.Sending) {
			sending.Row.Domain = "another.example"
		}, false, ledger.Refused},
		{"the row names another host", func(_ *verifySite, sending *handlers.Sending) {
			sending.Row.VerificationHost = "_other." + sending.Record.Name
		}, false, ledger.Refused},
		{"the row names another token", func(_ *verifySite, sending *handlers.Sending) {
			sending.Row.VerificationTXT = "another"
		}, false, ledger.Refused},
		{"the row names the record", func(_ *verifySite, sending *handlers.Sending) {
			sending.Row.Domain = sending.Record.Name
			sending.Row.VerificationHost = sending.Record.Host
			sending.Row.VerificationTXT = sending.Record.TXT
		}, true, ledger.Done},
		{"verified", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.Status = schema.StatusVerified
		}, false, ledger.Unchanged},
		{"a status that is not in the specification", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.Status = "suspended"
		}, true, ledger.Done},
		{"a host beside its domain", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.Host = "_v.another.example"
			sending.Proof = proven(sending.Record.Host, sending.Record.TXT)
		}, false, ledger.Refused},
		{"of a sweep, no flag", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.Flag = nil
			sending.BySweep = true
		}, false, ledger.Refused},
		{"of a sweep, the flag before", func(_ *verifySite, sending *handlers.Sending) {
			sending.Record.Flag = nil
			sending.Flag = new(false)
			sending.BySweep = true
		}, true, ledger.Done},
		{"the worker stops", func(s *verifySite, sending *handlers.Sending) {
			stopping := make(chan struct{})
			s.stopping = stopping
			sending.Before = func() { close(stopping) }
			s.config.API = s.gated(func() { s.t.Error("a permit was asked for") })
		}, false, givenBack},
		{"the run is paused while the request waits", func(s *verifySite, _ *handlers.Sending) {
			s.config.API = s.gated(func() {
				if err := s.Pause(s.t.Context(), tenant, s.Run.ID); err != nil {
					s.t.Error(err)
				}
			})
		}, false, givenBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(sandbox.Domain{Use: new(false)}, true)
			sending := handlers.Sending{
				Record: discovery.Domain{OrganizationID: org, ID: d.ID, Name: d.Domain, Status: schema.StatusPending,
					Flag: d.Use, Host: d.Host, TXT: d.TXT},
				Proof: proven(d.Host, d.TXT),
			}
			c.change(s, &sending)
			s.handlers = func(cfg handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
				cfg.Logger = slog.New(slog.DiscardHandler)
				return map[ledger.Kind]engine.Handler{handlers.Verify: handlers.SendVerified(cfg, org, dom, sending)}
			}
			s.verify()
			s.step()
			var want []string
			if c.sent {
				want = append(want, "PATCH")
			}
			s.wantRequests(want...)
			row := s.Row(0)
			got := row.Result.Outcome
			switch {
			case row.Checkpoint.Note != "":
				got = givenBack
			case row.Phase != ledger.PhaseSettled:
				got = ledger.ParseNote(row.Checkpoint.Memo).Outcome
			}
			if got != c.outcome {
				t.Errorf("the row has ended as %q, want %q: %+v", got, c.outcome, row)
			}
			if row.Phase != ledger.PhaseSettled && row.Intent != nil {
				t.Errorf("the row has an intent: %+v", row)
			}
		})
	}
}
