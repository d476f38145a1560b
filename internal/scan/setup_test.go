package scan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/tasks/handlers"
)

func TestMain(m *testing.M) {
	redistest.Parallel(16)
	goleak.VerifyTestMain(m)
}

const (
	tenant  = ledger.Tenant("acme")
	recheck = ledger.Kind("domain:recheck")
	run0    = ledger.RunID("run0")
)

// start is when the clock of a world begins.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a tenant with a ledger, whose clock advances while a scan waits.
type world struct {
	*ledger.Ledger
	t         *testing.T
	id        ledger.RunID // whose scan workers execute
	redis     *miniredis.Miniredis
	elapsed   atomic.Int64 // since start
	sandbox   *sandbox.Sandbox
	api       func(apiclient.Binding) scan.API
	states    scan.States
	protected []string // organizations
	blocks    []string // operations
	log       bytes.Buffer
	timeout   time.Duration
}

// client is the client of lists and removals.
const client = "client_1"

func (w *world) intake() intake.Intake { return intake.Intake{Ledger: w.Ledger} }

// states are those of domains that have one.
type states map[string]bool

func (s states) Domain(_ context.Context, domain string) ([]byte, error) {
	if !s[domain] {
		return nil, nil
	}
	return []byte(`{"v":1}`), nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sb := newSandbox(t)
	return newWorldOf(t, sb, bound(newClient(t, sb)))
}

func newWorldOf(t *testing.T, sb *sandbox.Sandbox, api func(apiclient.Binding) scan.API) *world {
	t.Helper()
	w := &world{
		Ledger: ledger.New(redistest.New(t)), t: t, id: run0, redis: redistest.Mini(t), states: states{}, sandbox: sb,
		api: api}
	w.advance(0)
	return w
}

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	w.elapsed.Add(int64(d))
	w.redis.SetTime(start.Add(w.sinceStart()))
}

func (w *world) sinceStart() time.Duration { return time.Duration(w.elapsed.Load()) }

// bound returns the API as clients that are bound to executions reach it.
func bound(c *apiclient.Client) func(apiclient.Binding) scan.API {
	return func(b apiclient.Binding) scan.API { return c.For(b) }
}

func newSandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.Start(sandbox.Options{Seed: 1, Resolvers: 1}) // no test needs its DNS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	return sb
}

func newClient(t *testing.T, sb *sandbox.Sandbox) *apiclient.Client {
	t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: sb.BaseURL(), Timeout: 30 * time.Second, Tokens: apiclient.StaticToken(apiclient.NewSecret(sb.Token())),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return client
}

// worker executes the scan's row.
type worker struct {
	*engine.Engine
	session ledger.SessionID
	stop    chan struct{} // closed: the worker stops
}

// worker returns a worker whose calls the saboteur counts, if there is one.
func (w *world) worker(sab *saboteur) worker {
	if sab == nil {
		sab = &saboteur{at: -1}
	}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	own := worker{session: ledger.NewSessionID(), stop: make(chan struct{})}
	own.Engine = engine.New(engine.Config{
		Tenant: tenant, Ledger: sabotagedLedger{w.Ledger, sab}, Session: own.session, Stopping: own.stop,
		Handlers: scan.Handlers(scan.Config{
			API:    func(b apiclient.Binding) scan.API { return sabotagedAPI{sab, w.api(b), b.Class} },
			States: w.states, Lists: w.Ledger, Protected: func(org string) bool { return slices.Contains(w.protected, org) },
			Logger: log,
		}), Timeout: w.timeout, Logger: log,
		Block: func(_ context.Context, operation, _ string, _ apiclient.Fault) error {
			w.blocks = append(w.blocks, operation)
			return nil
		},
	})
	return own
}

// create creates run0.
func (w *world) create(kind ledger.Kind, progress []byte) {
	w.t.Helper()
	_, _, err := w.Create(w.t.Context(), ledger.NewRun{ID: run0, Tenant: tenant, Kind: kind, Scan: progress})
	if err != nil {
		w.t.Fatal(err)
	}
}

// lists creates a run that lists the organizations of a client, and has a worker find its rows.
func (w *world) lists(id ledger.RunID) ledger.Run {
	w.t.Helper()
	run, _, err := w.intake().BeginList(w.t.Context(), client, ledger.NewRun{ID: id, Tenant: tenant})
	if err == nil {
		w.id = id
		w.scanned()
		w.id = run0
		run, err = w.Get(w.t.Context(), tenant, id)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// removes creates run0, which removes the client of a list everywhere.
func (w *world) removes(list ledger.Run) {
	w.t.Helper()
	_, _, err := w.intake().BeginEverywhere(w.t.Context(), list, list.Total(), ledger.NewRun{ID: run0})
	if err != nil {
		w.t.Fatal(err)
	}
}

// pending creates run0: the pending domains of one organization, or of all.
func (w *world) pending(organization string) {
	w.t.Helper()
	w.create(handlers.Verify, progressJSON(w.t, progress.Scan{Organization: organization}))
}

// sweep creates run0, a sweep.
func (w *world) sweep(p progress.Scan) {
	w.t.Helper()
	w.create(recheck, progressJSON(w.t, p))
}

// progress returns the stored form.
func progressJSON(t *testing.T, p progress.Scan) []byte {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// segment returns a segment of run0.
func segment(run ledger.Run, number int) ledger.Segment {
	return ledger.Segment{Tenant: tenant, Run: run.ID, Incarnation: run.Incarnation, Number: number}
}

// release releases the scan's row if it is due and returns its task; else it lets the time pass
// until it is.
func (w *world) release() *asynq.Task {
	w.t.Helper()
	run, err := w.Get(w.t.Context(), "", w.id)
	var r ledger.Release
	if err == nil {
		r, err = w.Release(w.t.Context(), segment(run, ledger.ScanSegment), ledger.Quota{First: 1, Check: 1, Ready: 1})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if len(r.Rows) == 0 {
		w.advance(max(r.Due.Sub(r.Now), time.Second))
		return nil
	}
	run.Kind = ledger.ScanOf(run.Kind)
	return w.task(engine.NewTask(run, segment(run, ledger.ScanSegment), r.Token, r.Rows...))
}

func (w *world) task(t engine.Task) *asynq.Task {
	w.t.Helper()
	payload, err := t.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	return asynq.NewTask(string(t.Kind), payload)
}

// round has a worker execute the scan's row if it is due.
func (w *world) round(of worker) {
	w.t.Helper()
	if task := w.release(); task != nil {
		_ = of.ProcessTask(w.t.Context(), task)
	}
}

// kill has a worker execute the scan's row until the saboteur kills it there, and makes the row due
// again. It reports whether that happened.
func (w *world) kill(sab *saboteur) bool {
	w.t.Helper()
	sab.dies = true
	dying := w.worker(sab)
	for !sab.acted && w.read(w.id).Growing {
		if task := w.release(); task != nil {
			var life sync.WaitGroup
			life.Go(func() { _ = dying.ProcessTask(w.t.Context(), task) })
			life.Wait()
		}
	}
	if run := w.read(w.id).Run; run.ID != "" {
		if _, _, err := w.Reclaim(w.t.Context(), segment(run, ledger.ScanSegment), dying.session); err != nil {
			w.t.Fatal(err)
		}
	}
	return sab.acted
}

// maxRounds is more rounds than any test needs.
const maxRounds = 5000

// drain has a worker work until the scan of run0 has ended.
func (w *world) drain(of worker) {
	w.t.Helper()
	w.until(of, func(r stored) bool { return !r.Growing })
}

// until has a worker work until run0 is so.
func (w *world) until(of worker, holds func(stored) bool) {
	w.t.Helper()
	for range maxRounds {
		if holds(w.read(w.id)) {
			return
		}
		w.round(of)
	}
	r := w.read(w.id)
	w.t.Fatalf("scan %+v, progress %s, position %+v; log:\n%s", r.Scan, r.Scan.Progress, r.position, w.log.String())
}

// scanned has one worker do everything.
func (w *world) scanned() {
	w.t.Helper()
	w.drain(w.worker(nil))
}

// stored is a run with its rows, and the position of its scan.
type stored struct {
	ledger.Run
	rows     []ledger.FoundRow
	position struct {
		Step    int64
		Through bool
		Left    []any
		Late    []any
	}
	scan ledger.RowState
}

// read returns a run; the zero one if it does not exist.
func (w *world) read(id ledger.RunID) (r stored) {
	w.t.Helper()
	var err error
	if r.Run, err = w.Get(w.t.Context(), "", id); errors.Is(err, ledger.ErrNotFound) {
		return stored{}
	} else if err != nil {
		w.t.Fatal(err)
	}
	for number := range r.Segments {
		for _, row := range w.rowsOf(segment(r.Run, number)) {
			r.rows = append(r.rows, ledger.FoundRow{Content: row.Content, Due: row.Due, Result: row.Result})
		}
	}
	r.scan = w.rowsOf(segment(r.Run, ledger.ScanSegment))[0]
	_ = json.Unmarshal(r.scan.Content, &r.position)
	return r
}

// rowsOf returns the rows of a segment.
func (w *world) rowsOf(seg ledger.Segment) (all []ledger.RowState) {
	w.t.Helper()
	for {
		page, err := w.Rows(w.t.Context(), seg, ledger.Row(len(all)), 128)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		if seg.Number == ledger.ScanSegment || len(all) == ledger.SegmentRows {
			return all
		}
	}
}

// progress returns that of run0.
func (w *world) progress() (p progress.Scan) {
	w.t.Helper()
	if err := json.Unmarshal(w.read(run0).Scan.Progress, &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// named is the members of rows of both kinds.
type named struct {
	Organization string `json:"organization_id"`
	Domain       string `json:"discovery_domain_id"`
}

// names returns rows in the form organization/domain.
func names(t *testing.T, rows []ledger.FoundRow) (all []string) {
	t.Helper()
	for _, row := range rows {
		var n named
		if err := json.Unmarshal(row.Content, &n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n.Organization+"/"+n.Domain)
	}
	return all
}

// wantFound fails unless run0 has these rows, each once.
func (w *world) wantFound(want ...string) {
	w.t.Helper()
	wantNames(w.t, names(w.t, w.read(run0).rows), want)
}

func wantNames(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("rows (-want +got):\n%s", gocmp.Diff(want, got))
	}
}

// wantProgress fails unless that is run0's.
func (w *world) wantProgress(want progress.Scan) {
	w.t.Helper()
	if got := w.progress(); got != want {
		w.t.Errorf("progress %+v, want %+v", got, want)
	}
}

// pendingDomains returns the pending domains of the tenant, in the same form.
func pendingDomains(sb *sandbox.Sandbox) (all []string) {
	for _, o := range sb.Organizations() {
		for _, d := range sb.Domains(o) {
			if d.Status == "pending" {
				all = append(all, o+"/"+d.ID)
			}
		}
	}
	return all
}

// refused returns the names and reasons of rows that were settled when they were found.
func (r stored) refused(t *testing.T) (ids, reasons []string) {
	t.Helper()
	for i, name := range names(t, r.rows) {
		row := r.rows[i]
		if row.Result.Outcome == "" {
			continue
		}
		if row.Result.Outcome != ledger.Refused {
			t.Errorf("row %s is settled as %s", name, row.Result.Outcome)
		}
		_, id, _ := strings.Cut(name, "/")
		ids, reasons = append(ids, id), append(reasons, row.Result.Detail)
	}
	return ids, reasons
}

// requests returns the number of requests of these operations; none: of all.
func (w *world) requests(operations ...string) (n int) {
	for _, r := range w.sandbox.Requests() {
		if len(operations) == 0 || slices.Contains(operations, r.Operation) {
			n++
		}
	}
	return n
}

// errDead is the error of each call of a killed worker.
var errDead = errors.New("killed")

// saboteur counts the calls of a worker, and does something before or after one.
type saboteur struct {
	at    int // the number of the call; below 0: never
	after bool
	act   func()
	dies  bool // the worker: no later call has an effect, and this one no answer

	mu    sync.Mutex
	calls []string
	acted bool
	dead  bool
}

// call makes a call, unless the worker is dead.
func (s *saboteur) call(name string, f func() error) error {
	n := s.count(name)
	if err := s.maybe(n, false); err != nil {
		return err
	}
	err := f()
	if dead := s.maybe(n, true); dead != nil {
		return dead
	}
	return err
}

func (s *saboteur) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	return len(s.calls) - 1
}

func (s *saboteur) maybe(n int, after bool) error {
	s.mu.Lock()
	now := n == s.at && after == s.after
	if now {
		s.acted, s.dead = true, s.dies
	}
	dead := s.dead
	s.mu.Unlock()
	if now && s.act != nil {
		s.act()
	}
	if dead {
		return errDead
	}
	return nil
}

// sabotagedLedger ends the goroutine of a worker that is dead, as a killed one does.
type sabotagedLedger struct {
	engine.Ledger
	*saboteur
}

func (l sabotagedLedger) do(name string, f func() error) {
	if err := l.call(name, f); errors.Is(err, errDead) {
		runtime.Goexit()
	}
}

func (l sabotagedLedger) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (b ledger.Begun, err error) {
	l.do("begin", func() error { b, err = l.Ledger.Begin(ctx, seg, e, rows...); return err })
	return b, err
}

func (l sabotagedLedger) AddStep(ctx context.Context, scan ledger.Segment, n ledger.Nonce,
	s ledger.ScanStep) (status ledger.Status, err error) {
	l.do("step", func() error { status, err = l.Ledger.AddStep(ctx, scan, n, s); return err })
	return status, err
}

func (l sabotagedLedger) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (r ledger.Receipt, err error) {
	l.do("end", func() error { r, err = l.Ledger.End(ctx, seg, n, ends...); return err })
	return r, err
}

// class names the class by which a request is paced.
func class(n int) string {
	switch c := pace.Class(n); c {
	case pace.Finish:
		return ""
	case pace.Scan:
		return "finding "
	case pace.Sweep:
		return "sweeping "
	default:
		return fmt.Sprintf("class %d ", c)
	}
}

type sabotagedAPI struct {
	*saboteur
	api   scan.API
	class int
}

func (a sabotagedAPI) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[schema.Organization], next string, err error) {
	err = a.call(class(a.class)+"organizations", func() error {
		page, next, err = a.api.OrganizationsPage(ctx, from)
		return err
	})
	return page, next, err
}

func (a sabotagedAPI) OrganizationsPageFor(ctx context.Context,
	client, from string) (page []apiclient.Listed[schema.OrganizationOf], next string, err error) {
	err = a.call(class(a.class)+"organizations of "+client, func() error {
		page, next, err = a.api.OrganizationsPageFor(ctx, client, from)
		return err
	})
	return page, next, err
}

func (a sabotagedAPI) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []apiclient.Listed[schema.DiscoveryDomain], next string, err error) {
	err = a.call(class(a.class)+"domains", func() error {
		page, next, err = a.api.DiscoveryDomainsPage(ctx, org, from)
		return err
	})
	return page, next, err
}

// domainPage is a page of an organization's domains.
type domainPage = []apiclient.Listed[schema.DiscoveryDomain]

// fake is an API of which a test answers some requests. A page of organizations has one of them.
type fake struct {
	scan.API                                                     // nil: the test answers all requests
	organizations func(from string) (id, next string, err error) // nil: the API's
	// domains gets the client that is bound to the execution; nil: the API's.
	domains func(ctx context.Context, api scan.API, org, from string) (page domainPage, next string, err error)
}

// answered returns api with the answers of f.
func (f fake) answered(api func(apiclient.Binding) scan.API) func(apiclient.Binding) scan.API {
	return func(b apiclient.Binding) scan.API {
		f.API = api(b)
		return f
	}
}

func (f fake) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[schema.Organization], next string, err error) {
	if f.organizations == nil {
		return f.API.OrganizationsPage(ctx, from)
	}
	id, next, err := f.organizations(from)
	return []apiclient.Listed[schema.Organization]{{Record: schema.Organization{ID: id}}}, next, err
}

func (f fake) DiscoveryDomainsPage(ctx context.Context, org, from string) (page domainPage, next string, err error) {
	if f.domains == nil {
		return f.API.DiscoveryDomainsPage(ctx, org, from)
	}
	return f.domains(ctx, f.API, org, from)
}

// onePage is an API whose organizations have one record.
func onePage(record schema.DiscoveryDomain) fake {
	return fake{domains: func(context.Context, scan.API, string, string) (domainPage, string, error) {
		return domainPage{{Record: record}}, "", nil
	}}
}
