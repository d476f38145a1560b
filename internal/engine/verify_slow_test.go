package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"orgops/dnscheck"
	"orgops/internal/engine"
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

func (looking) Diagnose(context.Context, string, string, string, dnscheck.Verdict) (d dnscheck.Diagnosis, err error) {
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

// TestVerifySlowPlaces has rows of silent zones in progress at once. At most SlowPlaces of
// them query DNS once they are known to be slow, and none delays another row.
func TestVerifySlowPlaces(t *testing.T) {
	s := newVerifySite(t)
	const slow = 4
	for i := range slow + 1 {
		s.sandbox.AddDomain(org, sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example", i),
			Host: fmt.Sprintf("_ss.d%d.example", i), TXT: "t"})
	}
	var mu sync.Mutex
	var asked []string
	hold, holding := make(chan struct{}), false
	s.config.Places = handlers.NewPlaces(100, 1)
	s.config.DNS = looking{look: func(host string) dnscheck.Verdict {
		mu.Lock()
		asked = append(asked, host)
		mu.Unlock()
		if host == fmt.Sprintf("_ss.d%d.example", slow) {
			return dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName}
		}
		if holding {
			<-hold
		}
		return dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout}
	}}
	rows := make([]string, slow+1)
	for i := range rows {
		row, err := json.Marshal(tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: fmt.Sprintf("ord_%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = string(row)
	}
	s.submit(handlers.Verify, rows...)
	worker, _ := s.site.worker(func(c *engine.Config) {
		c.Ledger, c.Handlers = dueAtOnce{s.Ledger},
			map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(s.config)}
	})
	// round begins an execution of each row, all at once.
	round := func() (ended chan struct{}) {
		r, err := s.Release(t.Context(), s.segment(), ledger.Quota{First: slow + 1, Check: slow + 1})
		if err != nil || len(r.Rows) != slow+1 {
			t.Fatal(r.Rows, err)
		}
		ended = make(chan struct{}, slow+1)
		for _, row := range r.Rows {
			task := s.task(engine.NewTask(s.run, s.segment(), r.Token, row))
			go func() {
				_ = worker.ProcessTask(t.Context(), task)
				ended <- struct{}{}
			}()
		}
		return ended
	}
	for ended, n := round(), 0; n < slow+1; n++ {
		<-ended
	}
	if len(asked) != slow+1 {
		t.Fatalf("first checks: %q", asked)
	}
	asked, holding = nil, true
	ended := round()
	for range slow { // all rows but one
		<-ended
	}
	close(hold)
	<-ended
	if len(asked) != 2 {
		t.Errorf("asked %q at once, want one slow zone and the other one", asked)
	}
}

// TestVerifyPlaces has more checks in progress than there are places: a row that finds
// none leaves its place of the worker, with the record that it has read and without an
// attempt.
func TestVerifyPlaces(t *testing.T) {
	s := newVerifySite(t)
	rows := make([]string, 2)
	for i := range rows {
		s.sandbox.AddDomain(org, sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example", i),
			Host: fmt.Sprintf("_ss.d%d.example", i), TXT: "t"})
		rows[i] = fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":"ord_%d"}`, org, i)
	}
	asked, hold := make(chan string, len(rows)), make(chan struct{})
	s.config.Places = handlers.NewPlaces(1, 1)
	s.config.DNS = looking{look: func(host string) dnscheck.Verdict {
		asked <- host
		<-hold
		return dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName}
	}}
	s.submit(handlers.Verify, rows...)
	worker, _ := s.site.worker(func(c *engine.Config) {
		c.Ledger, c.Handlers = s.Ledger, map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(s.config)}
	})
	r, err := s.Release(t.Context(), s.segment(), ledger.Quota{First: 2})
	if err != nil || len(r.Rows) != 2 {
		t.Fatal(r.Rows, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = worker.ProcessTask(t.Context(), s.task(engine.NewTask(s.run, s.segment(), r.Token, r.Rows[0])))
	}()
	<-asked
	_ = worker.ProcessTask(t.Context(), s.task(engine.NewTask(s.run, s.segment(), r.Token, r.Rows[1])))
	state := s.row(1)
	note := engine.ParseNote(state.Checkpoint.Memo)
	open, err := handlers.ReadOpenVerify(note.Memo, nil)
	if err != nil || state.Phase != ledger.PhaseWaiting || state.Checkpoint.Attempts != 0 ||
		note.Outcome != engine.Paced || open.Record == nil || open.Record.Host != "_ss.d1.example" {
		t.Errorf("%+v, note %+v, record %+v, %v", state, note, open.Record, err)
	}
	if len(asked) > 0 {
		t.Errorf("%s was checked without a place", <-asked)
	}
	close(hold)
	<-ended
}
