package handlers_test

import (
	"encoding/json"
	"testing"

	"github.com/miekg/dns"

	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// TestRead has rows that only read: each settles at its first answers, and changes nothing.
func TestRead(t *testing.T) {
	id := tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom}
	name := tasks.VerifyRow{OrganizationID: org, Domain: "acme.example"}
	one, pending := []string{"GET"}, sandbox.Domain{Domain: "acme.example"}
	verified := sandbox.Domain{Domain: "acme.example", Status: "verified"}
	before := "was verified before"
	other := tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom, Domain: "acme.test"}
	noID := tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: "ord_2"}
	noName := tasks.VerifyRow{OrganizationID: org, Domain: "acme.test"}
	for _, test := range []struct {
		name     string
		domain   sandbox.Domain
		token    bool
		change   func(s *verifySite, d sandbox.Domain)
		row      tasks.VerifyRow
		state    string
		detail   string
		requests []string
	}{
		{"verified", verified, false, nil, id, "verified", before, one},
		{"verified, by name", verified, false, nil, name, "verified", dom, one},
		{"token present", pending, true, nil, id, "present", "pending: ", one},
		{"token present, by name", pending, true, nil, name, "present", "pending: ", one},
		{"token absent", pending, false, nil, id, "absent", "pending: ", one},
		{"no answer", pending, true, func(s *verifySite, d sandbox.Domain) {
			s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1)
		}, id, "unknown", "pending: ", one},
		{"no such id", pending, true, nil, noID, "not found", "404", one},
		{"no such name", pending, true, nil, noName, "not found", "acme.test", one},
		{"another name", pending, true, nil, other, "refused", "the row names domain", one},
		{"no place at first", pending, true, func(s *verifySite, _ sandbox.Domain) {
			s.config.Places = handlers.NewPlaces(0, 0)
		}, id, "present", "pending: ", one},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(test.domain, test.token)
			if test.change != nil {
				test.change(s, d)
			}
			s.handlers = func(cfg handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
				s.config.Places = nil // from the second execution on
				return map[ledger.Kind]engine.Handler{handlers.Read: handlers.NewRead(cfg)}
			}
			content, err := json.Marshal(test.row)
			if err != nil {
				t.Fatal(err)
			}
			s.Submit(handlers.Read, string(content))
			result := s.settle()
			if state := handlers.ReadState(result); state != test.state || !contains(result.Detail, test.detail) {
				t.Errorf("%s: %s: %s, want %s: %s", state, result.Outcome, result.Detail, test.state, test.detail)
			}
			s.wantRequests(test.requests...)
			s.wantStatus(d.Status)
			s.wantEvents()
			if k, ok := s.knownDomain(); ok {
				t.Errorf("the index of names has %+v of a row that changes nothing", k)
			}
			if result.Evidence == nil {
				return
			}
			if e, err := evidence.Read(result.Evidence); err != nil || e.Record == nil || e.Record.TXT != d.TXT {
				t.Errorf("evidence %+v, %v; want the record", e, err)
			}
		})
	}
}
