package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// scene is a row of a kind, and what must hold of it however it is disturbed.
type scene struct {
	kind  ledger.Kind
	name  string
	set   sweep.Setting
	begin func(*sweepSite) // submits the row
	// outcomes are the right ones of the row, and of one that it submits.
	outcomes []ledger.Outcome
	// writes is the number of requests that change the tenant and have a text in their bodies.
	writes int
	text   string
	// repeats says that such a request has no intent: it changes nothing a second time.
	repeats bool
	// apart is the least time between such a request without an answer and the next one.
	apart time.Duration
	// alone says that no request of the row has trouble.
	alone bool
	// leaves says that a worker that stops begins no such request.
	leaves bool
	// end checks the row, the tenant and the events once the row is settled, unless it was
	// cancelled before it changed anything. agree checks also those.
	end   func(*sweepSite)
	agree func(*sweepSite)
	// soon checks what the execution has done for others in which the row's run was stopped.
	soon func(*sweepSite)
}

// scenes has a line or more for each kind.
func scenes() []scene {
	done, refused := []ledger.Outcome{ledger.Done}, []ledger.Outcome{ledger.Refused}
	unchanged := []ledger.Outcome{ledger.Unchanged}
	return []scene{
		{kind: handlers.Verify, name: "by id", begin: verifying(), outcomes: done, writes: 1, text: `"verified"`,
			apart: time.Minute, leaves: true, end: wasVerified},
		{kind: handlers.Verify, name: "by name", begin: verifying(named("acme.example")), outcomes: done, writes: 1,
			text: `"verified"`, apart: time.Minute, leaves: true, end: wasVerified},
		{kind: handlers.Verify, name: "token replaced right before the PATCH", begin: func(s *sweepSite) {
			verifying()(s)
			s.replaceToken()
		}, outcomes: refused, writes: 1, text: `"verified"`, alone: true, leaves: true, end: wasReverted, agree: wasReverted},
		{kind: handlers.Verify, name: "token replaced after a lost answer", begin: func(s *sweepSite) {
			verifying()(s)
			s.fail(sandbox.OpUpdateDiscoveryDomain, sandbox.Fault{DropAfter: true})
			s.step()
			s.edit(func(d *sandbox.Domain) { d.TXT = "replaced" })
		}, outcomes: refused, text: `"verified"`, alone: true, end: wasReverted, agree: wasReverted},
		{kind: handlers.Read, name: "token there", begin: reading, outcomes: unchanged, end: wasRead, agree: wasRead},
		{kind: handlers.Update, name: "to pending", begin: updating, outcomes: done, writes: 1, apart: time.Minute,
			end: wasUpdated},
		{kind: handlers.Create, name: "new", begin: func(s *sweepSite) { s.open("", handlers.Create, []byte(template)) },
			outcomes: done, writes: 1, apart: time.Minute, end: wasCreated},
		{kind: handlers.Remove, name: "with those of other runs", begin: removingWithOthers, outcomes: done, writes: 1,
			repeats: true, end: wasRemoved, agree: othersWereRemoved, soon: othersWereRemoved},
		{kind: handlers.Recheck, name: "lost", set: sweep.SetPending, begin: func(s *sweepSite) {
			s.due(new(true))
			s.scan()
		}, outcomes: []ledger.Outcome{ledger.Lost}, end: wasLost},
		{kind: handlers.Recheck, name: "proven", set: sweep.SetPending, begin: func(s *sweepSite) {
			s.foreign(new(true))
			s.publish()
			s.scan()
		}, outcomes: unchanged, end: func(s *sweepSite) {
			s.wantEvents()
			s.wantProven(s.Row(0).Result)
		}},
		{kind: handlers.Recheck, name: "token back, pending", set: sweep.SetPending, begin: rechecking(new(true)),
			outcomes: done, writes: 1, apart: time.Minute, leaves: true, end: wasRestored("domain verified"),
			agree: stateAgrees},
		{kind: handlers.Recheck, name: "token back, pending, the flag omitted", set: sweep.SetPending,
			begin: rechecking(nil), outcomes: done, writes: 1, apart: time.Minute, leaves: true,
			end: wasRestored("domain verified")},
		{kind: handlers.Recheck, name: "token back, unrouted", set: sweep.Unroute, begin: rechecking(new(false)),
			outcomes: []ledger.Outcome{ledger.Done, ledger.Unchanged}, writes: 1, apart: 5 * time.Minute, leaves: true,
			end: wasRestored("domain routed again"), agree: stateAgrees},
		{kind: handlers.Recheck, name: "token back, unrouted, the flag omitted", set: sweep.Unroute,
			begin: rechecking(nil), outcomes: unchanged, end: wasNotRestored},
		{kind: handlers.Revoke, name: "unroute", set: sweep.Unroute, begin: revoking, outcomes: done, writes: 1,
			apart: 5 * time.Minute, leaves: true, end: wasRevoked("verified", false), agree: stateAgrees},
		{kind: handlers.Revoke, name: "pending", set: sweep.SetPending, begin: revoking, outcomes: done, writes: 1,
			apart: 5 * time.Minute, leaves: true, end: wasRevoked("pending", true), agree: stateAgrees},
		{kind: handlers.Revoke, name: "undo", set: sweep.Unroute, begin: func(s *sweepSite) { s.returning() },
			outcomes: done, writes: 1, apart: 5 * time.Minute, leaves: true, end: wasRestored("domain routed again"),
			agree: stateAgrees},
		{kind: handlers.Revoke, name: "the flag omitted", set: sweep.Unroute, begin: func(s *sweepSite) {
			s.decided(new(true))
			s.flag(nil)
		}, outcomes: unchanged, end: wasNotRevoked},
	}
}

func verifying(change ...func(*tasks.VerifyRow)) func(*sweepSite) {
	return func(s *sweepSite) {
		s.domain(sandbox.Domain{Domain: "acme.example", Use: new(false)}, true)
		s.giveUp = 2 * time.Hour
		s.clock.advance(time.Hour) // the run is not young
		s.verify(change...)
	}
}

// replaceToken has another client change the token right before the first PATCH.
func (s *sweepSite) replaceToken() {
	d, _ := s.sandbox.Domain(org, dom)
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Match: func(sandbox.Request) bool {
		if now, _ := s.sandbox.Domain(org, dom); now.TXT == d.TXT {
			now.TXT = "replaced"
			s.sandbox.SetDomain(org, now)
		}
		return false
	}})
}

func wasVerified(s *sweepSite) {
	s.t.Helper()
	s.wantDomain("verified", new(false))
	s.wantEvents(events.DomainVerified)
	if e, err := evidence.Read(s.Row(0).Result.Evidence); err != nil || e.State != "present" {
		s.t.Errorf("evidence %+v, %v", e, err)
	}
}

func wasReverted(s *sweepSite) {
	s.t.Helper()
	s.wantDomain("pending", new(false))
	s.wantEvents()
}

func reading(s *sweepSite) {
	s.domain(sandbox.Domain{Domain: "acme.example", Use: new(false)}, true)
	s.open("", handlers.Read, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom})
}

func wasRead(s *sweepSite) {
	s.t.Helper()
	s.wantDomain("pending", new(false))
	s.wantEvents()
}

func updating(s *sweepSite) {
	s.domain(sandbox.Domain{Status: "verified", Use: new(false)}, false)
	s.open("", handlers.Update, []byte(`{"organization_id":"org_1","discovery_domain_id":"`+dom+`","status":"pending"}`))
}

func wasUpdated(s *sweepSite) {
	s.t.Helper()
	s.wantDomain("pending", new(false))
	s.wantBefore(s.Row(0).Result, "status verified, use_for_organization_discovery false")
}

func wasCreated(s *sweepSite) {
	s.t.Helper()
	all := s.sandbox.Templates()
	if len(all) != 1 || s.Row(0).Result.Detail != all[0].ID {
		s.t.Errorf("templates %+v, result %+v", all, s.Row(0).Result)
	}
}

// removingWithOthers submits three runs, whose rows share a request. The row is that of the second.
func removingWithOthers(s *sweepSite) {
	ids := clients(3)
	s.sandbox.AddOrganization(org, "one")
	s.sandbox.AddClients(org, ids...)
	for _, row := range removalRows(org, ids[0], ids[2], removed) {
		s.open("", handlers.Remove, []byte(row))
		s.together = append(s.together, s.Run)
	}
}

// removed is the client of the row.
const removed = "client_001"

func wasRemoved(s *sweepSite) {
	s.t.Helper()
	if left := s.sandbox.Clients(org); slices.Contains(left, removed) {
		s.t.Errorf("clients left: %v", left)
	}
}

// othersWereRemoved checks the rows that have shared requests with the row.
func othersWereRemoved(s *sweepSite) {
	s.t.Helper()
	if left := s.sandbox.Clients(org); len(left) > 1 || (len(left) == 1 && left[0] != removed) {
		s.t.Errorf("clients left: %v", left)
	}
	for _, run := range s.together[:2] {
		now, err := s.Get(s.t.Context(), "", run.ID)
		if err != nil || now.Counts[ledger.Done] != 1 || now.Settled() != 1 {
			s.t.Errorf("run %s: counts %v, %v", run.ID, now.Counts, err)
		}
	}
}

func wasLost(s *sweepSite) {
	s.t.Helper()
	s.wantEvents(events.DomainAtRisk, events.DomainLost)
	s.wantHistory("lost", "sweeps have found it gone", 1)
	s.wantRow(s.Row(0).Result, ledger.Lost, "gone since ")
	if !s.domainState().IsLost() {
		s.t.Errorf("state %+v", s.domainState())
	}
}

// rechecking has a sweep find the token of a revoked domain again, whose record has that flag.
func rechecking(use *bool) func(*sweepSite) {
	return func(s *sweepSite) {
		s.revoked(new(true))
		s.publish()
		s.flag(use)
		s.scan()
	}
}

func wasRestored(audited string) func(*sweepSite) {
	return func(s *sweepSite) {
		s.t.Helper()
		s.wantDomain("verified", new(true))
		s.wantFound()
		if m := s.domainState(); m.Watched() {
			s.t.Errorf("state %+v", m)
		}
		s.wantVerdict("restored", "present", audited)
	}
}

// wantFound checks the events of a domain whose token is back. An execution that was taken over
// may have sent another one of its own.
func (s *sweepSite) wantFound() {
	s.t.Helper()
	if s.frozen {
		s.events = s.events[:min(3, len(s.events))]
	}
	s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
}

func wasNotRestored(s *sweepSite) {
	s.t.Helper()
	s.wantPatches(patchNoUse)
	s.wantRow(s.Row(0).Result, ledger.Unchanged, "not restored: the record has no use_for_organization_discovery")
	if !isRevoked(s.domainState()) {
		s.t.Errorf("state %+v", s.domainState())
	}
}

func revoking(s *sweepSite) { s.decided(new(true)) }

func wasRevoked(status string, use bool) func(*sweepSite) {
	return func(s *sweepSite) {
		s.t.Helper()
		s.wantDomain(status, new(use))
		s.wantEvents(events.DomainAtRisk, events.DomainLost)
		if !isRevoked(s.domainState()) {
			s.t.Errorf("state %+v", s.domainState())
		}
		s.wantVerdict("revoked: "+string(s.set), "absent", "domain revoked: "+string(s.set))
		s.wantRow(s.Row(0).Result, ledger.Done, string(s.set)+": ")
	}
}

func wasNotRevoked(s *sweepSite) {
	s.t.Helper()
	s.wantDomain("verified", nil)
	if m := s.domainState(); m.Revoked != nil || !m.IsLost() {
		s.t.Errorf("state %+v", m)
	}
}

// stateAgrees checks that the state of a domain says whether the domain is revoked.
func stateAgrees(s *sweepSite) {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	m := s.domainState()
	if taken := d.Status == "pending" || !*d.Use; isSending(m) || taken != isRevoked(m) {
		s.t.Errorf("the domain is %s, flag %s, state %+v", d.Status, flagText(d.Use), m)
	}
}

// trouble is what the API does with one of the row's requests.
type trouble struct {
	name  string
	fault sandbox.Fault
	lands bool // the request is carried out
}

// undisturbed is no trouble.
var undisturbed = trouble{name: "undisturbed"}

var troubles = []trouble{
	{"answer lost", sandbox.Fault{DropAfter: true}, true},
	{"request lost", sandbox.Fault{DropBefore: true}, false},
	{"429", sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}}, false},
	{"answer cut", sandbox.Fault{Truncate: true}, true},
	{"503", sandbox.Fault{Status: http.StatusServiceUnavailable}, false},
	{"503, carried out", sandbox.Fault{Status: http.StatusServiceUnavailable, Handled: true}, true},
}

// play is the execution of a scene's row.
type play struct {
	*sweepSite

	scene     scene
	trouble   trouble
	requested int      // before the row
	attempts  int      // of the row before
	written   int      // requests before the row that change the tenant
	tenant    string   // before the row
	names     []string // of the points so far
	sends     bool     // an execution has stored its intent, and has no answer
	sending   bool     // an execution has called the API for a request that changes the tenant
}

func isWrite(r sandbox.Request) bool {
	if r.Operation == sandbox.OpToken || r.Method == http.MethodGet {
		return false
	}
	return r.Method != http.MethodDelete || slices.Contains(r.Clients, removed)
}

// play submits the row of the scene. The request of that number, from 0, has trouble; of those that
// change the tenant, if writes.
func (c scene) play(t *testing.T, trouble trouble, request int, writes bool) *play {
	t.Helper()
	p := &play{sweepSite: newSweepSite(t, c.set, repeatNames), scene: c, trouble: trouble}
	c.begin(p.sweepSite)
	p.StopClock()
	p.requested = len(p.requests())
	p.attempts = p.Row(0).Checkpoint.Attempts
	p.written = len(p.sent())
	p.tenant = p.changeable()
	p.on = p.reach
	if f := trouble.fault; trouble.name != undisturbed.name {
		f.Skip, f.Count = request, 1
		f.Match = func(r sandbox.Request) bool { return r.Operation != sandbox.OpToken && (isWrite(r) || !writes) }
		p.sandbox.AddFault(f)
	}
	return p
}

// sent returns the requests that change the tenant.
func (p *play) sent() (all []sandbox.Request) {
	for _, r := range p.sandbox.Requests() {
		if isWrite(r) && strings.Contains(r.Body, p.scene.text) {
			all = append(all, r)
		}
	}
	return all[min(p.written, len(all)):]
}

// changeable returns what the row may change.
func (p *play) changeable() string {
	d, _ := p.sandbox.Domain(org, dom)
	isThere := slices.Contains(p.sandbox.Clients(org), removed)
	return fmt.Sprint(d.Status, flagText(d.Use), len(p.sandbox.Templates()), isThere)
}

func (p *play) reach(point string) {
	p.names = append(p.names, point)
	switch {
	case slices.Contains(writing, point):
		p.sending = true
	case point == "after intend":
		p.sends = true
	case slices.Contains(writing, strings.Replace(point, "after", "before", 1)):
		p.sending, p.sends = false, false
	}
}

// disturb has act be called at a point of the play, from 0.
func (p *play) disturb(point int, act func()) {
	p.on = func(name string) {
		p.reach(name)
		if len(p.names) == point+1 {
			act()
		}
	}
}

// reached reports whether the play has come to the point.
func (p *play) reached(point int) bool { return len(p.names) > point }

// finish executes the row, and one that it submits, until they are settled.
func (p *play) finish() {
	p.t.Helper()
	p.settle()
	for len(p.asked) > 0 {
		p.begin()
		p.settle()
	}
}

// until executes the row, and one that it submits, until the point.
func (p *play) until(point int) {
	p.t.Helper()
	for !p.reached(point) {
		if !p.step() {
			if len(p.asked) == 0 {
				p.t.Fatalf("there is no point %d: %q", point, p.names)
			}
			p.begin()
		}
	}
}

// check checks the end of the row, which may have sent so many requests more than usual.
func (p *play) check(more int) {
	p.t.Helper()
	if counts := p.counts(); counts.Settled() != 1 {
		p.t.Errorf("counts %v", counts)
	}
	if r := p.Row(0).Result; !slices.Contains(p.scene.outcomes, r.Outcome) {
		p.t.Errorf("%s: %s, want one of %q", r.Outcome, r.Detail, p.scene.outcomes)
	}
	if n := len(p.sent()); n < p.scene.writes || n > p.scene.writes+more {
		p.t.Errorf("%d requests, want %d to %d: %v", n, p.scene.writes, p.scene.writes+more, p.requests())
	}
	p.scene.end(p.sweepSite)
	if p.scene.agree != nil {
		p.scene.agree(p.sweepSite)
	}
}

// again returns how many requests a play sends more than usual since one has had trouble.
func (p *play) again() int {
	if p.trouble.name == undisturbed.name || p.trouble.lands && !p.scene.repeats {
		return 0
	}
	return 1
}

// stop pauses or cancels the run of the row that is in progress. The executions have to ask before
// each request from then on.
func (p *play) stop(stop func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error) {
	if p.Row(0).Phase != ledger.PhaseSettled {
		if err := stop(p.Ledger, p.t.Context(), tenant, p.Run.ID); err != nil {
			p.t.Error(err)
		}
	}
	p.Pass(staleAnswer)
}

// takeOver has another execution settle the row that is in progress. That takes longer than the
// first one may rely on the ledger's last answer.
func (p *play) takeOver() {
	if p.Row(0).Phase == ledger.PhaseInProgress {
		p.takeBack(p.session, p.Run)
		p.settle()
		p.Pass(staleAnswer)
	}
}

// disturbances are what happens to a play at a point.
var disturbances = []struct {
	name string
	// ahead is how far ahead of a request that changes the tenant it always happens.
	ahead int
	test  func(p *play, point int)
}{
	{"killed", 0, func(p *play, point int) {
		p.disturb(point, runtime.Goexit)
		p.finish()
		more := p.again()
		if p.scene.repeats {
			more++
		}
		p.check(more)
	}},
	{"worker stops", 1, func(p *play, point int) {
		stopping, most := make(chan struct{}), 0
		p.stopping = stopping
		p.disturb(point, func() {
			close(stopping)
			p.stopping = nil // of the next workers
			most = len(p.sent())
			if p.sending || !p.scene.leaves {
				most++
			}
		})
		p.until(point)
		if n := len(p.sent()); n > most {
			p.t.Errorf("%d requests, want at most %d", n, most)
		}
		p.wantNoAttempt()
		p.finish()
		p.check(p.again())
	}},
	{"taken over", 0, func(p *play, point int) {
		p.frozen = true
		p.disturb(point, p.takeOver)
		p.finish()
		p.check(p.again() + 1) // of an execution that was about to send it
	}},
	{"paused", 0, func(p *play, point int) { p.testStop(point, false, (*ledger.Ledger).Pause) }},
	{"cancelled", 0, func(p *play, point int) { p.testStop(point, false, (*ledger.Ledger).Cancel) }},
	{"taken back and paused", 0, func(p *play, point int) { p.testStop(point, true, (*ledger.Ledger).Pause) }},
	{"taken back and cancelled", 0, func(p *play, point int) { p.testStop(point, true, (*ledger.Ledger).Cancel) }},
}

// wantNoAttempt checks that no attempt of the open row was counted, unless a request had trouble.
func (p *play) wantNoAttempt() {
	p.t.Helper()
	if row := p.Row(0); row.Phase != ledger.PhaseSettled && p.trouble.name == undisturbed.name &&
		row.Checkpoint.Attempts > p.attempts {
		p.t.Errorf("row %+v, want no attempt counted", row)
	}
}

// testStop stops the run at a point, maybe after the ledger has taken the row back from its
// execution. No request begins after that, the row says what the earlier ones have done, and a run
// that was paused continues.
func (p *play) testStop(point int, back bool,
	stop func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error) {
	p.t.Helper()
	most := 0
	p.disturb(point, func() {
		most = len(p.sent())
		if p.sends {
			most++
		}
		if back && p.Row(0).Phase == ledger.PhaseInProgress {
			p.takeBack(p.session, p.Run)
		}
		p.stop(stop)
	})
	p.until(point)
	if p.scene.soon != nil && p.trouble.name == undisturbed.name {
		p.scene.soon(p.sweepSite)
	}
	for range 100 {
		if !p.step() {
			break
		}
	}
	if n := len(p.sent()); n > most {
		p.t.Errorf("%d requests, want at most %d: %v", n, most, p.requests())
	}

	// The row agrees with the tenant.
	row := p.Row(0)
	isChanged := p.changeable() != p.tenant
	isSettled := row.Phase == ledger.PhaseSettled
	switch {
	case isChanged && !p.scene.repeats && !slices.Contains(p.scene.outcomes, row.Result.Outcome):
		p.t.Errorf("the tenant is changed, and the row is %+v", row)
	case !isChanged && p.scene.writes > 0 && isSettled && row.Result.Outcome == ledger.Done:
		p.t.Errorf("the tenant is not changed, and the row is %+v", row)
	case !isSettled && row.Intent != nil:
		p.t.Errorf("nothing is under way, and the row is %+v", row)
	}
	if !back {
		p.wantNoAttempt()
	}
	if p.scene.agree != nil {
		p.scene.agree(p.sweepSite)
	}

	run, err := p.Get(p.t.Context(), "", p.Run.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	switch {
	case run.Cancelled && !isSettled:
		p.t.Errorf("the run is cancelled, and the row is %+v", row)
	case run.Cancelled && !isChanged:
		return
	case run.Cancelled && p.scene.repeats && row.Result.Outcome == ledger.Cancelled:
		return
	case run.Paused && !isSettled:
		if err := p.Resume(p.t.Context(), tenant, p.Run.ID); err != nil {
			p.t.Fatal(err)
		}
	}
	more := p.again()
	if p.scene.repeats {
		more++
	}
	p.finish()
	p.check(more)
}

// apart is the distance between the points that are disturbed. More of those are that lie around a
// request that changes the tenant, or its intent.
func apart(point string) int {
	_, call, _ := strings.Cut(point, " ")
	if call == "intend" || slices.Contains(writing, "before "+call) {
		return redistest.Stride(7)
	}
	return redistest.Stride(29)
}

// writing are the points before requests that change the tenant.
var writing = []string{"before PATCH", "before POST", "before DELETE"}

// TestDisturbed disturbs a row of each kind before and after each call of the API, of the ledger
// and of the states of domains, or at some of these points.
func TestDisturbed(t *testing.T) {
	all := scenes()
	for _, kind := range tasks.All() {
		if !slices.ContainsFunc(all, func(c scene) bool { return string(c.kind) == kind.Name }) {
			t.Errorf("no scene has a row of kind %s", kind.Name)
		}
	}
	for i, c := range all {
		t.Run(string(c.kind)+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, i)
		})
	}
}

// test disturbs the nth scene. Each begins at other points than the one before.
func (c scene) test(t *testing.T, n int) {
	// Without a disturbance, also of a write that has trouble.
	var calm []*play
	for _, trouble := range slices.Insert(slices.Clone(troubles[:3]), 0, undisturbed) {
		t.Run(trouble.name, func(t *testing.T) {
			p := c.play(t, trouble, 0, true)
			p.finish()
			p.check(p.again())
			p.wantWaits()
			calm = append(calm, p)
		})
		if c.writes == 0 || c.alone {
			break
		}
	}

	// Each request has each trouble.
	for i, trouble := range troubles {
		for request := range len(calm[0].requests()) - calm[0].requested {
			if c.alone || (n+i+request)%redistest.Stride(3) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s at request %d", trouble.name, request), func(t *testing.T) {
				p := c.play(t, trouble, request, false)
				p.finish()
				p.check(p.again())
				p.wantWaits()
			})
		}
	}

	// Each point has each disturbance, and others if a write has trouble as well.
	for i, without := range calm {
		for j, d := range disturbances {
			for point, name := range without.names {
				next := without.names[min(point+d.ahead, len(without.names)-1)]
				always := i == 0 && slices.Contains(writing, next)
				if !always && (n+i+3*j+point)%apart(name) != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d %s", without.trouble.name, d.name, point, name), func(t *testing.T) {
					d.test(c.play(t, without.trouble, 0, true), point)
				})
			}
		}
	}
}

// wantWaits checks that a request without an answer was sent again only when it could not land any
// more.
func (p *play) wantWaits() {
	p.t.Helper()
	if p.trouble.fault.Status == http.StatusTooManyRequests {
		return
	}
	var last time.Time
	for _, r := range p.sent() {
		if apart := r.At.Sub(last); apart < p.scene.apart-5*time.Second {
			p.t.Errorf("a request %s after the last one", apart)
		}
		last = r.At
	}
}
