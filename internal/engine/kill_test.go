package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

// mortal ends its worker, as kill -9 does, before or after the call of that number.
type mortal struct {
	engine.Ledger
	api   handlers.Domains
	call  int // that ends the worker, from 0
	after bool
	n     int
	died  string // the call that ended the worker
}

func (m *mortal) step(name string, call func()) {
	n := m.n
	m.n++
	if n == m.call && !m.after {
		m.died = "before " + name
		runtime.Goexit()
	}
	call()
	if n == m.call && m.after {
		m.died = "after " + name
		runtime.Goexit()
	}
}

func (m *mortal) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (b ledger.Begun, err error) {
	m.step("begin", func() { b, err = m.Ledger.Begin(ctx, seg, e, rows...) })
	return b, err
}

func (m *mortal) Intend(ctx context.Context, seg ledger.Segment, n ledger.Nonce, intent []byte,
	rows ...ledger.Row) (r ledger.Receipt, err error) {
	m.step("intend", func() { r, err = m.Ledger.Intend(ctx, seg, n, intent, rows...) })
	return r, err
}

func (m *mortal) Withdraw(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	rows ...ledger.Row) (r ledger.Receipt, err error) {
	m.step("withdraw", func() { r, err = m.Ledger.Withdraw(ctx, seg, n, rows...) })
	return r, err
}

func (m *mortal) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (r ledger.Receipt, err error) {
	m.step("end", func() { r, err = m.Ledger.End(ctx, seg, n, ends...) })
	return r, err
}

func (m *mortal) DiscoveryDomain(ctx context.Context,
	organization, domain string) (d apiclient.DiscoveryDomain, err error) {
	m.step("GET", func() { d, err = m.api.DiscoveryDomain(ctx, organization, domain) })
	return d, err
}

func (m *mortal) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u apiclient.DiscoveryDomainUpdate) (d apiclient.DiscoveryDomain, err error) {
	m.step("PATCH", func() { d, err = m.api.UpdateDiscoveryDomain(ctx, organization, domain, u) })
	return d, err
}

// die executes a task in a worker that dies, and has the ledger take its rows back.
func (s *site) die(m *mortal) {
	s.t.Helper()
	worker, session := s.worker(func(c *engine.Config) {
		c.Ledger, c.Handlers = m, map[ledger.Kind]engine.Handler{handlers.Update: s.updates(m)}
	})
	worker.StopClock()
	task := s.release()
	var life sync.WaitGroup
	life.Go(func() { _ = worker.ProcessTask(s.t.Context(), task) })
	life.Wait()
	if _, _, err := s.Reclaim(s.t.Context(), s.segment(), session); err != nil {
		s.t.Fatal(err)
	}
	// A release without a begin lapses after ten seconds; the same task does as well.
	survivor, _ := s.worker()
	_ = survivor.ProcessTask(s.t.Context(), task)
}

// TestKill kills a worker before and after each call of an update, to the ledger and to the
// API, with an undisturbed tenant and with one whose answers are lost. In every case the row
// settles as done once, and a second PATCH is sent only after a read.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for call := 0; ; call++ {
			m := &mortal{call: call, after: after}
			t.Run(fmt.Sprintf("call %d after %t", call, after), func(t *testing.T) {
				s := newSite(t)
				d := s.update()
				m.Ledger, m.api = s.Ledger, s.api
				s.die(m)
				survivor, _ := s.worker()
				s.drain(survivor)
				s.wantOnce(d.ID, m.died)
			})
			if m.died == "" {
				if call < 5 {
					t.Errorf("an update made %d calls", call)
				}
				break
			}
		}
	}
}

// wantOnce checks that the row is done, that the domain has the requested state, and that no
// PATCH followed another without a read.
func (s *site) wantOnce(domain, died string) {
	s.t.Helper()
	counts := s.counts()
	if counts[ledger.Done]+counts[engine.Unchanged] != 1 || counts.Settled() != 1 {
		s.t.Errorf("died %s: counts %v", died, counts)
	}
	if d, _ := s.sandbox.Domain(org, domain); d.Status != "pending" || *d.Use {
		s.t.Errorf("died %s: status %s, flag %t", died, d.Status, *d.Use)
	}
	patches := 0
	last := ""
	for _, method := range s.requests() {
		if method == "PATCH" {
			patches++
			if last == "PATCH" {
				s.t.Errorf("died %s: a PATCH after a PATCH: %v", died, s.requests())
			}
		}
		last = method
	}
	if patches == 0 || patches > 1 && died != "before PATCH" {
		s.t.Errorf("died %s: %d PATCHes", died, patches)
	}
}
