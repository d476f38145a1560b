package handlers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestVerifyByName has rows with the domain's name in several forms, with and without an entry in
// the index of names, which may be that of another domain or of one that is gone.
func TestVerifyByName(t *testing.T) {
	lists := []string{"GET", "PATCH"}
	for _, test := range []struct {
		name, record, row, index string
		requests                 []string
	}{
		{"from the list", "acme.example", "acme.example", "", lists},
		{"case and dot", "Acme.Example", "ACME.example.", "", lists},
		{"Unicode", "xn--bcher-kva.example", "Bücher.example", "", lists},
		{"by the index", "acme.example", "acme.example", dom, lists},
		{"index of another domain", "acme.example", "acme.example", "ord_other", []string{"GET", "GET", "PATCH"}},
		{"index of a domain that is gone", "acme.example", "acme.example", "ord_gone", []string{"GET", "GET", "PATCH"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newVerifySite(t)
			s.domain(sandbox.Domain{Domain: test.record}, true)
			s.sandbox.AddDomain(org, sandbox.Domain{ID: "ord_other", Domain: "other.example"})
			s.config.Named = func(context.Context, string, string) string { return test.index }
			s.verify(named(test.row))
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
			s.wantRequests(test.requests...)
			s.wantEvents("domain.verified")
			if e := s.events[0]; e.Data.DiscoveryDomainID != dom || e.Data.OrganizationID != org {
				t.Errorf("event of %s of %s, want %s", e.Data.DiscoveryDomainID, e.Data.OrganizationID, dom)
			}
			if k, ok := s.knownDomain(); !ok || k.ID != dom || k.Status != schema.StatusVerified {
				t.Errorf("known is %+v", k)
			}
		})
	}
}

// TestVerifyByNameOfManyDomains finds a domain on the last page of a list.
func TestVerifyByNameOfManyDomains(t *testing.T) {
	s := newVerifySite(t)
	for i := range 250 {
		s.sandbox.AddOrganization(org, "one")
		s.sandbox.AddDomain(org, sandbox.Domain{ID: fmt.Sprintf("ord_a%d", i), Domain: fmt.Sprintf("d%d.example", i)})
	}
	s.domain(sandbox.Domain{Domain: "acme.example"}, true)
	s.verify(named("acme.example"))
	s.wantResult(ledger.Done, "")
	s.wantRequests("GET", "GET", "GET", "PATCH")
}

// TestVerifyByNameWaits has a token that comes later: the id that was found stays with the row.
func TestVerifyByNameWaits(t *testing.T) {
	s := newVerifySite(t)
	s.giveUp = time.Hour
	d := s.domain(sandbox.Domain{Domain: "acme.example"}, false)
	s.verify(named("acme.example"))
	s.step()
	if r := s.state().Record; r == nil || r.DiscoveryDomainID != dom {
		t.Fatalf("the row has the record %+v, want its id", r)
	}
	s.wantRequests("GET")
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.wantResult(ledger.Done, "")
	s.wantRequests("GET", "GET", "PATCH") // the list is not read again
	s.wantStatus("verified")
}

// TestVerifyByNameExpires has no token: the evidence names the id.
func TestVerifyByNameExpires(t *testing.T) {
	s := newVerifySite(t)
	s.giveUp = time.Minute
	s.domain(sandbox.Domain{Domain: "acme.example"}, false)
	s.verify(named("acme.example"))
	r := s.settle()
	e, err := evidence.Read(r.Evidence)
	if r.Outcome != ledger.Expired || err != nil || e.Record == nil || e.Record.DiscoveryDomainID != dom {
		t.Errorf("%s with evidence %+v, %v, want the id", r.Outcome, e.Record, err)
	}
}

// TestVerifyOtherName has rows whose name is not that of a record.
func TestVerifyOtherName(t *testing.T) {
	withName := func(name string) func(*tasks.VerifyRow) { return func(r *tasks.VerifyRow) { r.Domain = name } }
	for _, test := range []struct {
		name, record string
		row          func(*tasks.VerifyRow)
		says         string
	}{
		{"of the id", "acme.example", withName("other.example"),
			`the row names domain "other.example", but discovery domain "ord_1" is "acme.example"; nothing was changed`},
		{"a parent", "sub.acme.example", withName("acme.example"), `but discovery domain "ord_1" is "sub.acme.example"`},
		{"a homograph", "acme.example", named("аcme.example"), `has no domain "xn--cme-5cd.example": add it there`},
		{"none", "acme.example", named("acme.test"), `organization "org_1" has no domain "acme.test": add it there, or correct the row`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newVerifySite(t)
			s.domain(sandbox.Domain{Domain: test.record}, true)
			s.verify(test.row)
			s.wantResult(ledger.Refused, test.says)
			s.wantStatus("pending")
			s.wantRequests("GET", "GET") // a young record may be read as it was before a change
			s.wantEvents()
		})
	}
}

// TestVerifyByNameOfVerified has a domain that is verified: the reason names its id.
func TestVerifyByNameOfVerified(t *testing.T) {
	s := newVerifySite(t)
	s.domain(sandbox.Domain{Domain: "acme.example", Status: "verified"}, true)
	s.verify(named("acme.example"))
	s.wantResult(ledger.Unchanged, `was verified before (discovery domain "ord_1")`)
}

// TestVerifyByNameOfNoOrganization has an organization that does not exist.
func TestVerifyByNameOfNoOrganization(t *testing.T) {
	s := newVerifySite(t)
	s.verify(named("acme.example"))
	s.wantResult(ledger.Refused, "No organization found")
}
