package tasks_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// scenario is rows of one kind and how they end when nothing is in the way.
type scenario struct {
	name   string
	change func(*settings)
	// begin makes the tenant and hands the rows in.
	begin func(*world)
	// end holds what came of it, also where something was in the way.
	end func(*world)
	// safe holds what must be so even where the API has refused a request.
	safe func(*world)
	// told holds what must be so of a run that was cancelled on the way: what its
	// rows are told to be is what the tenant shows. Where the worker was killed, a
	// request that nobody wrote down before may have had its effect. nil: the run is
	// there only from its first execution on, so that it is not cancelled before.
	told func(w *world, killed bool)
}

func (s scenario) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(o *settings) {
		if s.change != nil {
			s.change(o)
		}
	})
	s.begin(w)
	return w
}

const (
	org = "org_1"
	dom = "ord_1"
)

// proven is a domain whose record is published.
func (w *world) proven(d sandbox.Domain) sandbox.Domain {
	d.ID = dom
	d = w.sandbox.AddDomain(org, d)
	w.sandbox.SetTXT(d.Host, d.TXT)
	return d
}

// wantNoneUnproven holds the promise: what is verified is proven, as it is.
func (w *world) wantNoneUnproven(published sandbox.Domain) {
	w.t.Helper()
	for _, d := range w.sandbox.Domains(org) {
		if d.Status == "verified" && (d.TXT != published.TXT || d.Host != published.Host) {
			w.t.Errorf("domain %s is verified with host %s and token %s, which nobody has proven", d.ID, d.Host, d.TXT)
		}
	}
}

func (w *world) names() (clients []string) {
	for i := range 5 {
		clients = append(clients, fmt.Sprintf("client_%d", i))
	}
	return clients
}

func (w *world) removals(clients ...string) (rows []string) {
	for _, c := range clients {
		rows = append(rows, row("organization_id", org, "client_id", c))
	}
	return rows
}

func scenarios() []scenario {
	var published sandbox.Domain
	verified := func(w *world) {
		w.wantEnded("run0")
		w.wantFate("run0", 0, "done")
		w.wantStatus(org, dom, "verified")
		if d := w.domain(org, dom); d.Use == nil || *d.Use {
			w.t.Errorf("use_for_organization_discovery is %v, want it kept false", d.Use)
		}
	}
	unproven := func(w *world) { w.wantNoneUnproven(published) }
	verifiedIfDone := func(w *world, _ bool) {
		w.wantNoneUnproven(published)
		outcome, detail := w.fate("run0", 0)
		if d := w.domain(org, dom); (outcome == "done") != (d.Status == "verified") || d.Use != nil && *d.Use {
			w.t.Errorf("row 0 is %s (%s), its domain %s, use_for_organization_discovery %v", outcome, detail, d.Status, *d.Use)
		}
	}
	pendingIfDone := func(w *world, _ bool) {
		outcome, _ := w.fate("run0", 0)
		if d := w.domain(org, dom); (outcome == "cancelled") != (d.Status == "verified") {
			w.t.Errorf("row 0 is %s, its domain %s", outcome, d.Status)
		}
	}
	return []scenario{
		{
			name:   "verify",
			change: func(s *settings) { s.sandbox.FlagDefault = sandbox.FlagTrue },
			begin: func(w *world) {
				published = w.proven(sandbox.Domain{Use: new(false)})
				w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			},
			end: verified, safe: unproven, told: verifiedIfDone,
		},
		{
			name: "verify_with_host_and_token_late",
			begin: func(w *world) {
				published = w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Use: new(false)})
				w.sandbox.SetTXT(published.Host, "something else")
				w.sandbox.SetTXTAt(published.Host, 10*time.Second, published.TXT)
				w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom, "verification_host", published.Host, "verification_txt", published.TXT))
			},
			end: verified, safe: unproven, told: verifiedIfDone,
		},
		{
			// The record changes under the PATCH: verified is then unproven, and
			// has to be taken back, whatever happens meanwhile.
			name: "verify_record_changes",
			begin: func(w *world) {
				published = w.proven(sandbox.Domain{Use: new(false)})
				var remove func()
				remove = w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Match: func(sandbox.Request) bool {
					d := published
					d.TXT, d.Status = "the token of another", "pending"
					w.sandbox.SetDomain(org, d)
					remove()
					return false
				}})
				w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			},
			end: func(w *world) {
				w.wantEnded("run0")
				w.wantFate("run0", 0, "refused")
				w.wantStatus(org, dom, "pending")
			},
			safe: unproven, told: verifiedIfDone,
		},
		{
			name:   "verify_trusted",
			change: func(s *settings) { s.tasks.TrustPayload = true },
			begin: func(w *world) {
				published = w.proven(sandbox.Domain{Use: new(false)})
				w.submit(tasks.TypeVerify, verifyRow("verification_host", published.Host, "verification_txt", published.TXT, "use_for_organization_discovery", false))
			},
			end: verified, safe: unproven, told: verifiedIfDone,
		},
		{
			name:   "verify_expires",
			change: func(s *settings) { s.giveUp = 10 * time.Second },
			begin: func(w *world) {
				published = w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
				w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			},
			end: func(w *world) {
				w.wantEnded("run0")
				w.wantFate("run0", 0, "expired", published.Host)
				w.wantStatus(org, dom, "pending")
			},
			safe: unproven, told: verifiedIfDone,
		},
		{
			name: "update",
			begin: func(w *world) {
				published = w.proven(sandbox.Domain{Use: new(true), Status: "verified"})
				w.submit(tasks.TypeUpdate, row("organization_id", org, "discovery_domain_id", dom, "status", "pending", "use_for_organization_discovery", false))
			},
			end: func(w *world) {
				w.wantEnded("run0")
				w.wantFate("run0", 0, "done")
				w.wantStatus(org, dom, "pending")
				if d := w.domain(org, dom); *d.Use {
					w.t.Error("use_for_organization_discovery is true, want false")
				}
			},
			safe: unproven, told: pendingIfDone,
		},
		{
			name:   "update_status_alone",
			change: func(s *settings) { s.sandbox.FlagDefault = sandbox.FlagTrue },
			begin: func(w *world) {
				published = w.proven(sandbox.Domain{Use: new(false), Status: "verified"})
				w.submit(tasks.TypeUpdate, row("organization_id", org, "discovery_domain_id", dom, "status", "pending"))
			},
			end: func(w *world) {
				w.wantEnded("run0")
				// Run again after its own PATCH it finds nothing left to do.
				if outcome, _ := w.fate("run0", 0); outcome != "done" && outcome != "unchanged" {
					w.t.Errorf("row 0 is %s, want done or unchanged", outcome)
				}
				w.wantStatus(org, dom, "pending")
				if d := w.domain(org, dom); d.Use == nil || *d.Use {
					w.t.Errorf("use_for_organization_discovery is %v, want it kept false", d.Use)
				}
			},
			safe: unproven, told: pendingIfDone,
		},
		{
			name:   "remove",
			change: func(s *settings) { s.tasks.MaxClientsPerRequest = 2 },
			begin: func(w *world) {
				w.sandbox.AddClients(org, append(w.names(), "another")...)
				w.submit(tasks.TypeRemove, w.removals(w.names()...)...)
			},
			end: func(w *world) {
				if r := w.wantEnded("run0"); r.Counts["done"] != 5 {
					w.t.Errorf("counts %v, want 5 done", r.Counts)
				}
				if left := w.sandbox.Clients(org); !slices.Equal(left, []string{"another"}) {
					w.t.Errorf("clients left: %v, want the one that was not asked for", left)
				}
			},
			safe: func(w *world) {
				for i, c := range w.names() {
					outcome, _ := w.fate("run0", int64(i))
					if gone := !slices.Contains(w.sandbox.Clients(org), c); outcome == "done" && !gone {
						w.t.Errorf("%s is there, and its row done", c)
					}
				}
			},
			told: func(w *world, killed bool) {
				for i, c := range w.names() {
					outcome, _ := w.fate("run0", int64(i))
					if gone := !slices.Contains(w.sandbox.Clients(org), c); outcome == "done" && !gone || !killed && outcome == "cancelled" && gone {
						w.t.Errorf("%s is gone: %v, its row %s", c, gone, outcome)
					}
				}
			},
		},
		{
			name:  "create",
			begin: func(w *world) { w.submit(tasks.TypeCreate, template) },
			end:   created, safe: oneTemplate, told: oneTemplateIfDone,
		},
	}
}

func created(w *world) {
	w.wantEnded("run0")
	made := w.sandbox.Templates()
	if len(made) != 1 {
		w.t.Fatalf("%d templates, want one", len(made))
	}
	w.wantFate("run0", 0, "done", made[0].ID)
}

func oneTemplate(w *world) {
	if made := w.sandbox.Templates(); len(made) > 1 {
		w.t.Errorf("%d templates of one row", len(made))
	}
}

func oneTemplateIfDone(w *world, _ bool) {
	outcome, detail := w.fate("run0", 0)
	if made := w.sandbox.Templates(); (outcome == "done") != (len(made) == 1) {
		w.t.Errorf("row 0 is %s (%s), and there are %d templates", outcome, detail, len(made))
	}
}

// TestUndisturbed also runs every task a second time, as asynq may at any time.
func TestUndisturbed(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t)
			w.drain()
			s.end(w)
			before, fates := len(w.writes()), w.fates()

			w.deliverAgain()
			s.end(w)
			if again := len(w.writes()) - before; again != 0 {
				t.Errorf("run again, the tasks wrote %d times", again)
			}
			if now := w.fates(); now != fates {
				t.Errorf("run again, the fates are %s, were %s", now, fates)
			}
		})
	}
}

func (w *world) fates() string {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), "run0")
	if err != nil {
		w.t.Fatal(err)
	}
	text := fmt.Sprint(r.Counts)
	for i := range r.Total {
		outcome, detail := w.fate("run0", i)
		text += fmt.Sprintf(" %d:%s:%s", i, outcome, detail)
	}
	return text
}

// deliverAgain runs each task that was ever enqueued once more.
func (w *world) deliverAgain() {
	w.t.Helper()
	for _, q := range w.queue.tasks {
		q.state, q.at = "", w.clock.now()
	}
	w.drain()
}

// TestKilledAnywhere kills the worker before and after each call that a task
// makes to what it depends on, and runs the task again as asynq does.
func TestKilledAnywhere(t *testing.T) {
	stepIn(t, false)
}

// TestCancelledAnywhere ends the execution's context there instead.
func TestCancelledAnywhere(t *testing.T) {
	stepIn(t, true)
}

func stepIn(t *testing.T, cancel bool) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) { stepInto(t, s, cancel) })
	}
}

func stepInto(t *testing.T, s scenario, cancel bool) {
	calls := callsOf(t, s)
	for k := 0; ; k++ {
		reached := false
		for _, after := range []bool{false, true} {
			name := "end"
			if k < len(calls) {
				name = calls[k]
			}
			t.Run(fmt.Sprintf("%d_%s_after_%t", k, name, after), func(t *testing.T) {
				w := s.world(t)
				w.saboteur.at, w.saboteur.after, w.saboteur.cancel = k, after, cancel
				w.drain()
				reached = w.saboteur.done
				s.end(w)
				s.safe(w)
			})
		}
		if !reached {
			if k < len(calls) {
				t.Errorf("call %d of %d was not reached", k, len(calls))
			}
			return
		}
	}
}

// TestTwoWorkersAnywhere: another worker takes the task up before and after each
// call that its execution makes, as where that one was taken for dead and is not:
// at once, or when it may; and comes to its end, or only as far as its own request.
func TestTwoWorkersAnywhere(t *testing.T) {
	all := append(scenarios(), scenario{
		name:   "create_where_names_repeat",
		change: func(s *settings) { s.sandbox.RepeatTemplateNames = true },
		begin:  func(w *world) { w.submit(tasks.TypeCreate, template) },
		end:    created, safe: oneTemplate,
	})
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			calls := callsOf(t, s)
			for _, wait := range []time.Duration{0, 2 * time.Minute} {
				for _, dies := range []bool{false, true} {
					for k, call := range calls {
						for _, after := range []bool{false, true} {
							t.Run(fmt.Sprintf("after_%v/dies_%t/%d_%s_after_%t", wait, dies, k, call, after), func(t *testing.T) {
								w := s.world(t)
								w.saboteur.at, w.saboteur.after, w.saboteur.spare = k, after, true
								w.saboteur.act = func() {
									w.clock.advance(wait)
									w.beside(dies)
								}
								w.drain()
								s.safe(w)
								s.end(w)
							})
						}
					}
				}
			}
		})
	}
}

// beside has another worker take up the task that is under way; it dies when its
// first write has been answered, or comes to its end.
func (w *world) beside(dies bool) {
	w.t.Helper()
	other := w.other()
	if dies {
		other.saboteur.on = func(call string, after bool) bool { return after && slices.Contains(writeCalls, call) }
	}
	other.reboot()
	_, _ = other.run(w.t.Context(), w.queue.next())
}

// other is another worker of the same fleet.
func (w *world) other() *world {
	other := &world{t: w.t, saboteur: &saboteur{at: -1}, config: w.config}
	other.config.API = sabotagedAPI{other.saboteur, w.config.API.(sabotagedAPI).api}
	other.config.DNS = sabotagedDNS{other.saboteur, w.config.DNS.(sabotagedDNS).dns}
	other.config.Ledger = sabotagedLedger{other.saboteur, w.ledger}
	other.config.Enqueuer, other.config.Pace = w.queue, other
	other.config.ClientLimit = w.config.ClientLimit.(sabotagedLimit).limit
	other.config.Memories, other.config.Notices = w.memories, &notices{other.saboteur, w.notices.told}
	return other
}

// blindDNS proves nothing.
type blindDNS struct{ tasks.DNS }

func (blindDNS) Prove(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	return dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout, Host: host}, nil
}

// staleAPI reads records as they were before they were verified.
type staleAPI struct{ tasks.API }

func (a staleAPI) DiscoveryDomain(ctx context.Context, org, id string) (apiclient.DiscoveryDomain, error) {
	d, err := a.API.DiscoveryDomain(ctx, org, id)
	d.Status = apiclient.StatusPending
	return d, err
}

// behindAPI reads a record that is verified with the token that it had before.
type behindAPI struct{ tasks.API }

func (a behindAPI) DiscoveryDomain(ctx context.Context, org, id string) (apiclient.DiscoveryDomain, error) {
	d, err := a.API.DiscoveryDomain(ctx, org, id)
	if d.Status == apiclient.StatusVerified {
		d.VerificationTXT = "the token of before"
	}
	return d, err
}

// TestDoneIsVerified: another worker takes the confirm up before and after each call of
// its execution, and cannot make the proof, or reads an older record, or both: so it
// takes back what may have landed, or leaves it. What the row says is so of the domain.
func TestDoneIsVerified(t *testing.T) {
	others := []struct {
		name  string
		spoil func(*tasks.Config)
		may   bool // it may be right to take back: the row is refused then
	}{
		{"sees no proof", func(c *tasks.Config) { c.DNS = blindDNS{c.DNS} }, false},
		{"sees no proof, and reads pending", func(c *tasks.Config) { c.DNS, c.API = blindDNS{c.DNS}, staleAPI{c.API} }, false},
		{"reads another token", func(c *tasks.Config) { c.API = behindAPI{c.API} }, true},
	}
	for _, s := range scenarios() {
		if s.name != "verify" && s.name != "verify_trusted" {
			continue
		}
		calls := callsOf(t, s)
		for k, call := range calls {
			for _, after := range []bool{false, true} {
				for _, o := range others {
					t.Run(fmt.Sprintf("%s/%d_%s_after_%t/%s", s.name, k, call, after, o.name), func(t *testing.T) {
						w := s.world(t)
						w.saboteur.at, w.saboteur.after, w.saboteur.spare = k, after, true
						w.saboteur.act = func() {
							other := w.other()
							o.spoil(&other.config)
							other.reboot()
							_, _ = other.run(w.t.Context(), w.queue.next())
						}
						w.drain()
						s.safe(w)
						r := w.wantEnded("run0")
						if r.Counts["done"] == 1 || !o.may {
							s.end(w)
						} else {
							w.wantStatus(org, dom, "pending")
						}
					})
				}
			}
		}
	}
}

// oddAPI answers PATCHes with another token.
type oddAPI struct{ tasks.API }

func (a oddAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	d, err := a.API.UpdateDiscoveryDomain(ctx, org, id, u)
	d.VerificationTXT = "the token of another"
	return d, err
}

// TestOddAnswerIsTakenBack: whatever another worker reads and says meanwhile, a domain
// does not stay verified if the answer to its PATCH names what nobody has proven.
func TestOddAnswerIsTakenBack(t *testing.T) {
	s := scenarios()[0]
	calls := callsOf(t, s)
	for k, call := range calls {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) {
				w := s.world(t)
				sound := w.config.API
				w.config.API = oddAPI{sound}
				w.reboot()
				patched := slices.Contains(calls[:k], "api.patch") || call == "api.patch"
				w.saboteur.at, w.saboteur.after, w.saboteur.spare = k, after, true
				w.saboteur.act = func() {
					w.config.API = sound
					other := w.other()
					w.config.API = oddAPI{sound}
					other.reboot()
					_, _ = other.run(w.t.Context(), w.queue.next())
				}
				w.drain()
				if r := w.wantEnded("run0"); patched || r.Counts["refused"] == 1 {
					w.wantStatus(org, dom, "pending")
				}
			})
		}
	}
}

var writeCalls = []string{"api.patch", "api.delete", "api.post"}

// callsOf are the calls of the undisturbed scenario.
func callsOf(t *testing.T, s scenario) (calls []string) {
	t.Run("undisturbed", func(t *testing.T) {
		w := s.world(t)
		w.drain()
		s.end(w)
		calls = w.saboteur.calls
	})
	return calls
}

// eachRequest runs the scenario with a fault at its first request to the API,
// at its second and so on, until one has no request left to be at.
func eachRequest(t *testing.T, s scenario, f sandbox.Fault, end func(*world)) {
	t.Helper()
	for k := 0; ; k++ {
		met := false
		t.Run(fmt.Sprint("request_", k), func(t *testing.T) {
			w := s.world(t)
			f := f
			f.Skip, f.Count = k, 1
			match := f.Match
			var seen atomic.Int64 // an answer that is lost does not order the two
			f.Match = func(r sandbox.Request) bool {
				if match != nil && !match(r) {
					return false
				}
				seen.Add(1)
				return true
			}
			w.sandbox.AddFault(f)
			w.drain()
			met = int(seen.Load()) > k
			end(w)
			s.safe(w)
		})
		if !met {
			return
		}
		if k > 60 {
			t.Fatal("no end of requests")
		}
	}
}

// TestTroubleAtEachRequest: whatever trouble a request meets, the rows end as
// if there had been none.
func TestTroubleAtEachRequest(t *testing.T) {
	lost := func(r sandbox.Request) bool { return r.Method != http.MethodGet }
	for _, trouble := range []struct {
		name  string
		fault sandbox.Fault
	}{
		{"throttled", status(http.StatusTooManyRequests, "Retry-After", "7")},
		{"throttled_without_a_word", status(http.StatusTooManyRequests)},
		{"unavailable", status(http.StatusServiceUnavailable, "Retry-After", "90")},
		{"bad_gateway", status(http.StatusBadGateway)},
		{"request_timeout", status(http.StatusRequestTimeout)},
		{"crashed_after_it_was_done", sandbox.Fault{Status: http.StatusInternalServerError, Handled: true}},
		{"token_refused", status(http.StatusUnauthorized)},
		{"lacks_scope", sandbox.Fault{Status: http.StatusForbidden, Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`}},
		{"write_lost_before", sandbox.Fault{DropBefore: true, Match: lost}},
		{"write_lost_after", sandbox.Fault{DropAfter: true, Match: lost}},
		{"read_lost", sandbox.Fault{DropAfter: true, Match: func(r sandbox.Request) bool { return !lost(r) }}},
		{"answer_cut", sandbox.Fault{Truncate: true, Match: func(r sandbox.Request) bool { return r.Method != http.MethodDelete }}},
		{"proxy_page_after_it_was_done", sandbox.Fault{HTML: true, Body: "bad gateway", Handled: true}},
		{"page_in_place_of_an_answer", sandbox.Fault{HTML: true, Status: http.StatusOK, Body: "log in"}},
		{"another_record", sandbox.Fault{Body: `{"id":"another","name":"another","domains":[],"templates":[{}]}`, Handled: true, Match: func(r sandbox.Request) bool { return r.Method != http.MethodDelete }}},
		{"no_http", sandbox.Fault{NotHTTP: true}},
		{"not_json", sandbox.Fault{Body: "<html>", Handled: true, Match: func(r sandbox.Request) bool { return r.Method != http.MethodDelete }}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			for _, s := range scenarios() {
				t.Run(s.name, func(t *testing.T) { eachRequest(t, s, trouble.fault, s.end) })
			}
		})
	}
}

// TestTooLateAtEachRequest: the answer comes when nobody waits for it any more, in
// part, or never; or the request itself is looked at only then.
func TestTooLateAtEachRequest(t *testing.T) {
	for _, trouble := range []struct {
		name  string
		fault sandbox.Fault
	}{
		{"answered_too_late", sandbox.Fault{AnswerLatency: time.Minute}},
		{"looked_at_too_late", sandbox.Fault{Latency: 2 * matrixTimeout}},
		{"dripping", sandbox.Fault{Drip: matrixTimeout / 5, Match: func(r sandbox.Request) bool { return r.Method != http.MethodDelete }}},
		{"without_end", sandbox.Fault{Endless: true, Match: func(r sandbox.Request) bool { return r.Method != http.MethodDelete }}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			for _, s := range scenarios() {
				if !slices.Contains([]string{"verify", "update_status_alone", "remove", "create"}, s.name) {
					continue
				}
				change := s.change
				s.change = func(o *settings) {
					o.timeout = matrixTimeout
					if change != nil {
						change(o)
					}
				}
				t.Run(s.name, func(t *testing.T) { eachRequest(t, s, trouble.fault, s.end) })
			}
		})
	}
}

// TestRefusedAtEachRequest: a refusal settles the row, and leaves nothing that
// was not proven, nor two of anything.
func TestRefusedAtEachRequest(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusFound, http.StatusUnprocessableEntity} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			for _, s := range scenarios() {
				t.Run(s.name, func(t *testing.T) {
					eachRequest(t, s, status(code), func(w *world) {
						r := w.wantEnded("run0")
						for outcome := range r.Counts {
							if !slices.Contains(strings.Fields("done unchanged refused expired"), outcome) {
								t.Errorf("counts %v: want nothing but done, unchanged, refused or expired", r.Counts)
							}
						}
					})
				})
			}
		})
	}
}

// TestTroubleThatDoesNotEnd: rows whose requests are never answered settle as
// failed, once the attempts are used up, and say why.
func TestTroubleThatDoesNotEnd(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t)
			w.sandbox.AddFault(status(http.StatusServiceUnavailable))
			w.drain()
			r := w.wantEnded("run0")
			if r.Counts["failed"] != r.Total {
				t.Errorf("counts %v, want all failed", r.Counts)
			}
			w.wantFate("run0", 0, "failed", "17 attempts", "503")
			s.safe(w)
		})
	}
}
