package tasks_test

import (
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
