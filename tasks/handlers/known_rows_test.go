package handlers_test

import (
	"errors"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// known returns the entry of the row's domain in the index of names.
func (s *site) knownDomain() (index.Entry, bool) {
	s.t.Helper()
	subject, err := s.Subject(s.t.Context(), s.Run.Tenant, dom)
	if errors.Is(err, ledger.ErrNotFound) {
		return index.Entry{}, false
	}
	k, bad := index.Read(subject)
	if err != nil || bad != nil {
		s.t.Fatal(err, bad)
	}
	return k, true
}

// wantKnown compares the entry of a domain, apart from times. The run has one row.
func (s *site) wantKnown(run ledger.RunID, d sandbox.Domain, status schema.DomainStatus,
	state string) (k index.Entry) {
	s.t.Helper()
	k, _ = s.knownDomain()
	want := index.Entry{Domain: discovery.Domain{OrganizationID: org, ID: dom, Name: d.Domain, Host: d.Host, TXT: d.TXT,
		Status: status}, State: state,
		Read: k.Read, At: k.At, Next: k.Next, Run: run}
	if k != want {
		s.t.Errorf("known is %+v, want %+v", k, want)
	}
	return k
}

// TestKnownOfVerify has a row wait, and verify its domain.
func TestKnownOfVerify(t *testing.T) {
	s := newVerifySite(t)
	d := s.domain(sandbox.Domain{Domain: "known.example"}, false)
	s.verify()
	s.step()
	first := s.wantKnown("a", d, schema.StatusPending, "absent")
	if wait := first.Next.Sub(first.At); wait < 5*time.Second || wait > time.Minute || first.Read.IsZero() {
		t.Errorf("known is %+v, want the next check within a minute", first)
	}
	s.step() // by the stored record: the record is not read
	if k := s.wantKnown("a", d, schema.StatusPending, "absent"); !k.At.After(first.At) ||
		k.Read.After(k.At.Add(-time.Second)) {
		t.Errorf("after another check known is %+v, after the first it was %+v", k, first)
	}
	s.sandbox.SetTXT(d.Host, d.TXT)
	for s.step() {
	}
	if k := s.wantKnown("a", d, schema.StatusVerified, "present"); !k.Next.IsZero() {
		t.Errorf("a row that is done is checked next at %s", k.Next)
	}
}

// TestKnownOfSweeps has sweeps find a domain absent, then present.
func TestKnownOfSweeps(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	d := s.verified(new(true))
	s.days(1)
	s.wantKnown("run1", d, schema.StatusVerified, "absent")
	s.publish()
	s.days(1)
	s.wantKnown("run2", d, schema.StatusVerified, "present")
}

// TestKnownOfRevocation has a lost domain set to pending.
func TestKnownOfRevocation(t *testing.T) {
	s := newSweepSite(t, sweep.SetPending)
	d := s.revoked(new(true))
	s.wantKnown("run1", d, schema.StatusPending, "")
}
