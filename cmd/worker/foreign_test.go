package main

import (
	"net/http"
	"path/filepath"
	"testing"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestForeignChange has the answer to a worker's PATCH lost, and another client verify the
// domain with discovery turned on before the worker reads it. The worker changes nothing of
// that, also if the zone does not answer any more.
func TestForeignChange(t *testing.T) {
	redistest.NeedsLong(t, "builds the commands")
	t.Parallel()
	for name, c := range map[string]struct {
		fault  sandbox.Fault
		silent bool // the zone, from then on
	}{
		"landed":                    {sandbox.Fault{DropAfter: true}, false},
		"not landed, and no answer": {sandbox.Fault{DropBefore: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const servfail = 2
			box := startBox(t, sandbox.Options{})
			f := build(newDesk(t))
			f.env = pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_NO_WORKER_YET": "true"})
			box.AddOrganization("org_1", "one")
			d := box.AddDomain("org_1", sandbox.Domain{ID: "ord_1", Use: new(false)})
			box.SetTXT(d.Host, d.TXT)
			c.fault.Operation, c.fault.Count = sandbox.OpUpdateDiscoveryDomain, 1
			box.AddFault(c.fault)
			// No read after the first one succeeds before the other client has acted.
			acted := box.AddFault(sandbox.Fault{
				Operation: sandbox.OpGetDiscoveryDomain, Skip: 1, Status: http.StatusServiceUnavailable,
			})
			patches := func() (n int) {
				for _, r := range box.Requests() {
					if r.Method == http.MethodPatch && r.Finished {
						n++
					}
				}
				return n
			}

			f.work("one")
			file := filepath.Join(f.dir, "domains.csv")
			write(t, file, "organization_id,discovery_domain_id\norg_1,ord_1\n")
			f.typed("domains", "verify", "--run", "a", file)
			await(t, "the PATCH", func() bool { return patches() == 1 })
			d.Status, d.Use = "verified", new(true)
			box.SetDomain("org_1", d)
			if c.silent {
				box.SetRCode(d.Host, servfail, -1)
			}
			acted()

			if r := f.ended("a"); r.Counts["done"] != 1 {
				t.Errorf("counts %v", r.Counts)
			}
			if now, _ := box.Domain("org_1", "ord_1"); now.Status != "verified" || !*now.Use || patches() != 1 {
				t.Errorf("status %s, discovery %t, %d PATCHes; want it as the other client has set it",
					now.Status, *now.Use, patches())
			}
		})
	}
}
