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

	"github.com/miekg/dns"

	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// listed sets the record of the submitted row to the one that a listing returned that long
// ago.
func (s *verifySite) listed(ago time.Duration) func(*tasks.VerifyRow) {
	d, _ := s.sandbox.Domain(org, dom)
	return func(r *tasks.VerifyRow) {
		r.Listed = &tasks.ListedRecord{At: s.clock.now().Add(-ago), ScannedRecord: tasks.ScannedRecord{
			Domain: d.Domain, Status: schema.DomainStatus(d.Status), UseForOrganizationDiscovery: d.Use,
			VerificationHost: d.Host, VerificationTXT: d.TXT,
		}}
	}
}

// TestVerifyRequests counts the requests of a row.
func TestVerifyRequests(t *testing.T) {
	for _, c := range []struct {
		name      string
		published bool // at the first check
		listed    time.Duration
		line      time.Duration
		want      []string
	}{
		{"the token is there at the first check", true, 0, 0, []string{"GET", "PATCH"}},
		{"the token comes later", false, 0, 0, []string{"GET", "GET", "PATCH"}},
		{"listed a moment ago", true, time.Second, 0, []string{"PATCH"}},
		{"listed a while ago", true, 61 * time.Second, 0, []string{"GET", "PATCH"}},
		{"listed by a clock that was ahead", true, -time.Minute, 0, []string{"GET", "PATCH"}},
		{"listed, and the token comes later", false, time.Second, 0, []string{"GET", "PATCH"}},
		{"permits take a moment", true, 0, 1999 * time.Millisecond, []string{"GET", "PATCH"}},
		{"permits take long", true, 0, 2 * time.Second, []string{"GET", "GET", "PATCH"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(sandbox.Domain{Use: new(false)}, c.published)
			s.line = line(c.line)
			if c.listed != 0 {
				s.verify(s.listed(c.listed))
			} else {
				s.verify()
			}
			s.step()
			if !c.published {
				for range 5 {
					s.step()
				}
				s.sandbox.SetTXT(d.Host, d.TXT)
			}
			r := s.wantResult(ledger.Done, "")
			s.wantRequests(c.want...)
			if d := s.wantStatus("verified"); *d.Use {
				t.Error("the flag was changed")
			}
			e, err := evidence.Read(r.Evidence)
			if err != nil || e.State != "present" || e.Compared == nil || e.Compared.TXT != d.TXT || len(e.Said) != 3 {
				t.Errorf("evidence %+v, %v", e, err)
			}
			s.wantEvents(events.DomainVerified)
		})
	}
}

// TestVerifyReady leaves a row at stage ready while permits take long, without a record
// that it would prove against.
func TestVerifyReady(t *testing.T) {
	s := newVerifySite(t)
	d := s.domain(sandbox.Domain{}, true)
	s.line = line(2 * time.Second)
	s.verify()
	s.step()
	if row := s.Row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Stage != ledger.StageReady ||
		row.Checkpoint.Attempts != 0 || s.timed.after != 0 {
		t.Errorf("row %+v, due after %v", row, s.timed.after)
	}
	s.wantRequests("GET")
	d.TXT = "renewed"
	s.sandbox.SetDomain(org, d)
	s.step()
	if row := s.Row(0); row.Checkpoint.Stage != ledger.StageCheck || len(s.writes()) != 0 {
		t.Errorf("row %+v, writes %v: want the new token not proven", row, s.writes())
	}
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.wantResult(ledger.Done, "")
}

// TestVerifyReadyWithoutRead leaves a row at stage ready whose token is there and whose
// record cannot be read again for now.
func TestVerifyReadyWithoutRead(t *testing.T) {
	s := newVerifySite(t)
	d := s.domain(sandbox.Domain{}, false)
	s.verify()
	s.step()
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.fail(sandbox.OpGetDiscoveryDomain, sandbox.Fault{Status: http.StatusTooManyRequests})
	s.step()
	if row := s.Row(0); row.Checkpoint.Stage != ledger.StageReady || row.Checkpoint.Attempts != 0 {
		t.Errorf("row %+v", row)
	}
	s.wantResult(ledger.Done, "")
	s.wantRequests("GET", "GET", "GET", "PATCH")
}

// TestVerifyStaleRecord has a permit granted when the record is a minute old. The record is
// read again, and no intent is left.
func TestVerifyStaleRecord(t *testing.T) {
	t.Parallel()
	s := newVerifySite(t)
	s.domain(sandbox.Domain{}, true)
	wait := time.Minute
	s.config.API = s.gated(func() { s.Pass(wait) })
	s.verify(s.listed(time.Second))
	s.step()
	if row := s.Row(0); row.Intent != nil || row.Checkpoint.Stage != ledger.StageReady || row.Checkpoint.Attempts != 0 ||
		len(s.requests()) != 0 {
		t.Errorf("requests %v, row %+v", s.requests(), row)
	}
	s.clock.advance(wait)
	wait = 0
	s.wantResult(ledger.Done, "")
	s.wantRequests("GET", "PATCH")
}

// TestVerifyFlag sends the flag as it was read, or as the row brings it.
func TestVerifyFlag(t *testing.T) {
	for _, c := range []struct {
		name    string
		reading sandbox.FlagReading
		old     bool // the record omits the flag
		flag    *bool
		row     *bool
		want    bool
	}{
		{"false, server keeps", sandbox.KeepFlag, false, new(false), nil, false},
		{"false, server sets true", sandbox.FlagTrue, false, new(false), nil, false},
		{"true, server sets true", sandbox.FlagTrue, false, new(true), nil, true},
		{"false, omitted, server keeps", sandbox.KeepFlag, true, new(false), nil, false},
		{"false, omitted, row says false, server sets true", sandbox.FlagTrue, true, new(false), new(false), false},
		{"false, row says true", sandbox.KeepFlag, false, new(false), new(true), true},
		{"true, row says false", sandbox.FlagTrue, false, new(true), new(false), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t, func(o *sandbox.Options) { o.FlagDefault, o.OldRecords = c.reading, c.old })
			s.domain(sandbox.Domain{Use: c.flag}, true)
			s.verify(func(r *tasks.VerifyRow) { r.UseForOrganizationDiscovery = c.row })
			s.wantResult(ledger.Done, "")
			if d := s.wantStatus("verified"); *d.Use != c.want {
				t.Errorf("flag %t, want %t", *d.Use, c.want)
			}
		})
	}
}

// TestVerifyRefuses records and rows that cannot be proven: without a PATCH, and without a
// query about a host that proves nothing. Package dnscheck tests the other names.
func TestVerifyRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		domain sandbox.Domain
		claim  [2]string // host and token
		detail string
		young  bool // refused by a second read only
	}{
		{name: "a host outside the domain", domain: sandbox.Domain{Domain: "shop.example", Host: "_ss.elsewhere.example"},
			detail: "not below its domain"},
		{name: "a public suffix", domain: sandbox.Domain{Domain: "co.uk", Host: "_ss.co.uk"}, detail: "is a public suffix"},
		{name: "a name without public DNS", domain: sandbox.Domain{Domain: "shop.invalid", Host: "_ss.shop.example"},
			detail: "public DNS does not serve"},
		{name: "another token", claim: [2]string{"", "mine"}, detail: "verification_txt", young: true},
		{name: "another host", claim: [2]string{"_ss.mine.example", ""}, detail: "verification_host", young: true},
		{name: "both", claim: [2]string{"_ss.mine.example", "mine"}, detail: "verification_txt", young: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			d := s.domain(c.domain, true)
			s.sandbox.SetTXT("_ss.mine.example", "mine", d.TXT)
			s.verify(claim(c.claim[0], c.claim[1]))
			s.step()
			if open := s.Row(0).Phase == ledger.PhaseWaiting; open != c.young {
				t.Errorf("open after the first execution: %t", open)
			}
			s.wantResult(ledger.Refused, c.detail)
			if n := len(s.writes()) + len(s.sandbox.Queries()); n != 0 {
				t.Errorf("%d PATCHes and queries, want none", n)
			}
			if c.young {
				s.wantTwoReads()
			}
		})
	}
}

// TestVerifyRows executes rows that need no PATCH or have an unusual record.
func TestVerifyRows(t *testing.T) {
	t.Run("verified before", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{Status: "verified"}, true)
		s.verify(claim(d.Host, d.TXT))
		s.wantResult(ledger.Unchanged, "before")
		s.wantKnown("a", d, schema.StatusVerified, "")
		s.wantRequests("GET")
		s.wantEvents()
	})
	t.Run("mixed case", func(t *testing.T) {
		s := newVerifySite(t)
		d := s.domain(sandbox.Domain{Domain: "Shop.Example", Host: "_ss-Verification.Org_1.shop.EXAMPLE"}, true)
		s.verify(claim(strings.ToLower(d.Host)+".", d.TXT))
		s.wantResult(ledger.Done, "")
	})
	t.Run("malformed", func(t *testing.T) {
		for _, content := range []string{`[]`, `{}`, `{"organization_id":"org_1"}`,
			`{"organization_id":"org_1","discovery_domain_id":"` + dom + `","verification_host":"a b"}`} {
			t.Run(content, func(t *testing.T) {
				s := newVerifySite(t)
				s.Submit(handlers.Verify, content)
				s.wantResult(ledger.InvalidRow, "")
				s.wantRequests()
			})
		}
	})
	t.Run("a read that is behind", func(t *testing.T) {
		s := newVerifySite(t, func(o *sandbox.Options) { o.ReadLag = 20 * time.Second })
		d := s.domain(sandbox.Domain{TXT: "old"}, false)
		s.clock.advance(time.Hour)
		d.TXT = "new"
		s.sandbox.SetDomain(org, d)
		s.sandbox.SetTXT(d.Host, "new")
		s.verify(claim(d.Host, "new"))
		s.Run.CreatedAt = s.clock.now()
		s.wantResult(ledger.Done, "")
	})
}

// TestVerifyNotFound has wrong ids, whose rows are refused by a second read, and say why from
// the first one on. A domain that was made a moment ago is found by the second read.
func TestVerifyNotFound(t *testing.T) {
	for name, organization := range map[string]string{"no such domain": org, "no such organization": "org_2"} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			s.sandbox.AddOrganization(organization, "one")
			s.verify()
			s.step()
			const why = "404 Not Found: No organization"
			note := ledger.ParseNote(s.Row(0).Checkpoint.Memo)
			if note.Outcome != ledger.Transient || !contains(note.Reason, why) ||
				!contains(note.Reason, "read once more half a minute later") {
				t.Errorf("note %+v, want the reason of the first read", note)
			}
			s.wantResult(ledger.Refused, why)
			s.wantTwoReads()
		})
	}
	t.Run("made a moment ago", func(t *testing.T) {
		s := newVerifySite(t, func(o *sandbox.Options) { o.ReadLag = 20 * time.Second })
		s.domain(sandbox.Domain{}, true)
		s.verify()
		s.wantResult(ledger.Done, "")
	})
	t.Run("of an old run", func(t *testing.T) {
		s := newVerifySite(t)
		s.sandbox.AddOrganization(org, "one")
		s.verify()
		s.clock.advance(time.Hour)
		s.wantResult(ledger.Refused, "404")
		s.wantRequests("GET")
	})
}

// wantTwoReads checks that the row was read twice, half a minute apart.
func (s *verifySite) wantTwoReads() {
	s.t.Helper()
	s.wantRequests("GET", "GET")
	if age := s.clock.now().Sub(s.began); age < 30*time.Second || age > time.Minute {
		s.t.Errorf("settled at the age of %v", age)
	}
}

// TestVerifyExpires gives up after the time of the run, or of its tenant if the run has none, and
// later if no server answers.
func TestVerifyExpires(t *testing.T) {
	t.Parallel()
	giveUp := time.Duration(redistest.Amount(24, 72)) * time.Hour
	for _, c := range []struct {
		name   string
		zone   func(*verifySite, sandbox.Domain)
		late   time.Duration // before the first check
		age    time.Duration
		detail string
	}{
		{"nothing there", func(*verifySite, sandbox.Domain) {}, 0, giveUp, "does not exist"},
		{"another value", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetTXT(d.Host, "another") },
			0, giveUp, `"another"`},
		{"no answer", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1) }, 0,
			giveUp + 24*time.Hour, "SERVFAIL"},
		{"checked late", func(*verifySite, sandbox.Domain) {}, giveUp / 2, giveUp, "does not exist"},
		{"first checked when its time is up", func(*verifySite, sandbox.Domain) {}, 2 * giveUp, 3 * giveUp, "does not exist"},
		{"the run says nothing", func(s *verifySite, _ sandbox.Domain) { s.giveUp, s.config.GiveUp = 0, giveUp }, 0, giveUp,
			"does not exist"},
		{"the tenant's is shorter", func(s *verifySite, _ sandbox.Domain) { s.config.GiveUp = time.Hour }, 0, giveUp,
			"does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			s.giveUp = giveUp
			d := s.domain(sandbox.Domain{}, false)
			c.zone(s, d)
			s.verify()
			s.clock.advance(c.late)
			r := s.wantResult(ledger.Expired, c.detail)
			if k, _ := s.knownDomain(); k.Status != schema.StatusPending || !k.Next.IsZero() {
				t.Errorf("known is %+v, want no next check", k)
			}
			age := s.clock.now().Sub(s.began)
			if soon := 2 * time.Hour; age < c.age-time.Second || age > c.age+soon {
				t.Errorf("expired at the age of %v, want %v", age, c.age)
			}
			s.wantRequests("GET")
			e, err := evidence.Read(r.Evidence)
			if err != nil || len(e.Said) < 2 || e.At.Before(s.clock.now().Add(-time.Minute)) {
				t.Errorf("evidence %+v, %v: want that of the last check", e, err)
			}
			s.wantEvents(events.DomainExpired)
			s.wantStatus("pending")
		})
	}
	t.Run("no answer, then a no", func(t *testing.T) {
		s := newVerifySite(t)
		s.giveUp = time.Hour
		d := s.domain(sandbox.Domain{}, false)
		s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1)
		s.verify()
		s.until(s.began.Add(2 * time.Hour))
		s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, 0)
		s.step()
		if row := s.Row(0); row.Result.Outcome != ledger.Expired {
			t.Errorf("row %+v", row)
		}
	})
	t.Run("checked once more after a long sleep", func(t *testing.T) {
		s := newVerifySite(t)
		s.giveUp = time.Hour
		d := s.domain(sandbox.Domain{}, false)
		s.verify()
		s.step()
		s.clock.advance(1000 * time.Hour)
		s.sandbox.SetTXT(d.Host, d.TXT)
		s.wantResult(ledger.Done, "")
	})
	t.Run("seen, never proven", func(t *testing.T) {
		for stage, long := range map[ledger.Stage]time.Duration{ledger.StageCheck: 0, ledger.StageReady: time.Minute} {
			t.Run(string(stage), func(t *testing.T) {
				s := newVerifySite(t)
				s.giveUp, s.line = time.Hour, line(long)
				s.domain(sandbox.Domain{}, true)
				s.config.DNS = proving{s.config.DNS, func(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
					return dnscheck.Verdict{Reason: dnscheck.ReasonDisagree, Host: host}, nil
				}}
				s.verify()
				s.wantResult(ledger.Expired, "disagree")
				if age := s.clock.now().Sub(s.began); age < 25*time.Hour-time.Second || age > 28*time.Hour {
					t.Errorf("expired at the age of %v", age)
				}
			})
		}
	})
}

// TestVerifyUnanswered has no answer from DNS for a time, and then the token.
func TestVerifyUnanswered(t *testing.T) {
	for name, outage := range map[string]time.Duration{"an hour": time.Hour, "eight days": 8 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			s.giveUp = 10 * 24 * time.Hour
			d := s.domain(sandbox.Domain{}, true)
			s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1)
			s.verify()
			s.until(s.began.Add(outage))
			if row := s.Row(0); row.Phase != ledger.PhaseWaiting || len(s.writes()) != 0 {
				t.Errorf("row %+v, PATCHes %v", row, s.writes())
			}
			s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, 0)
			s.wantResult(ledger.Done, "")
			s.wantStatus("verified")
		})
	}
}

// TestVerifyChange checks a row soon again after the zone's answer has changed.
func TestVerifyChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*verifySite, sandbox.Domain)
		soon   bool
	}{
		{"another value", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetTXT(d.Host, "another") }, true},
		{"the same value twice", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetTXT(d.Host, "one", "one") }, false},
		{"no value any more", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetTXT(d.Host) }, true},
		{"no answer", func(s *verifySite, d sandbox.Domain) { s.sandbox.SetRCode(d.Host, 2, 20) }, false},
		{"nothing", func(*verifySite, sandbox.Domain) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newVerifySite(t)
			s.giveUp = 100 * time.Hour
			d := s.domain(sandbox.Domain{}, false)
			s.sandbox.SetTXT(d.Host, "one")
			s.verify()
			hours := func(n time.Duration) {
				t.Helper()
				s.until(s.clock.now().Add(n * time.Hour))
				if s.timed.after < 50*time.Minute {
					t.Fatalf("checked again after %v, want an hour", s.timed.after)
				}
			}
			hours(5)
			c.change(s, d)
			s.step()
			if soon := s.timed.after < time.Minute; soon != c.soon {
				t.Errorf("checked again after %v", s.timed.after)
			}
			hours(5)
		})
	}
	t.Run("always", func(t *testing.T) {
		s := newVerifySite(t)
		s.giveUp = 24 * time.Hour
		d := s.domain(sandbox.Domain{}, false)
		s.verify()
		checks := 0
		for ; s.Row(0).Phase != ledger.PhaseSettled; checks++ {
			s.sandbox.SetTXT(d.Host, fmt.Sprint(checks))
			s.step()
		}
		if checks > 24*9 {
			t.Errorf("%d checks in a day", checks)
		}
	})
}

// TestVerifyTokenGone has the token seen by the check, and not by the proof.
func TestVerifyTokenGone(t *testing.T) {
	s := newVerifySite(t)
	d := s.domain(sandbox.Domain{}, true)
	direct := s.config.DNS
	s.config.DNS = proving{direct, func(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
		s.sandbox.SetTXT(d.Host, "gone")
		return direct.Prove(ctx, host, token)
	}}
	s.verify()
	s.step()
	row := s.Row(0)
	if e := s.state().Evidence; row.Checkpoint.Stage != ledger.StageCheck || e == nil || !contains(e.Sentence, `"gone"`) ||
		s.timed.after < 10*time.Second {
		t.Errorf("row %+v, state %+v, due after %v", row, s.state(), s.timed.after)
	}
	s.wantRequests("GET")
	s.config.DNS = direct
	s.sandbox.SetTXT(d.Host, d.TXT)
	s.wantResult(ledger.Done, "")
}

// TestNoReadScope has credentials that may not read. That holds rows back, also those that bring
// all that a PATCH needs, and refuses none.
func TestNoReadScope(t *testing.T) {
	for kind, row := range map[ledger.Kind]string{
		handlers.Verify: `"verification_host":"_ss.shop.example","verification_txt":"token","use_for_organization_discovery":true`,
		handlers.Update: `"status":"pending"`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := newVerifySite(t)
			s.domain(sandbox.Domain{Domain: "shop.example", Host: "_ss.shop.example", TXT: "token", Use: new(true)}, true)
			s.handlers = func(c handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
				states := &sweep.States{Tenant: string(tenant), Store: sweep.NewStore(s.Redis, string(tenant))}
				update := handlers.NewUpdate(handlers.UpdateConfig{API: c.API, States: states, RequestTimeout: c.RequestTimeout})
				return map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(c), handlers.Update: update}
			}
			s.fail(sandbox.OpGetDiscoveryDomain, sandbox.Fault{Status: http.StatusForbidden, Count: 3,
				Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`})
			s.Submit(kind, `{"organization_id":"`+org+`","discovery_domain_id":"`+dom+`",`+row+`}`)
			for range 3 {
				s.step()
				r := s.Row(0)
				if note := ledger.ParseNote(r.Checkpoint.Memo); r.Phase != ledger.PhaseWaiting || r.Checkpoint.Attempts != 0 ||
					note.Outcome != ledger.Blocked {
					t.Errorf("row %+v, note %+v", r, note)
				}
			}
			if r := s.settle(); r.Outcome != ledger.Done && r.Outcome != ledger.Unchanged {
				t.Errorf("%+v", r)
			}
			s.wantRequests("GET", "GET", "GET", "GET", "PATCH")
		})
	}
}

// TestVerifyAudit logs which proof a domain was verified by.
func TestVerifyAudit(t *testing.T) {
	s := newVerifySite(t)
	var log strings.Builder
	s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d := s.domain(sandbox.Domain{}, true)
	s.verify()
	s.wantResult(ledger.Done, "")
	for _, part := range []string{"msg=audit", `event="domain verified"`, "organization_id=" + org, "domain=" + d.Domain,
		"basis=resolvers", "quorum=2", "perspectives=[default]", "operators="} {
		if !contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, &log)
		}
	}
}

// TestAttemptsAreFailuresInARow checks that failures before a check that was made do not count:
// seventeen checks that fail, one now and then in a month, do not end a row.
func TestAttemptsAreFailuresInARow(t *testing.T) {
	s := newVerifySite(t)
	s.domain(sandbox.Domain{}, false)
	s.fail(schema.OpGetDiscoveryDomain, sandbox.Fault{Status: 500, Count: 2})
	s.verify()
	for _, want := range []int{1, 2, 0} {
		s.step()
		if n := s.Row(0).Checkpoint.Attempts; n != want {
			t.Errorf("%d attempts, want %d", n, want)
		}
	}
}

// TestVerifyMemo stores the record and the evidence of the last check with a waiting row.
func TestVerifyMemo(t *testing.T) {
	s := newVerifySite(t)
	d := s.domain(sandbox.Domain{}, false)
	s.sandbox.SetTXT(d.Host, "v=other", "v=more\x07")
	s.verify()
	s.step()
	state := s.state()
	if r := state.Record; r == nil || r.Domain != d.Domain || r.Host != d.Host || r.TXT != d.TXT {
		t.Errorf("record %+v", r)
	}
	if e := state.Evidence; e == nil || e.State != "absent" || len(e.Said) < 2 ||
		!slices.Equal(e.Said[0].Values, []string{`"v=other"`, `"v=more\a"`}) {
		t.Errorf("evidence %+v", e)
	}
	note := ledger.ParseNote(s.Row(0).Checkpoint.Memo)
	if note.Outcome != ledger.NotYetFound || note.Reason != "" || len(note.Memo) > 400 {
		t.Errorf("note %+v of %d bytes", note, len(note.Memo))
	}
}
