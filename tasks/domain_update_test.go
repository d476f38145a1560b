package tasks_test

import (
	"net/http"
	"testing"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

func TestUpdate(t *testing.T) {
	for _, test := range []struct {
		name     string
		unproven bool
		domain   sandbox.Domain
		old      bool
		row      []any
		outcome  string
		status   string
		flag     bool
		patches  int
	}{
		{name: "to verified is refused", domain: sandbox.Domain{Use: new(true)}, row: []any{"status", "verified"}, outcome: "refused", status: "pending", flag: true},
		{name: "to verified with the flag is refused", domain: sandbox.Domain{Use: new(false)}, row: []any{"status", "verified", "use_for_organization_discovery", true}, outcome: "refused", status: "pending"},
		{name: "to verified where that is allowed", unproven: true, domain: sandbox.Domain{Use: new(false)}, row: []any{"status", "verified"}, outcome: "done", status: "verified", patches: 1},
		{name: "status alone sends the flag as read", domain: sandbox.Domain{Status: "verified", Use: new(false)}, row: []any{"status", "pending"}, outcome: "done", status: "pending", patches: 1},
		{name: "status that is so already", domain: sandbox.Domain{Use: new(false)}, row: []any{"status", "pending"}, outcome: "unchanged", status: "pending", patches: 1},
		{name: "flag alone", domain: sandbox.Domain{Status: "verified", Use: new(false)}, row: []any{"use_for_organization_discovery", true}, outcome: "done", status: "verified", flag: true, patches: 1},
		{name: "both", domain: sandbox.Domain{Status: "verified", Use: new(true)}, row: []any{"status", "pending", "use_for_organization_discovery", false}, outcome: "done", status: "pending", patches: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.sandbox.FlagDefault, s.tasks.AllowUnproven = sandbox.FlagTrue, test.unproven })
			test.domain.ID = dom
			w.sandbox.AddDomain(org, test.domain)
			run := w.submit(tasks.TypeUpdate, verifyRow(test.row...))
			w.drain()
			w.wantFate(run, 0, test.outcome)
			w.wantStatus(org, dom, test.status)
			if d := w.domain(org, dom); *d.Use != test.flag {
				t.Errorf("use_for_organization_discovery is %t, want %t", *d.Use, test.flag)
			}
			if n := len(w.writes()); n != test.patches {
				t.Errorf("%d PATCHes, want %d", n, test.patches)
			}
		})
	}
}

// TestUpdateAnsweredOtherwise: an answer that does not say what was sent is
// trouble, not success.
func TestUpdateAnsweredOtherwise(t *testing.T) {
	for name, wrong := range map[string]func(*sandbox.Domain){
		"status": func(d *sandbox.Domain) { d.Status = "verified" },
		"flag":   func(d *sandbox.Domain) { d.Use = new(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified", Use: new(true)})
			w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Wrong: wrong, Count: 1})
			run := w.submit(tasks.TypeUpdate, verifyRow("status", "pending", "use_for_organization_discovery", false))
			n := w.step()
			w.wantFate(run, 0, "open", "transient")
			if n.retried != 1 {
				t.Errorf("%d attempts counted, want 1", n.retried)
			}
			w.drain()
			w.wantFate(run, 0, "done")
		})
	}
}

// TestUpdateRefusedAfterALostAnswer: a refusal, or a cancel, is no word on the PATCH
// before it, whose answer was lost; the record is.
func TestUpdateRefusedAfterALostAnswer(t *testing.T) {
	refuse := func(w *world) {
		f := status(http.StatusForbidden)
		f.Operation = sandbox.OpUpdateDiscoveryDomain
		w.sandbox.AddFault(f)
	}
	cancel := func(w *world) { w.cancelRun() }
	for _, test := range []struct {
		name    string
		lost    sandbox.Fault
		then    func(*world)
		trusted bool
		outcome string
		says    []string
		patches int
	}{
		{"landed, refused", sandbox.Fault{DropAfter: true}, refuse, false, "done", nil, 2},
		{"never arrived, refused", sandbox.Fault{DropBefore: true}, refuse, false, "refused", []string{"403"}, 0},
		{"landed, refused, no reading", sandbox.Fault{DropAfter: true}, refuse, true, "refused", []string{"may have changed the domain nevertheless", "403"}, 2},
		{"landed, cancelled", sandbox.Fault{DropAfter: true}, cancel, false, "done", nil, 1},
		{"never arrived, cancelled", sandbox.Fault{DropBefore: true}, cancel, false, "cancelled", []string{"not as the row asks"}, 1},
		{"landed, cancelled, no reading", sandbox.Fault{DropAfter: true}, cancel, true, "cancelled", []string{"may have changed the domain nevertheless"}, 1},
		{"landed, cancelled, gone", sandbox.Fault{DropAfter: true}, func(w *world) {
			w.cancelRun()
			w.sandbox.RemoveDomain(org, dom)
		}, false, "cancelled", nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.tasks.TrustPayload = test.trusted })
			w.sandbox.AddDomain(org, sandbox.Domain{ID: dom, Status: "verified", Use: new(true)})
			test.lost.Operation, test.lost.Count = sandbox.OpUpdateDiscoveryDomain, 1
			w.sandbox.AddFault(test.lost)
			run := w.submit(tasks.TypeUpdate, row("organization_id", org, "discovery_domain_id", dom, "status", "pending", "use_for_organization_discovery", false))
			w.step()
			w.wantFate(run, 0, "open", "transient")
			test.then(w)
			w.drain()
			w.wantEnded(run)
			w.wantFate(run, 0, test.outcome, test.says...)
			if n := len(w.requests(sandbox.OpUpdateDiscoveryDomain)); test.patches > 0 && n != test.patches {
				t.Errorf("%d PATCHes, want %d", n, test.patches)
			}
		})
	}
}
