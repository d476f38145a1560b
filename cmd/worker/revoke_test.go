package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestRevoke sweeps a tenant, whose domains another client has verified, until they are lost, and
// revokes them by the command: one whose record has its flag, and not one that omits it, which the
// tenant sets to true if a PATCH omits it. A sweep restores the domain once its token is published,
// and the printed undo another one.
func TestRevoke(t *testing.T) {
	redistest.NeedsLong(t, "builds the commands")
	t.Parallel()
	for set, bodies := range map[string][2]string{
		"unroute": {`{"use_for_organization_discovery":false}`, `{"use_for_organization_discovery":true}`},
		"pending": {`{"status":"pending","use_for_organization_discovery":true}`,
			`{"status":"verified","use_for_organization_discovery":true}`},
	} {
		t.Run(set, func(t *testing.T) {
			box := startBox(t, sandbox.Options{FlagDefault: sandbox.FlagTrue})
			s := &sweeps{fleet: newFleet(newDesk(t), box, redistest.URL(t), nil), name: set}
			names := []string{"ord_omits", "ord_has", "ord_undone"}
			for _, name := range names {
				d := sandbox.Domain{ID: name, Status: "verified", Use: new(true)}
				if name == "ord_omits" {
					d.Use = nil
				}
				d = s.box.AddDomain("org_1", d)
				s.box.SetTXT(d.Host, d.TXT)
			}
			s.sweep()
			for _, name := range names {
				s.wantHistory(name, "proven at ")
				d, _ := s.box.Domain("org_1", name)
				s.box.SetTXT(d.Host)
			}
			for range 3 {
				s.sweep()
			}
			for _, name := range names {
				s.wantPatches(name)
				if n := s.lost(name); n != 1 {
					t.Errorf("the loss of %s was notified %d times, want once", name, n)
				}
			}
			if shown := s.typed("domains", "revoke", "--dry-run"); !strings.Contains(shown,
				"its record has no use_for_organization_discovery") || !strings.Contains(shown, "to be revoked: pending") {
				t.Errorf("dry run:\n%s", shown)
			}
			run := strings.TrimSpace(s.typed("domains", "revoke", "--yes", "--set", set))
			s.drain()
			if c := s.run(run).Counts; c["done"] != 2 || len(c) != 1 {
				t.Errorf("run %s: %v", run, c)
			}
			s.wantPatches("ord_omits")
			s.wantPatches("ord_has", bodies[0])
			s.wantHistory("ord_has", "revoked: "+set, "by run "+run)
			if shown := s.typed("tenant", "show", "default"); !strings.Contains(shown, "1 lost, 2 revoked since") {
				t.Errorf("the tenant is shown as\n%s", shown)
			}

			s.publish("ord_has")
			s.sweep()
			s.wantPatches("ord_has", bodies[0], bodies[1])
			s.wantPatches("ord_undone", bodies[0])
			s.publish("ord_undone")
			s.undo(run) // as the command has printed it
			s.drain()
			s.wantPatches("ord_undone", bodies[0], bodies[1])
			s.wantPatches("ord_has", bodies[0], bodies[1])
			all := s.typed("activity", "--json")
			for action, n := range map[string]int{"sweep started": 5, "sweep completed": 5, "revoked": 2, "restored": 2,
				"submitted": 2} {
				if got := strings.Count(all, `"action":"`+action+`"`); got != n {
					t.Errorf("activity: %s %d times, want %d:\n%s", action, got, n, all)
				}
			}
		})
	}
}

// sweeps are those of a tenant.
type sweeps struct {
	*fleet
	name string
	last int64 // when the last one began, a Unix second
	logs int
}

// publish publishes the token of a domain.
func (s *sweeps) publish(domain string) {
	s.t.Helper()
	d, ok := s.box.Domain("org_1", domain)
	if !ok {
		s.t.Fatalf("domain %s is not there", domain)
	}
	s.box.SetTXT(d.Host, d.TXT)
}

// sweep starts a sweep, later than the grace after the last one, and runs a worker until all
// its work is done.
func (s *sweeps) sweep() {
	s.t.Helper()
	await(s.t, "the grace", func() bool { return time.Now().Unix() > s.last+1 })
	s.last = time.Now().Unix()
	s.typed("domains", "sweep")
	s.drain()
}

// drain runs a worker until all its work is done.
func (s *sweeps) drain() {
	s.t.Helper()
	s.logs++
	log := fmt.Sprint(s.name, s.logs)
	if err := s.command(log, "worker", "--drain", "--grace", "1s", "--absent-checks", "2").Run(); err != nil {
		s.t.Fatalf("worker: %v; its log: %v", err, s.log(log))
	}
}

func (s *sweeps) wantHistory(domain string, parts ...string) {
	s.t.Helper()
	history := s.typed("domains", "history", domain)
	for _, part := range parts {
		if !strings.Contains(history, part) {
			s.t.Errorf("the history of %s does not mention %q:\n%s", domain, part, history)
		}
	}
}

// wantPatches compares the bodies of the PATCHes of a domain.
func (s *sweeps) wantPatches(domain string, bodies ...string) {
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
func (s *sweeps) lost(domain string) (n int) {
	s.t.Helper()
	for i := range s.logs {
		for _, line := range s.log(fmt.Sprint(s.name, i+1)) {
			if line["event"] == "domain.lost" && line["discovery_domain_id"] == domain {
				n++
			}
		}
	}
	return n
}
