package main

import (
	"fmt"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestPending checks that a worker configured with the tenant's name alone finds the pending
// domains and verifies them.
func TestPending(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	for i := range 120 {
		d := box.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i)})
		box.SetTXT(d.Host, d.TXT)
	}
	d := newDesk(t)
	if _, _, err := intake.New(d.redis, d.ledger).BeginPending(t.Context(), "",
		ledger.NewRun{ID: "job", Tenant: "default"}); err != nil {
		t.Fatal(err)
	}
	p := begin(t, pointedAt(box, redistest.URL(t), nil), "--drain") // waits for the run, sealed or not
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	if r := d.run("job"); !r.Ended() || r.Counts["done"] != 120 {
		t.Errorf("run %+v, want 120 done", r)
	}
}
