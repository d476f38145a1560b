package scan_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// site is a tenant with its ledger in Redis.
type site struct {
	*ledger.Ledger
	t       *testing.T
	sandbox *sandbox.Sandbox
	api     *briefAPI
	lists   scan.API // instead of api; nil: api
	token   apiclient.TokenSource
	log     *slog.Logger
}

// onSite runs a test of a site in a bubble, if the Redis is an embedded one.
func onSite(outer *testing.T, test func(t *testing.T, s *site)) {
	outer.Helper()
	redistest.InBubble(outer, func(t *testing.T, out *redistest.Outside) {
		s := &site{t: t, Ledger: ledger.New(redistest.New(t)), log: slog.New(slog.DiscardHandler)}
		out.Do(func() { // a token expires by the sandbox's clock
			s.sandbox = newSandbox(outer)
			s.api = &briefAPI{Client: newClient(outer, s.sandbox)}
			s.token = apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token()))
		})
		test(t, s)
	})
}

// briefAPI keeps no connection between requests: the time of a bubble stops while a goroutine
// waits for a socket.
type briefAPI struct {
	*apiclient.Client
	seen atomic.Int64
	// at is the number of the request right before which act is called.
	at  int64
	act func()
	// takes is how long each request takes.
	takes time.Duration
}

// requestsOf returns the number of requests of an operation.
func requestsOf(sb *sandbox.Sandbox, operation string) (n int) {
	for _, r := range sb.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

func (a *briefAPI) begin() {
	if a.seen.Add(1) == a.at {
		a.act()
	}
	time.Sleep(a.takes)
}

// OrganizationsPage implements [scan.API].
func (a *briefAPI) OrganizationsPage(ctx context.Context,
	from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	a.begin()
	defer a.CloseIdle()
	return a.Client.OrganizationsPage(ctx, from)
}

// DiscoveryDomainsPage implements [scan.API].
func (a *briefAPI) DiscoveryDomainsPage(ctx context.Context,
	organization, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	a.begin()
	defer a.CloseIdle()
	return a.Client.DiscoveryDomainsPage(ctx, organization, from)
}

// shifting is a list whose pages shift while they are read: each names organizations and
// domains again that one before it has named.
type shifting struct {
	*briefAPI
	before []apiclient.Listed[apiclient.Organization]
}

func (a *shifting) OrganizationsPage(ctx context.Context,
	from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	page, next, err := a.briefAPI.OrganizationsPage(ctx, from)
	page, a.before = append(page, a.before...), page
	return page, next, err
}

func (a *shifting) DiscoveryDomainsPage(ctx context.Context,
	organization, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	page, next, err := a.briefAPI.DiscoveryDomainsPage(ctx, organization, from)
	return append(page, page...), next, err
}

// domains adds organizations with a few domains each, and returns the pending ones.
func (s *site) domains(organizations int) []string {
	for i := range organizations {
		o := fmt.Sprintf("org_%d", i)
		s.sandbox.AddOrganization(o, "")
		for d := range i % 4 {
			s.sandbox.AddDomain(o, sandbox.Domain{
				ID: fmt.Sprintf("ord_%d_%d", i, d), Domain: fmt.Sprintf("d%d.o%d.example.org", d, i),
				Status: []string{"pending", "verified"}[(i+d)%2],
			})
		}
	}
	return pendingDomains(s.sandbox)
}

// pending creates run0, a run of all pending domains.
func (s *site) pending() ledger.Run {
	s.t.Helper()
	progress, err := scan.PendingProgress("")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.create(handlers.Verify, progress)
}

func (s *site) create(kind ledger.Kind, progress []byte) ledger.Run {
	s.t.Helper()
	run, _, err := s.Create(s.t.Context(), ledger.NewRun{ID: run0, Tenant: tenant, Kind: kind, Scan: progress})
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// start runs a worker with a dispatcher for scans until the function that it returns is called.
func (s *site) start(l engine.Ledger) (stop func()) {
	s.t.Helper()
	session := ledger.NewSessionID()
	e := engine.New(engine.Config{
		Tenant: tenant, Ledger: l, Session: session, Logger: s.log,
		Handlers: scan.Handlers(cmp.Or[scan.API](s.lists, s.api), states{}, s.log),
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; _ = engine.Sleep(ctx, 50*time.Millisecond) {
			s.execute(ctx, e, session)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

// execute executes the scan's row if it is due.
func (s *site) execute(ctx context.Context, e *engine.Engine, session ledger.SessionID) {
	if _, err := s.Renew(ctx, ledger.Session{ID: session, Tenants: []ledger.Tenant{tenant}}); err != nil {
		return
	}
	run, err := s.Get(ctx, "", run0)
	if err != nil {
		return
	}
	seg := segment(run, ledger.ScanSegment)
	r, err := s.Release(ctx, seg, ledger.Quota{First: 1, Check: 1, Ready: 1})
	if err != nil || len(r.Rows) == 0 {
		return
	}
	run.Kind = engine.ScanOf(run.Kind)
	payload, err := engine.NewTask(run, seg, r.Token, r.Rows...).Marshal()
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = e.ProcessTask(ctx, asynq.NewTask(string(run.Kind), payload))
}

// header returns run0.
func (s *site) header() ledger.Run {
	s.t.Helper()
	run, err := s.Get(context.WithoutCancel(s.t.Context()), "", run0)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *site) awaitCommit() ledger.Run {
	s.t.Helper()
	await(s.t, "the scan has ended", func() bool { return !s.header().Growing })
	return s.header()
}

// rows returns all committed rows of run0.
func (s *site) rows() (all []ledger.RowState) {
	s.t.Helper()
	run := s.header()
	for number := range run.Segments {
		seg := ledger.Segment{Tenant: tenant, Run: run.ID, Incarnation: run.Incarnation, Number: number}
		for from := ledger.Row(0); ; {
			page, err := s.Rows(s.t.Context(), seg, from, 128)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
			from = page[len(page)-1].Row + 1
		}
	}
	return all
}

// wantRows fails unless run0 is committed with these rows, each once.
func (s *site) wantRows(want []string) {
	s.t.Helper()
	var got []string
	for _, row := range s.rows() {
		var n named
		if err := json.Unmarshal(row.Content, &n); err != nil || row.Err != nil {
			s.t.Fatal(err, row.Err)
		}
		got = append(got, n.Organization+"/"+n.Domain)
	}
	wantNames(s.t, got, want)
	if run := s.header(); run.Rows != int64(len(want)) || run.Growing || len(run.Scan.Note) > 0 {
		s.t.Errorf("%d rows, scan %+v", run.Rows, run.Scan)
	}
}

// TestListedTwice has the lists name organizations and domains again, on the same page and on
// later ones. Each domain would be proven and PATCHed as often, and its event sent.
func TestListedTwice(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		want := s.domains(120)
		s.lists = &shifting{briefAPI: s.api}
		s.pending()
		s.start(s.Ledger)
		s.awaitCommit()
		s.wantRows(want)
	})
}

// TestLedger has two workers: each pending domain is one row.
func TestLedger(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		want := s.domains(350)
		s.pending()
		for range 2 {
			s.start(s.Ledger)
		}
		run := s.awaitCommit()
		s.wantRows(want)
		var p sweep.Progress
		if err := json.Unmarshal(run.Scan.Progress, &p); err != nil || p != (sweep.Progress{Read: 350, Ended: true}) {
			t.Errorf("progress %+v, %v", p, err)
		}
	})
}

// TestLedgerOfASweep: rows are due at their times, and what cannot be checked is settled.
func TestLedgerOfASweep(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		for i := range 20 {
			s.sandbox.AddDomain("org_1", sandbox.Domain{ID: fmt.Sprintf("ord_%d", i),
				Domain: fmt.Sprintf("d%d.example.org", i), Status: "verified"})
		}
		s.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_bad", Status: "verified", Host: "_x.elsewhere.net"})
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		order := sweep.Order{Tick: now.Unix() - 3600, SpreadUntil: now.Unix() + 3600}
		progress, err := scan.SweepProgress(order)
		if err != nil {
			t.Fatal(err)
		}
		s.create(recheck, progress)
		s.start(s.Ledger)
		run := s.awaitCommit()
		if run.Rows != 21 || run.Ended() {
			t.Errorf("run %+v", run)
		}
		late, settled := 0, 0
		for _, row := range s.rows() {
			switch {
			case row.Phase == ledger.PhaseSettled:
				settled++
			case row.Due.After(now.Add(time.Minute)):
				late++
			}
		}
		if late < 3 || late > 17 || settled != 1 {
			t.Errorf("%d rows are due later, want about ten; %d are settled, want one", late, settled)
		}
	})
}

// TestLedgerThatFindsNothing: the run ends without a row.
func TestLedgerThatFindsNothing(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.pending()
		s.start(s.Ledger)
		if run := s.awaitCommit(); !run.Ended() || run.Rows != 0 {
			t.Errorf("run %+v", run)
		}
	})
}

// unsteady is a ledger of which one call in a few fails, before or after its effect.
type unsteady struct {
	engine.Ledger
	calm atomic.Bool
}

func (u *unsteady) fails() bool { return !u.calm.Load() && rand.IntN(6) == 0 }

func (u *unsteady) AddStep(ctx context.Context, scan ledger.Segment, n ledger.Nonce,
	s ledger.ScanStep) (ledger.Status, error) {
	if u.fails() {
		return "", errDead
	}
	status, err := u.Ledger.AddStep(ctx, scan, n, s)
	if u.fails() {
		return "", errDead
	}
	return status, err
}

func (u *unsteady) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	if u.fails() {
		return ledger.Receipt{}, errDead
	}
	r, err := u.Ledger.End(ctx, seg, n, ends...)
	if u.fails() {
		return ledger.Receipt{}, errDead
	}
	return r, err
}

// TestLedgerDisturbed has workers come and go at random while calls fail: each domain is
// one row.
func TestLedgerDisturbed(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		want := s.domains(400)
		s.pending()
		u := &unsteady{Ledger: s.Ledger}
		var stops []func()
		for range 12 {
			stops = append(stops, s.start(u))
			if len(stops) > 2 {
				i := rand.IntN(len(stops))
				stops[i]()
				stops = slices.Delete(stops, i, i+1)
			}
			time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		}
		u.calm.Store(true)
		s.awaitCommit()
		s.wantRows(want)
	})
}

// before does something right before the n-th request is sent.
func (s *site) before(n int64, act func()) {
	s.api.at, s.api.act, s.api.takes = n, act, 200*time.Millisecond
}

// TestLedgerPaused pauses the run in the middle, and resumes it.
func TestLedgerPaused(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		want := s.domains(300)
		s.pending()
		var failed atomic.Value
		s.before(120, func() {
			if err := s.Pause(context.WithoutCancel(t.Context()), tenant, run0); err != nil {
				failed.Store(err)
			}
		})
		s.start(s.Ledger)
		await(t, "the run is paused", func() bool { return s.header().Paused })
		time.Sleep(1500 * time.Millisecond) // requests are sent for a second at most
		before := len(s.sandbox.Requests())
		time.Sleep(time.Second)
		if n := len(s.sandbox.Requests()) - before; n != 0 {
			t.Errorf("%d requests of a paused run", n)
		}
		if err := s.Resume(t.Context(), tenant, run0); err != nil {
			t.Fatal(err)
		}
		s.awaitCommit()
		s.wantRows(want)
		if err := failed.Load(); err != nil {
			t.Error(err)
		}
	})
}

// TestLedgerCancelled cancels the run in the middle: it ends, with the rows that it has.
func TestLedgerCancelled(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.domains(300)
		s.pending()
		s.before(120, func() { _ = s.Cancel(context.WithoutCancel(t.Context()), tenant, run0) })
		s.start(s.Ledger)
		await(t, "the run is cancelled", func() bool { return s.header().Cancelled })
		await(t, "the run ends", func() bool {
			return s.header().Ended()
		})
		time.Sleep(1500 * time.Millisecond)
		before := len(s.sandbox.Requests())
		time.Sleep(500 * time.Millisecond)
		if n := len(s.sandbox.Requests()) - before; n != 0 || before > 300 {
			t.Errorf("%d requests, and %d more of a cancelled run", before, n)
		}
	})
}

// TestLedgerDeleted cancels and deletes the run in the middle, and creates it again: the new
// run has each of its rows once.
func TestLedgerDeleted(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		want := s.domains(200)
		first := s.pending()
		deleted := make(chan error, 1)
		s.before(70, func() {
			ctx := context.WithoutCancel(t.Context())
			deleted <- s.Cancel(ctx, tenant, run0)
		})
		s.start(s.Ledger)
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		await(t, "the run ends", func() bool { return s.header().Ended() })
		if err := s.Delete(t.Context(), tenant, run0); err != nil {
			t.Fatal(err)
		}
		if run := s.pending(); run.Incarnation == first.Incarnation {
			t.Fatal("the run was not deleted")
		}
		s.awaitCommit()
		s.wantRows(want)
	})
}

// TestLedgerAway has Redis refuse everything for a while.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		mini := redistest.Mini(t)
		want := s.domains(250)
		s.pending()
		s.before(60, func() { mini.SetError("LOADING Redis is loading the dataset in memory") })
		s.start(s.Ledger)
		await(t, "the scan has begun", func() bool { return len(s.sandbox.Requests()) >= 60 })
		time.Sleep(2 * time.Second)
		mini.SetError("")
		s.awaitCommit()
		s.wantRows(want)
	})
}
