package handlers_test

import (
	"context"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

// point has something happen at a point of an execution.
func (s *site) point(name string) {
	s.points++
	s.on(name)
}

// around makes a call of an execution between two points.
func (s *site) around(call string, f func()) {
	s.point("before " + call)
	f()
	s.point("after " + call)
}

// at has act be called once, at the point of that number from now on, from 0. It returns the name
// of the point, which is empty until then.
func (s *site) at(point int, act func()) *string {
	reached, left := "", point
	s.on = func(name string) {
		if left--; left < 0 {
			reached, s.on = name, func(string) {}
			act()
		}
	}
	return &reached
}

// calm ends what at has begun, so that later executions are left alone.
func (s *site) calm() { s.on = func(string) {} }

// executed executes a task in a worker, and reports whether it has survived that.
func executed(ctx context.Context, worker *engine.Engine, task *asynq.Task) (survived bool) {
	var life sync.WaitGroup
	life.Go(func() {
		_ = worker.ProcessTask(ctx, task)
		survived = true
	})
	life.Wait()
	return survived
}

// stepped is a ledger of which each call of an execution is a step.
type stepped struct {
	engine.Ledger
	step func(name string, call func())
}

func (l stepped) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (b ledger.Begun, err error) {
	l.step("begin", func() { b, err = l.Ledger.Begin(ctx, seg, e, rows...) })
	return b, err
}

func (l stepped) Intend(ctx context.Context, seg ledger.Segment, n ledger.Nonce, intent []byte,
	rows ...ledger.Row) (r ledger.Receipt, err error) {
	l.step("intend", func() { r, err = l.Ledger.Intend(ctx, seg, n, intent, rows...) })
	return r, err
}

func (l stepped) Withdraw(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	rows ...ledger.Row) (r ledger.Receipt, err error) {
	l.step("withdraw", func() { r, err = l.Ledger.Withdraw(ctx, seg, n, rows...) })
	return r, err
}

func (l stepped) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (r ledger.Receipt, err error) {
	l.step("end", func() { r, err = l.Ledger.End(ctx, seg, n, ends...) })
	return r, err
}

// steppedDomains are the domains of an API of which each call is a step.
type steppedDomains struct {
	handlers.Domains
	step func(name string, call func())
}

func (d steppedDomains) DiscoveryDomain(ctx context.Context,
	organization, domain string) (found schema.DiscoveryDomain, err error) {
	d.step("GET", func() { found, err = d.Domains.DiscoveryDomain(ctx, organization, domain) })
	return found, err
}

func (d steppedDomains) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (changed schema.DiscoveryDomain, err error) {
	d.step("PATCH", func() { changed, err = d.Domains.UpdateDiscoveryDomain(ctx, organization, domain, u, intent) })
	return changed, err
}

// steppedList is the list of an API's domains of which each call is a step.
type steppedList struct {
	handlers.DomainList
	step func(name string, call func())
}

func (d steppedList) DiscoveryDomainsPage(ctx context.Context, organization,
	from string) (page []apiclient.Listed[schema.DiscoveryDomain], next string, err error) {
	d.step("list", func() { page, next, err = d.DomainList.DiscoveryDomainsPage(ctx, organization, from) })
	return page, next, err
}

func (s *site) reclaim(session ledger.SessionID) {
	s.t.Helper()
	if _, _, err := s.Reclaim(s.t.Context(), s.Segment(), session); err != nil {
		s.t.Fatal(err)
	}
}

// staleAnswer is longer than an execution may rely on the ledger's last answer.
const staleAnswer = 1100 * time.Millisecond

// stops are the ways in which a run is stopped.
var stops = map[string]func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error{
	"pause": (*ledger.Ledger).Pause, "cancel": (*ledger.Ledger).Cancel,
}
