package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// diagnosing is a DNS whose diagnoses a test makes. next makes the one of the DNS.
type diagnosing struct {
	handlers.DNS
	diagnose func(next func() (report.Diagnosis, error)) (report.Diagnosis, error)
}

func (d diagnosing) Diagnose(ctx context.Context, host, domain, token string,
	v dnscheck.Verdict) (report.Diagnosis, error) {
	return d.diagnose(func() (report.Diagnosis, error) { return d.DNS.Diagnose(ctx, host, domain, token, v) })
}

// open returns an open row as people read it.
func (s *verifySite) open(number ledger.Row) evidence.Open {
	s.t.Helper()
	return evidence.ReadOpen(tasks.TypeVerify, s.Row(number))
}

// TestVerifyWrongRecord publishes records as people do by mistake, of which package dnscheck tests
// the others. A row names the mistake from its first check until it expires.
func TestVerifyWrongRecord(t *testing.T) {
	t.Parallel()
	const (
		token = "0123456789abcdef0123456789abcdef"
		host  = "_ss-verification.org_1.acme.com"
	)
	hostile := "\x1b]8;;https://evil.example\x07=cmd|'/c calc'!A1\u202e<img src=x onerror=alert(1)>[x](//evil) a@evil.example "
	for _, c := range []struct {
		name   string
		host   string // of the record; empty: the right one
		values []string
		alias  string // instead of values
		want   string
		found  string

		mistake report.Mistake
	}{
		{"nothing", "", nil, "", "There is no TXT record at HOST: the name does not exist.", "", ""},
		{"domain appended", host + ".acme.com", []string{token}, "", "The record is at HOST.acme.com; it must be at HOST. " +
			"The DNS provider appends the domain itself: enter _ss-verification.org_1 as the record's name there, " +
			"or the full name with a final dot.", "", report.MistakeDoubled},
		{"an alias into nowhere", "", nil, "verify.acme.example", "There is a CNAME record at HOST, which leads to FOUND, " +
			"and next to a CNAME no other record counts: delete it and add the TXT record, or add the TXT record at the name to which it leads.",
			`"verify.acme.example"`, report.MistakeAlias},
		{"hostile", "", []string{hostile + token}, "",
			"The value at HOST has the expected one and more in it (FOUND): enter the expected value alone.",
			`"\x1b]8;;https:/\x2fevil.example\a=cmd|'/c calc'!A1\u202e\x3cimg "...`, report.MistakeAlong},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			s.giveUp = time.Hour
			d := s.domain(sandbox.Domain{Domain: "acme.com", Host: host, TXT: token}, false)
			switch at := c.host; {
			case c.alias != "":
				s.sandbox.SetCNAME(host, c.alias)
			case at != "":
				s.sandbox.SetTXT(at, c.values...)
			case c.values != nil:
				s.sandbox.SetTXT(host, c.values...)
			}
			want := strings.NewReplacer("HOST", host, "FOUND", c.found).Replace(c.want)
			s.verify()
			s.step()
			open := s.open(0)
			if open.Advice != want {
				t.Errorf("open: %s\nwant: %s", open.Advice, want)
			}
			r := s.wantResult(ledger.Expired, want)
			if r.Detail != want || s.events[len(s.events)-1].Data.Reason != want {
				t.Errorf("expired: %s, event %+v\nwant: %s", r.Detail, s.events, want)
			}
			s.wantEvents(events.DomainExpired)
			if got := s.events[len(s.events)-1].Data.Mistake; got != string(c.mistake) {
				t.Errorf("the event names the mistake %q, want %q", got, c.mistake)
			}
			e, err := evidence.Read(r.Evidence)
			record := &evidence.Record{Domain: d.Domain, Host: host, TXT: token}
			if diff := cmp.Diff(record, e.Record); diff != "" || err != nil {
				t.Errorf("record of the expired row, %v (-want +got):\n%s", err, diff)
			}
			if found := ""; len(e.Findings) > 0 {
				if found = e.Findings[0].Found; found != c.found {
					t.Errorf("found %s, want %s", found, c.found)
				}
			} else if c.found != "" {
				t.Errorf("nothing found, want %s", c.found)
			}
			s.wantStatus("pending")
		})
	}
}

// TestVerifyDiagnoses checks when records are diagnosed, and that nothing depends on it.
func TestVerifyDiagnoses(t *testing.T) {
	t.Parallel()
	mislaid := func(s *verifySite, d sandbox.Domain) { s.sandbox.SetTXT(d.Domain, d.TXT) }
	count := func(s *verifySite) *int {
		n := new(int)
		s.config.DNS = diagnosing{s.config.DNS, func(next func() (report.Diagnosis, error)) (report.Diagnosis, error) {
			*n++
			return next()
		}}
		return n
	}
	t.Run("at ages that double, and before it expires", func(t *testing.T) {
		s := newVerifySite(t)
		s.giveUp = 24 * time.Hour
		s.domain(sandbox.Domain{}, false)
		n := count(s)
		s.verify()
		s.until(s.began.Add(10 * time.Minute))
		if *n != 1 {
			t.Errorf("%d diagnoses in 10 minutes, want 1", *n)
		}
		s.wantResult(ledger.Expired, "does not exist")
		if *n < 6 || *n > 8 { // at 0, 30 m, 1, 2, 4, 8, 16 and 24 h, some a check later
			t.Errorf("%d diagnoses in a day", *n)
		}
	})
	t.Run("mislaid later", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{}, false)
		s.verify()
		s.step()
		mislaid(s, d)
		s.until(s.began.Add(2 * time.Hour))
		if open := s.open(0); !contains(open.Advice, "The record is at "+d.Domain) {
			t.Error(open.Advice)
		}
	})
	t.Run("at once after the answer changed", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{}, false)
		s.verify()
		for _, zone := range []struct {
			value, want string
		}{{`"` + d.TXT + `"`, "quotation marks"}, {d.TXT[:20], "only a part"}, {"another", "holds another value"}} {
			s.sandbox.SetTXT(d.Host, zone.value)
			s.step()
			if open := s.open(0); !contains(open.Advice, zone.want) {
				t.Errorf("%s; want %s", open.Advice, zone.want)
			}
		}
		s.sandbox.SetTXT(d.Host, d.TXT)
		s.wantResult(ledger.Done, "")
	})
	t.Run("kept while servers do not answer", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{}, false)
		mislaid(s, d)
		n := count(s)
		s.verify()
		s.step()
		s.sandbox.SetRCode(d.Host, 2, -1)
		s.step()
		if open := s.open(0); !contains(open.Advice, "SERVFAIL") {
			t.Error(open.Advice)
		}
		s.sandbox.SetRCode(d.Host, 0, 0)
		s.step()
		if open := s.open(0); !contains(open.Advice, "The record is at "+d.Domain) || *n != 1 {
			t.Errorf("%s, after %d diagnoses", open.Advice, *n)
		}
	})
	t.Run("what the resolvers see, from an hour on", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{}, false)
		s.sandbox.SetRCode(d.Host, 2, -1)
		n := 0
		s.config.DNS = diagnosing{s.config.DNS, func(func() (report.Diagnosis, error)) (report.Diagnosis, error) {
			n++
			return report.Diagnosis{ResolversSee: "two of three see it"}, nil
		}}
		s.verify()
		s.until(s.began.Add(20 * time.Minute))
		if e := s.state().Evidence; n != 0 || e.ResolversSee != "" {
			t.Errorf("%d diagnoses in 20 minutes, %q", n, e.ResolversSee)
		}
		s.until(s.began.Add(3 * time.Hour))
		if e := s.state().Evidence; n != 2 || e.ResolversSee != "two of three see it" || e.State != "unknown" {
			t.Errorf("%d diagnoses in three hours, %q, %s; want 2", n, e.ResolversSee, e.State)
		}
	})
	t.Run("listed by a scan", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{}, false)
		mislaid(s, d)
		s.verify(func(r *tasks.VerifyRow) {
			r.Listed = &tasks.ListedRecord{At: s.clock.now(), ScannedRecord: tasks.ScannedRecord{
				Domain: d.Domain, Status: "pending", VerificationHost: d.Host, VerificationTXT: d.TXT}}
		})
		s.step()
		open := s.open(0)
		if !contains(open.Advice, "it must be at "+d.Host) || s.state().Record != nil || open.Record == nil {
			t.Errorf("%+v, state %+v", open, s.state())
		}
	})
	t.Run("its failure leaves the row as it was", func(t *testing.T) {
		for name, result := range map[string]struct {
			found report.Diagnosis
			err   error
		}{"error": {err: errors.New("failed")}, "no answers": {found: report.Diagnosis{Unanswered: []string{"acme.com"}}}} {
			t.Run(name, func(t *testing.T) {
				s := newVerifySite(t)
				s.giveUp = time.Hour
				d := s.domain(sandbox.Domain{}, false)
				mislaid(s, d)
				s.verify()
				s.step()
				s.config.DNS = diagnosing{s.config.DNS, func(func() (report.Diagnosis, error)) (report.Diagnosis, error) {
					return result.found, result.err
				}}
				s.wantResult(ledger.Expired, "The record is at "+d.Domain)
			})
		}
	})
	t.Run("without a place", func(t *testing.T) {
		s := newVerifySite(t)
		var rows []string
		for _, id := range []string{"ord_1", "ord_2"} {
			d := s.sandbox.AddDomain(org, sandbox.Domain{ID: id})
			mislaid(s, d)
			rows = append(rows, fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":%q}`, org, id))
		}
		s.config.Places = handlers.NewPlaces(2, 1)
		s.Submit(handlers.Verify, rows...)
		r, err := s.Release(t.Context(), s.Segment(), ledger.Quota{First: 2})
		if err != nil || len(r.Rows) != 2 {
			t.Fatal(r.Rows, err)
		}
		execute := func(i int) {
			worker, _ := s.worker()
			_ = worker.ProcessTask(t.Context(), s.Message(engine.NewTask(s.Run, s.Segment(), r.Token, r.Rows[i])))
		}
		diagnoses := 0
		s.config.DNS = diagnosing{s.config.DNS, func(next func() (report.Diagnosis, error)) (report.Diagnosis, error) {
			if diagnoses++; diagnoses == 1 { // the second row is checked meanwhile
				execute(1)
			}
			return next()
		}}
		execute(0)
		for row, want := range map[ledger.Row]string{0: "The record is at ", 1: "does not exist"} {
			if open := s.open(row); !contains(open.Advice, want) || diagnoses != 1 {
				t.Errorf("row %d: %s, after %d diagnoses", row, open.Advice, diagnoses)
			}
		}
	})
}
