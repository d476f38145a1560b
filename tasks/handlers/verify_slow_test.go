package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// looking is a DNS whose checks return the verdicts of look.
type looking struct {
	handlers.DNS
	look func(host string) dnscheck.Verdict
}

func (d looking) Check(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	return d.look(host), nil
}

func (looking) Diagnose(context.Context, string, string, string, dnscheck.Verdict) (d report.Diagnosis, err error) {
	return d, nil
}

// dueAtOnce has rows that wait be due at once.
type dueAtOnce struct{ engine.Ledger }

func (l dueAtOnce) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	for i, e := range ends {
		if w, ok := e.Ending.(ledger.Waiting); ok {
			w.After = 0
			ends[i].Ending = w
		}
	}
	return l.Ledger.End(ctx, seg, n, ends...)
}

// TestVerifyPlaces executes a row while another one is checked. If there is no place for its check,
// or none for that of a slow zone, it leaves its place of the worker, with the record that it has
// read and without an attempt.
func TestVerifyPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		places  *handlers.Places
		reasons []dnscheck.Reason // of each row's former check; nil: there was none
		checked bool              // meanwhile
	}{
		"full":     {handlers.NewPlaces(1, 1), nil, false},
		"slow":     {handlers.NewPlaces(2, 1), []dnscheck.Reason{dnscheck.ReasonTimeout, dnscheck.ReasonTimeout}, false},
		"not slow": {handlers.NewPlaces(2, 1), []dnscheck.Reason{dnscheck.ReasonTimeout, dnscheck.ReasonNoName}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newVerifySite(t)
			s.config.Places = c.places
			s.sandbox.AddOrganization(org, "one")
			var rows []string
			for i := range 2 {
				s.sandbox.AddDomain(org, sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example", i),
					Host: fmt.Sprintf("_ss.d%d.example", i), TXT: "t"})
				rows = append(rows, fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":"ord_%d"}`, org, i))
			}
			var asked []string
			on := func() {}
			s.config.DNS = looking{look: func(host string) dnscheck.Verdict {
				asked = append(asked, host)
				on()
				v := dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout}
				if c.reasons != nil {
					v.Reason = c.reasons[(len(asked)-1)%2]
				}
				if v.Reason == dnscheck.ReasonNoName {
					v.State = dnscheck.Absent
				}
				return v
			}}
			s.Submit(handlers.Verify, rows...)
			worker, _ := s.Worker(func(cfg *engine.Config) {
				cfg.Ledger = dueAtOnce{s.Ledger}
				cfg.Handlers[handlers.Verify] = handlers.NewVerify(s.config)
			})
			released := func() (execute []func()) {
				r, err := s.Release(t.Context(), s.Segment(), ledger.Quota{First: 2, Check: 2})
				if err != nil || len(r.Rows) != 2 {
					t.Fatal(r.Rows, err)
				}
				for _, row := range r.Rows {
					task := s.Message(engine.NewTask(s.Run, s.Segment(), r.Token, row))
					execute = append(execute, func() { _ = worker.ProcessTask(t.Context(), task) })
				}
				return execute
			}
			if c.reasons != nil {
				for _, execute := range released() {
					execute()
				}
			}
			asked = nil
			both := released()
			on = func() {
				on = func() {}
				both[1]()
			}
			both[0]()
			if checked := slices.Contains(asked, "_ss.d1.example"); checked != c.checked || len(asked) == 0 {
				t.Errorf("checked %q at once", asked)
			}
			state := s.Row(1)
			note := ledger.ParseNote(state.Checkpoint.Memo)
			open := evidence.ReadOpen(tasks.TypeVerify, state)
			if state.Phase != ledger.PhaseWaiting || state.Checkpoint.Attempts != 0 ||
				c.reasons == nil && note.Outcome != ledger.Paced || open.Record == nil || open.Record.Host != "_ss.d1.example" {
				t.Errorf("%+v, note %+v, record %+v", state, note, open.Record)
			}
		})
	}
}
