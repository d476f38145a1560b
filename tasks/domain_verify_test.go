package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// enqueueConfirm puts a confirm into the queue that no look has asked for, as
// whoever can write to Redis could.
func (w *world) enqueueConfirm(run, host, txt string) {
	w.t.Helper()
	look := w.queue.byType(tasks.TypeVerify)[0]
	p := look.envelope(w.t)
	p.VerificationHost, p.VerificationTXT = host, txt
	payload, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	look.state = "completed"
	w.queue.tasks = append(w.queue.tasks, &queued{
		typ: tasks.TypeConfirm, id: tasks.ConfirmTaskID(look.id), queue: tasks.APIQueue("default", tasks.Fast), payload: payload, at: w.clock.now(),
	})
}

func TestVerifyKeepsTheFlag(t *testing.T) {
	for _, test := range []struct {
		name    string
		reading sandbox.FlagReading
		old     bool // the record leaves the flag out
		flag    *bool
		row     []any
		want    *bool
	}{
		{"false, server keeps", sandbox.KeepFlag, false, new(false), nil, new(false)},
		{"false, server sets true", sandbox.FlagTrue, false, new(false), nil, new(false)},
		{"true, server keeps", sandbox.KeepFlag, false, new(true), nil, new(true)},
		{"true, server sets true", sandbox.FlagTrue, false, new(true), nil, new(true)},
		{"false, record silent, server keeps", sandbox.KeepFlag, true, new(false), nil, new(false)},
		{"false, record silent, row says false, server sets true", sandbox.FlagTrue, true, new(false), []any{"use_for_organization_discovery", false}, new(false)},
		{"false, row says true", sandbox.KeepFlag, false, new(false), []any{"use_for_organization_discovery", true}, new(true)},
		{"true, row says false", sandbox.FlagTrue, false, new(true), []any{"use_for_organization_discovery", false}, new(false)},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.sandbox.FlagDefault, s.sandbox.OldRecords = test.reading, test.old })
			w.proven(sandbox.Domain{Use: test.flag})
			run := w.submit(tasks.TypeVerify, verifyRow(test.row...))
			w.drain()
			w.wantFate(run, 0, "done")
			w.wantStatus(org, dom, "verified")
			if got := w.domain(org, dom).Use; got == nil || *got != *test.want {
				t.Errorf("use_for_organization_discovery is %v, want %v", got, *test.want)
			}
		})
	}
}

// TestVerifyAsWritten: hosts come in mixed case and are compared as DNS does.
func TestVerifyAsWritten(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{Domain: "Shop.Example", Host: "_ss-Verification.Org_1.shop.EXAMPLE"})
	run := w.submit(tasks.TypeVerify, verifyRow("verification_host", strings.ToLower(d.Host)+".", "verification_txt", d.TXT))
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

func TestVerifyUnchanged(t *testing.T) {
	for name, told := range map[string]bool{"by the record": false, "by the payload": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.proven(sandbox.Domain{Status: "verified"})
			var more []any
			if told {
				more = []any{"verification_host", d.Host, "verification_txt", d.TXT}
			}
			run := w.submit(tasks.TypeVerify, verifyRow(more...))
			w.drain()
			w.wantFate(run, 0, "unchanged", "before")
			if n := len(w.writes()); n != 0 {
				t.Errorf("%d writes, want none", n)
			}
		})
	}
}

// TestAnswerNamesAnother: the PATCH's answer tells of another host or token
// than the proven ones.
func TestAnswerNamesAnother(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Domain){
		"token":                      func(d *sandbox.Domain) { d.TXT = "another" },
		"host":                       func(d *sandbox.Domain) { d.Host = "_ss-verification." + org + ".elsewhere.example" },
		"domain":                     func(d *sandbox.Domain) { d.Domain = "elsewhere.example" },
		"domain with host and token": func(d *sandbox.Domain) { d.Domain, d.Host, d.TXT = "e.example", "x.e.example", "y" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.sandbox.FlagDefault = sandbox.FlagTrue })
			w.proven(sandbox.Domain{Use: new(false)})
			w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Wrong: change, Count: 1})
			run := w.submit(tasks.TypeVerify, verifyRow())
			w.drain()
			w.wantFate(run, 0, "refused", "no longer the one that was proven")
			w.wantStatus(org, dom, "pending")
			if d := w.domain(org, dom); d.Use == nil || *d.Use {
				t.Errorf("use_for_organization_discovery is %v, want it kept false", d.Use)
			}
		})
	}
}

// TestAnswerNamesAnotherAndKilled: the record has changed under the PATCH, the
// worker dies right after it, and the next one meets more trouble.
func TestAnswerNamesAnotherAndKilled(t *testing.T) {
	change := map[string]func(*sandbox.Domain){
		"token":  func(d *sandbox.Domain) { d.TXT = "another" },
		"host":   func(d *sandbox.Domain) { d.Host = "_x." + d.Domain },
		"domain": func(d *sandbox.Domain) { d.Domain, d.Host = "other.example", "_x.other.example" },
	}
	for name, change := range change {
		for _, code := range []int{0, 400, 403, 409, 422, 302, 429, 500} {
			t.Run(name+" "+http.StatusText(code), func(t *testing.T) {
				w := newWorld(t)
				d := w.proven(sandbox.Domain{})
				patches := 0
				w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Match: func(sandbox.Request) bool {
					if patches++; patches == 1 {
						changed := d
						change(&changed)
						w.sandbox.SetDomain(org, changed)
					}
					return false
				}})
				run := w.submit(tasks.TypeVerify, verifyRow())
				w.step() // the look
				// The calls are standing, get, prove, begin, patch.
				w.saboteur.at, w.saboteur.after = len(w.saboteur.calls)+4, true
				w.step()
				if calls := w.saboteur.calls; !w.saboteur.done || calls[len(calls)-1] != "api.patch" {
					t.Fatalf("killed after %v, want after the PATCH", calls)
				}
				w.wantStatus(org, dom, "verified") // the danger
				if code != 0 {
					f := status(code)
					f.Operation, f.Count = sandbox.OpGetDiscoveryDomain, 1
					w.sandbox.AddFault(f)
				}
				w.drain()
				w.wantFate(run, 0, "refused")
				w.wantStatus(org, dom, "pending")
			})
		}
	}
}

// TestFlagFlippedAndKilled: the server has turned the flag under the PATCH, and
// the worker died before it saw the answer.
func TestFlagFlippedAndKilled(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false)})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step() // the look
	w.saboteur.at, w.saboteur.after = len(w.saboteur.calls)+4, true
	w.step()
	if calls := w.saboteur.calls; !w.saboteur.done || calls[len(calls)-1] != "api.patch" {
		t.Fatalf("killed after %v, want after the PATCH", calls)
	}
	d := w.domain(org, dom)
	d.Use = new(true)
	w.sandbox.SetDomain(org, d)

	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
	if d := w.domain(org, dom); d.Use == nil || *d.Use {
		t.Errorf("use_for_organization_discovery is %v, want the false that was read", d.Use)
	}
}

// TestPayloadIsNotTheRecord: whoever submits rows chooses neither token nor
// host, not even where he owns the host he names.
func TestPayloadIsNotTheRecord(t *testing.T) {
	type claim struct{ host, txt string }
	for _, test := range []struct {
		name  string
		claim func(sandbox.Domain) claim
		says  string
	}{
		{"another token", func(d sandbox.Domain) claim { return claim{d.Host, "mine"} }, "verification_txt"},
		{"another host", func(d sandbox.Domain) claim { return claim{"_ss.mine.example", d.TXT} }, "verification_host"},
		{"both", func(sandbox.Domain) claim { return claim{"_ss.mine.example", "mine"} }, "verification_txt"},
		{"token alone", func(sandbox.Domain) claim { return claim{"", "mine"} }, "verification_txt"},
		{"host alone", func(sandbox.Domain) claim { return claim{"_ss.mine.example", ""} }, "verification_host"},
	} {
		for _, directly := range []bool{false, true} {
			name := test.name
			if directly {
				name += ", confirm without a look"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				d := w.proven(sandbox.Domain{})
				c := test.claim(d)
				if directly && (c.host == "" || c.txt == "") {
					t.Skip("a confirm has both")
				}
				w.sandbox.SetTXT("_ss.mine.example", "mine", d.TXT)
				if c.host == d.Host {
					w.sandbox.SetTXT(d.Host, d.TXT, c.txt)
				}
				run := w.submit(tasks.TypeVerify, verifyRow("verification_host", c.host, "verification_txt", c.txt))
				if directly {
					w.enqueueConfirm(run, c.host, c.txt)
				}
				// While the row is young the read may be behind: nothing is decided.
				executions := 0
				for ; w.queue.next().at.Sub(w.start()) < tasks.Young; executions++ {
					w.step()
					w.wantFate(run, 0, "open")
				}
				if executions < 3 {
					t.Errorf("%d executions while the row was young, want some", executions)
				}
				w.drain()
				w.wantFate(run, 0, "refused", test.says)
				if n := len(w.writes()); n != 0 {
					t.Errorf("%d PATCHes, want none", n)
				}
				w.wantStatus(org, dom, "pending")
			})
		}
	}
}

// start is when the first run was submitted.
func (w *world) start() time.Time {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), w.runs[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return r.CreatedAt
}

// TestPayloadAheadOfTheRecord: a read that is behind catches up.
func TestPayloadAheadOfTheRecord(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.sandbox.ReadLag = time.Minute })
	d := w.proven(sandbox.Domain{TXT: "old"})
	w.clock.advance(time.Hour)
	d.TXT = "new"
	w.sandbox.SetDomain(org, d)
	w.sandbox.SetTXT(d.Host, "new")
	run := w.submit(tasks.TypeVerify, verifyRow("verification_host", d.Host, "verification_txt", "new"))
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

func TestHostNotBelowTheDomain(t *testing.T) {
	for name, host := range map[string]string{
		"another domain":    "_ss.elsewhere.example",
		"suffix of a label": "_ss.notshop.example",
		"above":             "example.com",
	} {
		for _, directly := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				d := w.proven(sandbox.Domain{Domain: "shop.example", Host: host})
				run := w.submit(tasks.TypeVerify, verifyRow())
				if directly {
					w.enqueueConfirm(run, d.Host, d.TXT)
				}
				w.drain()
				w.wantFate(run, 0, "refused", "not below its domain")
				if n := len(w.writes()); n != 0 {
					t.Errorf("%d PATCHes, want none", n)
				}
				if n := len(w.sandbox.Queries()); n != 0 {
					t.Errorf("%d questions about a host that proves nothing, want none", n)
				}
			})
		}
	}
}

// TestDomainThatNobodyCanHold: a proof beneath a public suffix would hand its
// organization the logins of strangers.
func TestDomainThatNobodyCanHold(t *testing.T) {
	for _, test := range []struct{ domain, host, reason string }{
		{"co.uk", "_ss.co.uk", "is a public suffix"},
		{"xn--gmqw5a.xn--j6w193g", "_ss.xn--gmqw5a.xn--j6w193g", "is a public suffix"},
		{"foo.ck", "_ss.foo.ck", "is a public suffix"},
		{"xn--0.example", "_ss.xn--0.example", `"xn--0"`},
		{"com", "_ss.shop.com", "one label"},
		{"shop.invalid", "_ss.shop.example", "public DNS does not serve"},
		{"192.0.2.1", "_ss.shop.example", "is an IP address"},
	} {
		for _, directly := range []bool{false, true} {
			t.Run(test.domain, func(t *testing.T) {
				w := newWorld(t)
				d := w.proven(sandbox.Domain{Domain: test.domain, Host: test.host})
				run := w.submit(tasks.TypeVerify, verifyRow())
				if directly {
					w.enqueueConfirm(run, d.Host, d.TXT)
				}
				w.drain()
				w.wantFate(run, 0, "refused", test.reason)
				if n := len(w.writes()); n != 0 {
					t.Errorf("%d PATCHes, want none", n)
				}
				if n := len(w.sandbox.Queries()); n != 0 {
					t.Errorf("%d questions, want none", n)
				}
			})
		}
	}
}

// TestDomainIsNotThere: a 404 on a young row may be a read that is behind.
func TestDomainIsNotThere(t *testing.T) {
	t.Run("comes yet", func(t *testing.T) {
		w := newWorld(t, func(s *settings) { s.sandbox.ReadLag = 20 * time.Second })
		w.proven(sandbox.Domain{})
		run := w.submit(tasks.TypeVerify, verifyRow())
		w.drain()
		w.wantFate(run, 0, "done")
	})
	t.Run("never comes", func(t *testing.T) {
		w := newWorld(t)
		w.sandbox.AddOrganization(org, "")
		run := w.submit(tasks.TypeVerify, verifyRow())
		w.step()
		w.wantFate(run, 0, "open", "transient", "404")
		w.drain()
		w.wantFate(run, 0, "refused", "404")
		if age := w.clock.now().Sub(w.start()); age < tasks.Young {
			t.Errorf("refused at the age of %v, want %v at least", age, tasks.Young)
		}
	})
	t.Run("old row", func(t *testing.T) {
		w := newWorld(t)
		w.sandbox.AddOrganization(org, "")
		run := w.submit(tasks.TypeVerify, verifyRow())
		w.clock.advance(tasks.Young)
		w.step()
		w.wantFate(run, 0, "refused", "404")
	})
}

func TestExpires(t *testing.T) {
	const giveUp = 72 * time.Hour
	for _, test := range []struct {
		name  string
		zone  func(*world, sandbox.Domain)
		after time.Duration
		says  string
	}{
		{"nothing there", func(*world, sandbox.Domain) {}, giveUp, "does not exist"},
		{"another value", func(w *world, d sandbox.Domain) { w.sandbox.SetTXT(d.Host, "another") }, giveUp, `"another"`},
		{"unknown", func(w *world, d sandbox.Domain) { w.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1) }, giveUp + tasks.MoreForUnknown, "SERVFAIL"},
	} {
		for name, told := range map[string]bool{"": false, ", payload told": true} {
			t.Run(test.name+name, func(t *testing.T) {
				w := newWorld(t)
				d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
				test.zone(w, d)
				var more []any
				if told {
					more = []any{"verification_host", d.Host, "verification_txt", d.TXT}
				}
				run := w.submit(tasks.TypeVerify, verifyRow(more...))
				var last time.Time
				for {
					last = w.clock.now()
					if w.step() == nil {
						break
					}
				}
				w.wantFate(run, 0, "expired", test.says)
				age := last.Sub(w.start())
				soon := 5 * time.Second // the last look is made for it
				if test.after > giveUp {
					soon = 2 * time.Hour // nobody knows when an answer comes
				}
				if age < test.after || age > test.after+soon {
					t.Errorf("expired at the age of %v, want %v, and at most %v later", age, test.after, soon)
				}
				if n := len(w.requests(sandbox.OpGetDiscoveryDomain)); n != 1 {
					t.Errorf("%d reads of the record, want 1: it is kept", n)
				}
			})
		}
	}
}

// TestUnknownThenAbsent: once the zone says no, give_up_at counts at once.
func TestUnknownThenAbsent(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = time.Hour })
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	w.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1)
	run := w.submit(tasks.TypeVerify, verifyRow())
	for w.clock.now().Sub(w.start()) < 2*time.Hour {
		w.step()
	}
	w.wantFate(run, 0, "open", "SERVFAIL")
	w.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, 0)
	w.step()
	w.wantFate(run, 0, "expired", "does not exist")
}

// TestNobodyAnswersForAWhile: an outage settles no row before its time, and the
// first answer after it does.
func TestNobodyAnswersForAWhile(t *testing.T) {
	for name, outage := range map[string]time.Duration{"an hour": time.Hour, "eight days": 8 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.giveUp = 10 * 24 * time.Hour })
			d := w.proven(sandbox.Domain{})
			w.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, -1)
			run := w.submit(tasks.TypeVerify, verifyRow())
			for w.clock.now().Sub(w.start()) < outage {
				w.step()
				w.wantFate(run, 0, "open", "SERVFAIL")
			}
			if n := len(w.writes()); n != 0 {
				t.Errorf("%d PATCHes, want none", n)
			}
			w.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, 0)
			w.drain()
			w.wantFate(run, 0, "done")
			w.wantStatus(org, dom, "verified")
		})
	}
}

// TestNotBeforeALook: a task that slept past give_up_at looks before it says
// that the time is up.
func TestNotBeforeALook(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = time.Hour })
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step()
	w.clock.advance(1000 * time.Hour)
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

// TestNothingIsQuoted: what stands at a host that only a payload has named is
// not told to whoever submitted the row.
func TestNothingIsQuoted(t *testing.T) {
	const secret = "internal-api-key=c0ffee"
	for _, test := range []struct {
		name  string
		trust bool
		claim func(sandbox.Domain) []any
	}{
		{"host of another", false, func(d sandbox.Domain) []any {
			return []any{"verification_host", "_internal.corp.example", "verification_txt", d.TXT}
		}},
		{"host of another, alone", false, func(sandbox.Domain) []any {
			return []any{"verification_host", "_internal.corp.example"}
		}},
		{"trusted", true, func(d sandbox.Domain) []any {
			return []any{"verification_host", "_internal.corp.example", "verification_txt", d.TXT, "use_for_organization_discovery", true}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.giveUp, s.tasks.TrustPayload = time.Hour, test.trust })
			d := w.proven(sandbox.Domain{})
			w.sandbox.SetTXT("_internal.corp.example", secret)
			run := w.submit(tasks.TypeVerify, verifyRow(test.claim(d)...))
			for {
				n := w.step()
				if n == nil {
					break
				}
				outcome, detail := w.fate(run, 0)
				if n.lastErr != nil && strings.Contains(n.lastErr.Error(), "c0ffee") || strings.Contains(detail, "c0ffee") {
					t.Fatalf("the value is told: %s, %s, %v", outcome, detail, n.lastErr)
				}
				if e := w.evidence(run); e != nil && strings.Contains(fmt.Sprint(*e), "c0ffee") {
					t.Fatalf("the value is kept: %+v", e)
				}
			}
			if strings.Contains(w.log.String(), "c0ffee") {
				t.Error("the value is in the log")
			}
			if outcome, _ := w.fate(run, 0); outcome != "refused" && outcome != "expired" {
				t.Errorf("the row is %s, want it refused or expired", outcome)
			}
			w.wantStatus(org, dom, "pending")
		})
	}
	t.Run("of the record's own host it is", func(t *testing.T) {
		w := newWorld(t)
		d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
		w.sandbox.SetTXT(d.Host, "v=other")
		run := w.submit(tasks.TypeVerify, verifyRow("verification_host", d.Host, "verification_txt", d.TXT))
		w.step()
		w.wantFate(run, 0, "open", "not_yet", `"v=other"`)
	})
}

// TestTokenGoneAtTheProof: a look saw the token, the proof does not.
func TestTokenGoneAtTheProof(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{Use: new(false)})
	run := w.submit(tasks.TypeVerify, verifyRow())
	for round := 1; round <= 2; round++ {
		w.sandbox.SetTXT(d.Host, d.TXT)
		w.step()
		w.sandbox.SetTXT(d.Host, "gone")
		w.step()
		looks := w.queue.byType(tasks.TypeVerify)
		if len(looks) != round+1 {
			t.Fatalf("round %d: %d looks, want %d", round, len(looks), round+1)
		}
		w.wantFate(run, 0, "open", "not_yet", `"gone"`)
		if w.queue.next().after <= 0 {
			t.Error("the next look is not put off")
		}
	}
	if n := len(w.writes()); n != 0 {
		t.Errorf("%d PATCHes, want none", n)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

// TestRecordChangesBetweenLookAndProof: the look's host and token are not the
// record's any more.
func TestRecordChangesBetweenLookAndProof(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step()
	d.TXT = "renewed"
	w.sandbox.SetDomain(org, d)
	w.drain()
	w.wantFate(run, 0, "refused", "verification_txt")
	if n := len(w.writes()); n != 0 {
		t.Errorf("%d PATCHes, want none", n)
	}
}

// dnsFunc is a DNS whose proofs are a func.
type dnsFunc struct {
	tasks.DNS
	prove func(ctx context.Context, host, token string) (dnscheck.Verdict, error)
}

func (dnsFunc) Disprove(context.Context, string, string) (dnscheck.Verdict, error) {
	return dnscheck.Verdict{}, errors.New("not asked for here")
}

func (dnsFunc) Operator(context.Context, string) (string, error) { return "", nil }

func (d dnsFunc) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.prove(ctx, host, token)
}

// TestStoppingBeforeThePatch: a confirm leaves before its PATCH, not after.
func TestStoppingBeforeThePatch(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step()
	direct := w.config.DNS
	stop := w.stopping
	w.config.DNS = dnsFunc{direct, func(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
		close(stop)
		return direct.Prove(ctx, host, token)
	}}
	w.mux = tasks.NewMux(w.config)
	n := w.step()
	if n.typ != tasks.TypeConfirm || n.retried != 0 || n.state != "" || len(w.writes()) != 0 {
		t.Errorf("%s: %d attempts, state %q, %d writes: want the confirm open, no attempt counted, nothing written", n.typ, n.retried, n.state, len(w.writes()))
	}
	w.reboot(func(c *tasks.Config) { c.DNS = direct })
	w.drain()
	w.wantFate(run, 0, "done")
}

func TestTrustPayload(t *testing.T) {
	trusting := func(s *settings) { s.tasks.TrustPayload, s.giveUp = true, time.Hour }
	full := func(d sandbox.Domain) []any {
		return []any{"verification_host", d.Host, "verification_txt", d.TXT, "use_for_organization_discovery", false}
	}
	t.Run("proves and PATCHes without a read", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{Use: new(false)})
		run := w.submit(tasks.TypeVerify, verifyRow(full(d)...))
		w.drain()
		w.wantFate(run, 0, "done")
		w.wantStatus(org, dom, "verified")
		if n := len(w.requests()); n != 1 {
			t.Errorf("%d requests, want the PATCH alone", n)
		}
	})
	t.Run("wants host and token", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{})
		run := w.submit(tasks.TypeVerify, verifyRow(), verifyRow("verification_host", d.Host), verifyRow("verification_txt", d.TXT))
		w.drain()
		for i := range int64(3) {
			w.wantFate(run, i, "refused", "verification_host and verification_txt")
		}
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
	t.Run("wants the flag", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{Use: new(false)})
		run := w.submit(tasks.TypeVerify, verifyRow(full(d)[:4]...))
		w.drain()
		w.wantFate(run, 0, "refused", "use_for_organization_discovery")
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
	t.Run("takes back what the answer does not bear out", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Use: new(false)})
		w.sandbox.SetTXT("_ss.mine."+d.Domain, "mine")
		run := w.submit(tasks.TypeVerify, verifyRow("verification_host", "_ss.mine."+d.Domain, "verification_txt", "mine", "use_for_organization_discovery", false))
		w.drain()
		w.wantFate(run, 0, "refused", "set back to pending")
		w.wantStatus(org, dom, "pending")
	})
	t.Run("takes back where the host is not below the domain", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{Domain: "shop.example", Host: "_ss.elsewhere.example", Use: new(false)})
		run := w.submit(tasks.TypeVerify, verifyRow(full(d)...))
		w.drain()
		w.wantFate(run, 0, "refused", "set back to pending")
		w.wantStatus(org, dom, "pending")
	})
	t.Run("takes back where nobody can hold the domain", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{Domain: "co.uk", Host: "_ss.co.uk", Use: new(false)})
		run := w.submit(tasks.TypeVerify, verifyRow(full(d)...))
		w.drain()
		w.wantFate(run, 0, "refused", "set back to pending")
		w.wantStatus(org, dom, "pending")
	})
	t.Run("quotes nothing when the token is gone at the proof", func(t *testing.T) {
		w := newWorld(t, trusting)
		d := w.proven(sandbox.Domain{})
		run := w.submit(tasks.TypeVerify, verifyRow(full(d)...))
		w.step()
		w.sandbox.SetTXT(d.Host, "c0ffee")
		w.step()
		w.wantFate(run, 0, "open", "another value")
		if _, detail := w.fate(run, 0); strings.Contains(detail+w.log.String(), "c0ffee") {
			t.Errorf("the value is told: %s", detail)
		}
	})
	t.Run("update wants both", func(t *testing.T) {
		w := newWorld(t, trusting)
		w.proven(sandbox.Domain{Status: "verified", Use: new(false)})
		run := w.submit(tasks.TypeUpdate, verifyRow("status", "pending"), verifyRow("status", "pending", "use_for_organization_discovery", false))
		w.drain()
		w.wantFate(run, 0, "refused", "use_for_organization_discovery")
		w.wantFate(run, 1, "done")
		if n := len(w.requests()); n != 1 {
			t.Errorf("%d requests, want the PATCH alone", n)
		}
	})
}

func TestConfirmWithoutHostAndTokenIsInvalid(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.enqueueConfirm(run, "", "")
	w.drain()
	w.wantFate(run, 0, "invalid", "host and token")
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// TestAChangeBringsTheNextLookForward: whoever has just put another value there is
// at work on the zone, and is not made to wait an hour.
func TestAChangeBringsTheNextLookForward(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(w *world, d sandbox.Domain)
		soon   bool
	}{
		{"another value", func(w *world, d sandbox.Domain) { w.sandbox.SetTXT(d.Host, "another") }, true},
		{"the same value twice", func(w *world, d sandbox.Domain) { w.sandbox.SetTXT(d.Host, "one", "one") }, false},
		{"no value any more", func(w *world, d sandbox.Domain) { w.sandbox.SetTXT(d.Host) }, true},
		{"no answer", func(w *world, d sandbox.Domain) { w.sandbox.SetRCode(d.Host, 2, 20) }, false},
		{"nothing", func(*world, sandbox.Domain) {}, false},
	} {
		for name, told := range map[string]bool{"by the record": false, "by the payload": true} {
			t.Run(tc.name+", host and token "+name, func(t *testing.T) {
				w := newWorld(t, func(s *settings) { s.giveUp = 100 * time.Hour })
				d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
				w.sandbox.SetTXT(d.Host, "one")
				row := verifyRow()
				if told {
					row = verifyRow("verification_host", d.Host, "verification_txt", d.TXT)
				}
				w.submit(tasks.TypeVerify, row)
				looks := func(until time.Time) (last time.Duration) {
					for {
						q := w.queue.next()
						if q.at.After(until) {
							return q.at.Sub(w.clock.now())
						}
						w.step()
					}
				}
				if wait := looks(newWorldTime.Add(5 * time.Hour)); wait < 50*time.Minute {
					t.Fatalf("after five hours it is looked at again after %v, want an hour", wait)
				}
				tc.change(w, d)
				w.step()
				if wait := w.queue.next().at.Sub(w.clock.now()); (wait < time.Minute) != tc.soon {
					t.Errorf("after the change it is looked at again after %v; soon: want %v", wait, tc.soon)
				}
				// And then the intervals grow again.
				if wait := looks(w.clock.now().Add(5 * time.Hour)); wait < 50*time.Minute {
					t.Errorf("hours later it is looked at again after %v, want an hour", wait)
				}
			})
		}
	}
}

// TestAValueThatAlwaysChanges: a zone that says something else each time is not
// looked at all the time.
func TestAValueThatAlwaysChanges(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = 24 * time.Hour })
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	run := w.submit(tasks.TypeVerify, verifyRow())
	looks := 0
	for more := true; more; looks++ {
		w.sandbox.SetTXT(d.Host, fmt.Sprint(looks))
		more = w.step() != nil
	}
	w.wantFate(run, 0, "expired")
	if most := 24 * 9; looks > most {
		t.Errorf("%d looks in a day, want at most %d", looks, most)
	}
}

// TestNoticesOfARun: their ids tell two runs of the same id apart by their times.
func TestNoticesOfARun(t *testing.T) {
	for typ, published := range map[string]bool{tasks.NoticeVerified: true, tasks.NoticeExpired: false} {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t)
			if published {
				w.proven(sandbox.Domain{})
			} else {
				w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
			}
			run, at := w.submit(tasks.TypeVerify, verifyRow()), w.start()
			w.drain()
			w.wantTold(typ)
			told := w.notices.told.all[0]
			if published {
				at = told.At // of the PATCH
			}
			if want := fmt.Sprintf("%s-%s-0-%d", typ, run, at.Unix()); told.ID != want {
				t.Errorf("id %s, want %s", told.ID, want)
			}
		})
	}
}
