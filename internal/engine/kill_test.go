package engine_test

import (
	"testing"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

// TestKill kills a worker before and after each call of an update, to the ledger and to the
// API. In every case the row settles as done once, and a second PATCH is sent only after a read.
func TestKill(t *testing.T) {
	t.Parallel()
	anywhere(t, 5, beforeAndAfter, func(t *testing.T, sab *saboteur) {
		s := scene{site: newSite(t), kind: handlers.Update}
		s.handler = func(sab *saboteur) engine.Handler {
			if sab == nil {
				return s.updates(s.api)
			}
			return s.updates(steppedDomains{s.api, s.api, sab.step})
		}
		d := s.update()
		s.kill(sab)
		s.wantOnce(d.ID, sab.acted)
	})
}

// wantOnce checks that the row is done, that the domain has the requested state, and that no
// PATCH followed another without a read.
func (s *site) wantOnce(domain, died string) {
	s.t.Helper()
	counts := s.counts()
	if counts[ledger.Done]+counts[engine.Unchanged] != 1 || counts.Settled() != 1 {
		s.t.Errorf("died at %s: counts %v", died, counts)
	}
	if d, _ := s.sandbox.Domain(org, domain); d.Status != "pending" || *d.Use {
		s.t.Errorf("died at %s: status %s, flag %t", died, d.Status, *d.Use)
	}
	patches := 0
	last := ""
	for _, method := range s.requests() {
		if method == "PATCH" {
			patches++
			if last == "PATCH" {
				s.t.Errorf("died at %s: a PATCH after a PATCH: %v", died, s.requests())
			}
		}
		last = method
	}
	if patches != 1 {
		s.t.Errorf("died at %s: %d PATCHes", died, patches)
	}
}
