package main

import (
	"testing"

	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestLostRowsAreTold: by the log, with the command that puts them
// back.
func TestLostRowsAreTold(t *testing.T) {
	d := newDesk(t)
	rows := [][]byte{[]byte(`{"organization_id":"org","discovery_domain_id":"d0"}`)}
	_, _, err := d.ledger.Create(t.Context(), runs.Run{ID: "job", Kind: tasks.TypeVerify, Tenant: tasks.DefaultTenant, Format: "jsonl"})
	if err == nil {
		err = d.ledger.StoreRows(t.Context(), "job", 0, rows)
	}
	if err == nil {
		err = d.ledger.Seal(t.Context(), "job", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	box := startBox(t, sandbox.Options{})
	p := begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"}))
	p.says("rows lost: they are open and have no task", map[string]string{"run": "job", "command": "enqueue runs repair job"})
	if got := d.run("job").Lost; got != 1 {
		t.Errorf("the run says %d, want 1", got)
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
}
