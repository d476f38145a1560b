package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestSweepOmittedFlag sweeps a tenant that omits use_for_organization_discovery from its
// records, and sets it to true if a PATCH omits it. The sweep reports the lost domain of such
// a record, and acts on it once the record has its flag. A flag taken away from a record that
// had one is not restored while the record has none.
func TestSweepOmittedFlag(t *testing.T) {
	redistest.NeedsLong(t, "builds the commands")
	t.Parallel()
	for action, taken := range map[string]string{
		"unroute": `{"use_for_organization_discovery":false}`, "pending": `{"status":"pending","use_for_organization_discovery":true}`,
	} {
		t.Run(action, func(t *testing.T) {
			s := &flagSweeps{fleet: build(newDesk(t)), box: startBox(t, sandbox.Options{FlagDefault: sandbox.FlagTrue}), action: action}
			s.env = pointedAt(s.box, redistest.URL(t), map[string]string{"ORGOPS_NO_WORKER_YET": "true"})
			s.add("ord_omits", nil)
			s.add("ord_has", new(true))
			for range 3 {
				s.sweep()
			}
			s.wantPatches("ord_omits")
			s.wantPatches("ord_has", taken)
			s.wantHistory("ord_omits", "reported", "has no use_for_organization_discovery, and "+action, "use absent-action report")
			if n := s.lost("ord_omits"); n != 1 {
				t.Errorf("the loss was reported %d times, want once", n)
			}

			for _, name := range []string{"ord_omits", "ord_has"} {
				d := s.flag(name, nil)
				s.box.SetTXT(d.Host, d.TXT)
			}
			s.sweep()
			s.wantPatches("ord_omits")
			if action == "pending" { // the flag is known: it was read when the status was changed
				s.wantPatches("ord_has", taken, `{"status":"verified","use_for_organization_discovery":true}`)
				return
			}
			s.wantPatches("ord_has", taken)
			s.wantHistory("ord_has", "not restored", "has no use_for_organization_discovery")
			s.flag("ord_has", new(false))
			s.sweep()
			s.wantPatches("ord_has", taken, `{"use_for_organization_discovery":true}`)
		})
	}
}

// flagSweeps are sweeps of a tenant with that action.
type flagSweeps struct {
	*fleet
	box    *sandbox.Sandbox
	action string
	last   int64 // when the last one began, a Unix second
}

func (s *flagSweeps) add(domain string, use *bool) {
	s.box.AddDomain("org_1", sandbox.Domain{ID: domain, Status: "verified", Use: use})
}

// flag sets the flag of a record; nil: the record omits it.
func (s *flagSweeps) flag(domain string, use *bool) sandbox.Domain {
	s.t.Helper()
	d, ok := s.box.Domain("org_1", domain)
	if !ok {
		s.t.Fatalf("domain %s is not there", domain)
	}
	d.Use = use
	s.box.SetDomain("org_1", d)
	return d
}

// sweep starts a sweep, later than the grace after the last one, and runs a worker until all
// its work is done.
func (s *flagSweeps) sweep() {
	s.t.Helper()
	await(s.t, "the grace", func() bool { return time.Now().Unix() > s.last+1 })
	s.last = time.Now().Unix()
	s.typed("domains", "sweep")
	if err := s.command(s.action, "worker", "--drain", "--absent-action", s.action, "--grace", "1s", "--absent-checks", "2").Run(); err != nil {
		s.t.Fatalf("worker: %v; its log: %v", err, s.log(s.action))
	}
}

func (s *flagSweeps) wantHistory(domain string, parts ...string) {
	s.t.Helper()
	history := s.typed("domains", "history", "--domain", domain)
	for _, part := range parts {
		if !strings.Contains(history, part) {
			s.t.Errorf("the history of %s does not mention %q:\n%s", domain, part, history)
		}
	}
}

// wantPatches compares the bodies of the PATCHes of a domain.
func (s *flagSweeps) wantPatches(domain string, bodies ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain && r.Domain == domain {
			got = append(got, r.Body)
		}
	}
	if !slices.Equal(got, bodies) {
		s.t.Errorf("domain %s has PATCHes %q, want %q", domain, got, bodies)
	}
}

// lost counts the events of the log that say that a domain is lost.
func (s *flagSweeps) lost(domain string) (n int) {
	s.t.Helper()
	for _, line := range s.log(s.action) {
		if line["event"] == "domain.lost" && line["discovery_domain_id"] == domain {
			n++
		}
	}
	return n
}
