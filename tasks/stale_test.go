package tasks_test

import (
	"net/http"
	"testing"
	"time"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

// Reads of discovery domains are eventually consistent, and answers get lost:
// what a later run then reads must neither lock anyone out nor leave a domain
// verified that nobody has proven.

// lostPatch has the answer to the next PATCH lost after it was carried out.
func (w *world) lostPatch() {
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Count: 1, DropAfter: true})
}

// stale has the read after the next skip ones tell of the record as change
// leaves it.
func (w *world) stale(skip int, change func(*sandbox.Domain)) {
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Skip: skip, Count: 1, Wrong: change})
}

// TestPatchNeverSentAnswersForNothing: the PATCH was refused, so nothing was
// begun; whoever verifies the domain meanwhile is not undone.
func TestPatchNeverSentAnswersForNothing(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{Use: new(false)})
	f := status(http.StatusForbidden)
	f.Operation, f.Count = sandbox.OpUpdateDiscoveryDomain, 1
	f.Body = `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`
	w.sandbox.AddFault(f)
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step()                                    // the look
	w.step()                                    // the confirm that is not let in
	d.TXT, d.Status = "a new token", "verified" // by another, rightly
	w.sandbox.SetDomain(org, d)
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	w.wantFate(run, 0, "refused")
	w.wantStatus(org, dom, "verified")
}

func TestStaleReadAfterALostAnswer(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Domain){
		"pending, as it was":              func(d *sandbox.Domain) { d.Status = "pending" },
		"pending, with the former token":  func(d *sandbox.Domain) { d.TXT, d.Status = "former token", "pending" },
		"verified, with the former token": func(d *sandbox.Domain) { d.TXT = "former token" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.proven(sandbox.Domain{Use: new(false)})
			w.lostPatch()
			run := w.submit(tasks.TypeVerify, verifyRow())
			w.step() // the look
			w.stale(1, change)
			w.drain()
			w.wantFate(run, 0, "done")
			w.wantStatus(org, dom, "verified")
		})
	}
}

// TestLostAnswerAndTheTokenIsGone: the row ends as not proven, so the domain
// must not stay verified.
func TestLostAnswerAndTheTokenIsGone(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = time.Hour })
	d := w.proven(sandbox.Domain{Use: new(false)})
	w.lostPatch()
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step() // the look
	w.step() // the confirm whose answer is lost
	w.wantStatus(org, dom, "verified")
	w.sandbox.AddFault(sandbox.Fault{ // at the first read that PATCH may be under way
		Operation: sandbox.OpGetDiscoveryDomain, Count: 2, Wrong: func(d *sandbox.Domain) { d.Status = "pending" },
	})
	w.sandbox.SetTXT(d.Host, "gone")
	w.drain()
	w.wantFate(run, 0, "expired")
	w.wantStatus(org, dom, "pending")
}

// TestTrustedPayloadIsTakenBack: the payload's host and token are not the
// record's, and the answer that would have told so is lost.
func TestTrustedPayloadIsTakenBack(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp, s.tasks.TrustPayload = time.Hour, true })
	w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	w.sandbox.SetTXT("_x.mine.example", "mine")
	w.lostPatch()
	run := w.submit(tasks.TypeVerify, verifyRow("verification_host", "_x.mine.example", "verification_txt", "mine", "use_for_organization_discovery", true))
	w.step()                           // the look
	w.step()                           // the confirm whose answer is lost
	w.wantStatus(org, dom, "verified") // the danger
	w.sandbox.SetTXT("_x.mine.example", "gone")
	w.drain()
	w.wantFate(run, 0, "refused")
	w.wantStatus(org, dom, "pending")
}

// TestALookLeavesNoIntentBehind: the run was paused and resumed after a PATCH
// that landed on a record of another token. To a look the domain reads verified.
func TestALookLeavesNoIntentBehind(t *testing.T) {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{Use: new(false)})
	run := w.submit(tasks.TypeVerify, verifyRow())
	in := row("domain", d.Domain, "host", d.Host, "txt", d.TXT, "former", "pending", "at", w.clock.now().Format(time.RFC3339))
	if _, err := w.ledger.Begin(t.Context(), run, 0, 0, "intent", []byte(in), nil); err != nil {
		t.Fatal(err)
	}
	d.TXT, d.Status = "another", "verified"
	w.sandbox.SetDomain(org, d)
	w.drain()
	w.wantFate(run, 0, "refused")
	w.wantStatus(org, dom, "pending")
}

// TestUpdateIsSetThoughItReadsSo: a stale read must not keep a revocation from
// being carried out.
func TestUpdateIsSetThoughItReadsSo(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false), Status: "verified"})
	w.stale(0, func(d *sandbox.Domain) { d.Status = "pending" })
	run := w.submit(tasks.TypeUpdate, row("organization_id", org, "discovery_domain_id", dom, "status", "pending"))
	w.drain()
	w.wantFate(run, 0, "unchanged")
	w.wantStatus(org, dom, "pending")
}

// TestEqualTemplatesInOneRun: one row has created it; the other's POST met a
// 409, and a list that fails does not make it that row's own.
func TestEqualTemplatesInOneRun(t *testing.T) {
	w := newWorld(t)
	run := w.submit(tasks.TypeCreate, template, template)
	f := status(http.StatusServiceUnavailable)
	f.Operation, f.Count = sandbox.OpListTemplates, 1
	w.sandbox.AddFault(f)
	w.drain()
	outcomes := map[string]int{}
	for item := range int64(2) {
		outcome, _ := w.fate(run, item)
		outcomes[outcome]++
	}
	if outcomes["done"] != 1 || outcomes["unchanged"] != 1 {
		t.Errorf("got %v, want one done and one unchanged", outcomes)
	}
	if n := len(w.sandbox.Templates()); n != 1 {
		t.Errorf("%d templates, want 1", n)
	}
}

// TestRefusedAfterALostAnswer: the first PATCH has landed, the second is refused:
// the row is open until it is known what the domain is.
func TestRefusedAfterALostAnswer(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false)})
	w.lostPatch()
	f := status(http.StatusBadRequest)
	f.Operation, f.Count = sandbox.OpUpdateDiscoveryDomain, 1
	w.sandbox.AddFault(f)
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step() // the look
	w.step() // the confirm whose answer is lost
	w.stale(0, func(d *sandbox.Domain) { d.Status = "pending" })
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}
