package engine_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks/handlers"
)

// saboteur calls act before or after the call of that number, to the ledger or to the
// API.
type saboteur struct {
	call  int // from 0
	after bool
	act   func()
	n     int
	acted string // the call; empty: there was no call of that number
}

func (s *saboteur) step(name string, call func()) {
	n := s.n
	s.n++
	s.at(n, false, name)
	call()
	s.at(n, true, name)
}

func (s *saboteur) at(n int, after bool, name string) {
	if n == s.call && after == s.after {
		s.acted = fmt.Sprintf("%s, after %t", name, after)
		s.act()
	}
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
	list handlers.DomainList
	step func(name string, call func())
}

func (d steppedDomains) DiscoveryDomain(ctx context.Context,
	organization, domain string) (found apiclient.DiscoveryDomain, err error) {
	d.step("GET", func() { found, err = d.Domains.DiscoveryDomain(ctx, organization, domain) })
	return found, err
}

func (d steppedDomains) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u apiclient.DiscoveryDomainUpdate) (changed apiclient.DiscoveryDomain, err error) {
	d.step("PATCH", func() { changed, err = d.Domains.UpdateDiscoveryDomain(ctx, organization, domain, u) })
	return changed, err
}

func (d steppedDomains) DiscoveryDomainsPage(ctx context.Context, organization,
	from string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error) {
	d.step("list", func() { page, next, err = d.list.DiscoveryDomainsPage(ctx, organization, from) })
	return page, next, err
}

// scene is a site with rows of a kind.
type scene struct {
	*site
	kind ledger.Kind
	// handler returns the handler; sab, if not nil, counts the calls of its API.
	handler func(sab *saboteur) engine.Handler
}

// on returns a worker whose calls the saboteur counts.
func (s scene) on(sab *saboteur) (*engine.Engine, ledger.SessionID) {
	e, session := s.worker(func(c *engine.Config) {
		if sab != nil {
			c.Ledger = stepped{c.Ledger, sab.step}
		}
		c.Handlers[s.kind] = s.handler(sab)
	})
	if sab != nil {
		e.StopClock()
	}
	return e, session
}

// kill executes rows in a worker that is killed there, and has another one finish them. The
// last task is delivered to the survivor too: a release without a begin would lapse only after
// ten seconds.
func (s scene) kill(sab *saboteur) {
	s.t.Helper()
	sab.act = runtime.Goexit
	worker, session := s.on(sab)
	var task *asynq.Task
	var life sync.WaitGroup
	life.Go(func() {
		for ; s.counts().Settled() < int64(s.run.Rows); s.rest() {
			for next := s.release(); next != nil; next = s.release() {
				task = next
				_ = worker.ProcessTask(s.t.Context(), task)
			}
		}
	})
	life.Wait()
	s.reclaim(session)
	survivor, _ := s.on(nil)
	_ = survivor.ProcessTask(s.t.Context(), task)
	s.drain(survivor)
}

func (s *site) reclaim(session ledger.SessionID) {
	s.t.Helper()
	if _, _, err := s.Reclaim(s.t.Context(), s.segment(), session); err != nil {
		s.t.Fatal(err)
	}
}

// staleAnswer is longer than an execution may rely on the ledger's last answer.
const staleAnswer = 1100 * time.Millisecond

// The times of a disturbance, as values of saboteur.after.
var (
	beforeAndAfter = []bool{false, true}
	after          = []bool{true}
)

// points yields the points of executions, from first on, at which a test disturbs them, until the
// test ends the loop at one that is not there. There are least points or more. Unless long tests
// run, it yields some of these, of which each is stride from the last. The nth of several loops
// begins at another point than the others, so that together they disturb most points.
func points(t *testing.T, first, least, stride, nth int) iter.Seq[int] {
	return func(yield func(int) bool) {
		point, end := first+3*nth%min(stride, least), first+least
		if redistest.Long() {
			point, end = first, math.MaxInt
		}
		for ; point < end; point += redistest.Stride(stride) {
			if !yield(point) {
				if point < first+least {
					t.Errorf("%d points, want %d", point-first, least)
				}
				return
			}
		}
	}
}

// anywhere calls test for a disturbance at each call of the executions, which make that
// many, or at some of them: see [redistest.Stride].
func anywhere(t *testing.T, calls int, when []bool, test func(t *testing.T, sab *saboteur)) {
	for call := range calls + 1 {
		if call%redistest.Stride(3) != 0 && call != calls {
			continue
		}
		for _, after := range when {
			t.Run(fmt.Sprintf("call %d after %t", call, after), func(t *testing.T) {
				t.Parallel()
				sab := &saboteur{call: call, after: after}
				test(t, sab)
				if (sab.acted == "") != (call == calls) {
					t.Errorf("disturbed %q: want %d calls", sab.acted, calls)
				}
			})
		}
	}
}
